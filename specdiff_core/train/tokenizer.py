"""``train tokenizer``: the byte-level BPE that the target and its drafters share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from specdiff_core.train.corpus import Corpus
from specdiff_core.train.jobs import Job
from specdiff_core.train.settings import TokenizerSettings

END_OF_TEXT = "<|endoftext|>"
MASK = "<|mask|>"


class TokenizerJob(Job):
    """One call, without steps."""

    settings: TokenizerSettings
    total = 1

    def events(self) -> Iterator[Any]:
        return iter(())

    def finish(self) -> Path:
        return train_tokenizer(self.corpus, self.settings.out, vocab_size=self.settings.vocabulary)


def train_tokenizer(corpus: Corpus, out: Path, *, vocab_size: int = 4096) -> Path:
    """Train on every flavour's train split and save a transformers fast tokenizer in ``out``.

    Digits are split one by one, so that numbers are spelled the same everywhere; every byte has an id, so that no
    text is out of vocabulary. Ids 0 and 1 are ``<|endoftext|>`` and ``<|mask|>``.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_TEXT, MASK],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=True,
    )
    texts = (text for flavour in corpus.flavours for text in corpus.documents(flavour, "train"))
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]  # untyped in transformers
        tokenizer_object=tokenizer,
        bos_token=END_OF_TEXT,
        eos_token=END_OF_TEXT,
        pad_token=END_OF_TEXT,
        mask_token=MASK,
        model_max_length=512,
        clean_up_tokenization_spaces=False,
    )
    out.mkdir(parents=True, exist_ok=True)
    fast.save_pretrained(out)
    return out
