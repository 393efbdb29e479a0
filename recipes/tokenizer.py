"""The byte-level BPE of target and drafters: python recipes/tokenizer.py --corpus DIR"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from common import SHIPPED, CorpusSettings, run
from corpus import Corpus
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from specdiff_core.schema.fields import ask

END_OF_TEXT, MASK = "<|endoftext|>", "<|mask|>"


class Settings(CorpusSettings, frozen=True, kw_only=True):
    vocabulary: Annotated[int, ask("", "entries; tokens are stored in 16 bits", 258, 2**16)] = 4096


def train_tokenizer(corpus: Corpus, out: Path, *, vocab_size: int) -> Path:
    """Train on every flavour's train split and save a transformers fast tokenizer in ``out``.

    Digits are split one by one, so that numbers are spelled the same everywhere; every byte has an
    id, so that no text is out of vocabulary. Ids 0 and 1 are ``<|endoftext|>`` and ``<|mask|>``.
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


def main(settings: Settings) -> Path:
    out = settings.out or SHIPPED / "tokenizer"
    return train_tokenizer(Corpus.open(settings.corpus), out, vocab_size=settings.vocabulary)


if __name__ == "__main__":
    sys.exit(run(main, Settings()))
