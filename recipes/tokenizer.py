"""The byte-level BPE of a target and its drafters."""

from __future__ import annotations

from corpus import Corpus
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

END_OF_TEXT, MASK = "<|endoftext|>", "<|mask|>"


def train_tokenizer(corpus: Corpus, *, vocabulary: int) -> PreTrainedTokenizerFast:
    """Train on every flavour's train split.

    Digits are split one by one, so that numbers are spelled the same everywhere; every byte has an
    id, so that no text is out of vocabulary. Ids 0 and 1 are ``<|endoftext|>``, with which a prompt
    begins, and ``<|mask|>``.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT, MASK],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=True,
    )
    texts = (text for flavour in corpus.flavours for text in corpus.documents(flavour, "train"))
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{END_OF_TEXT} $A", special_tokens=[(END_OF_TEXT, 0)]
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]  # untyped in transformers
        tokenizer_object=tokenizer,
        bos_token=END_OF_TEXT,
        eos_token=END_OF_TEXT,
        pad_token=END_OF_TEXT,
        mask_token=MASK,
        model_max_length=512,
        clean_up_tokenization_spaces=False,
    )
