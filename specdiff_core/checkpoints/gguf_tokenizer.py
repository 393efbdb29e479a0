"""The tokenizer of a GGUF file, by llama.cpp's rules; rejects those that are unknown here."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib import import_module
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from specdiff_core.checkpoints.gguf_file import Header

NORMAL, CONTROL, DEFINED, BYTE = 1, 3, 4, 6
"""Types of tokens; control tokens and other added ones (DEFINED) are matched as a whole."""
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|"
CASES = (  # a word ends before its next capital
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
)
SIGNS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)
DIGITS = [pre_tokenizers.Digits(individual_digits=True), BYTES]
HAN = "[一-龥ࠀ-一가-퟿]+"


def _split(*patterns: str) -> list[pre_tokenizers.PreTokenizer]:
    """Splits a text by each pattern in turn, then into bytes."""
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    return [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]


LLAMA3 = _split(SHORT + WORDS + r"\p{N}{1,3}" + SIGNS)
WHOLE_WORDS = ("llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "tekken")
"""A word of the vocabulary is one token, whatever the merges; a text has a bos."""
SPLITS: dict[str, list[pre_tokenizers.PreTokenizer]] = {
    **dict.fromkeys((*WHOLE_WORDS, "smaug-bpe"), LLAMA3),
    "gpt-2": [BYTES],
    "smollm": DIGITS,
    "starcoder": DIGITS,
    "qwen2": _split(SHORT + WORDS + r"\p{N}" + SIGNS),
    "deepseek-r1-qwen": _split(SHORT + WORDS + r"\p{N}" + SIGNS),
    "tekken": _split(CASES + r"\p{N}" + SIGNS.replace("[\\r\\n]*", "[\\r\\n/]*")),
    "deepseek-llm": _split(
        r"[\r\n]", r"\s?[\p{Lu}\p{Ll}\p{Lt}]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", HAN, r"\p{N}+"
    ),
    "deepseek-coder": _split(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", HAN, r"\p{N}"),
    "default": _split(
        r"[\p{P}\$\+<=>\^~\|]+",
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
        r"\p{N}+",
        r"[0-9][0-9][0-9]",
    ),
}
"""Pre-tokenizers by a file's ``tokenizer.ggml.pre``, as in llama.cpp; its regular expressions are those
of the released tokenizers."""


def tokenizer_files(header: Header, rows: int) -> tuple[Tokenizer, dict[str, Any]]:
    """``tokenizer.json`` and ``tokenizer_config.json``, for an embedding with ``rows`` rows."""

    def field(name: str, default: Any = None) -> Any:
        return header.fields.get(f"tokenizer.ggml.{name}", default)

    tokens, types, kind = field("tokens"), field("token_type") or (), field("model")
    if len(tokens) > rows:
        raise ValueError(f"{len(tokens):,} tokens for an embedding of {rows:,} rows")
    names = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}
    vocabulary = dict[str, int]()
    for i, token in enumerate(tokens):
        if token in vocabulary and (i >= len(types) or types[i] in (NORMAL, BYTE)):
            header.refuse(f"two of its tokens, {vocabulary[token]} and {i}, are {token!r}")
        vocabulary[f"<unused {i}>" if token in vocabulary else token] = i
    spelled = list(vocabulary)
    special = {f"{key}_token": spelled[at] for name, key in names.items() if (at := header.token(name)) is not None}
    for name, kinds in (("merges", ("gpt2",)), ("scores", ("llama",))):
        if kind in kinds and len(field(name) or ()) < 1:
            header.refuse(f"it has no tokenizer.ggml.{name}, without which no text can be split")
    if kind == "gpt2":
        pre = field("pre", "default")  # as llama.cpp, which warns that the file is old
        if pre not in SPLITS:
            header.refuse(f"it splits text by rules that are not known here (tokenizer.ggml.pre is {pre!r})")
        tokenizer = _byte_level(vocabulary, field("merges"), pre)
        begins = pre in WHOLE_WORDS
    elif kind == "llama":
        controls = {token for token, type in zip(tokens, types, strict=False) if type == CONTROL}
        prefix = bool(field("add_space_prefix", True))
        tokenizer = _sentencepiece(vocabulary, field("scores"), controls, special.get("unk_token"), prefix)
        begins = True
    else:
        header.refuse(f"its tokenizer is of the kind {kind!r}")
    for token, type in zip(vocabulary, types, strict=False):
        if type in (CONTROL, DEFINED):
            added = AddedToken(token, special=type == CONTROL, normalized=False)
            (tokenizer.add_special_tokens if type == CONTROL else tokenizer.add_tokens)([added])
    if field("add_bos_token", begins) and "bos_token" in special:
        first = special["bos_token"]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[first, "$A"], pair=[first, "$A", first, "$B"], special_tokens=[(first, vocabulary[first])]
        )
    config = {
        **special,
        "tokenizer_class": "TokenizersBackend",
        "clean_up_tokenization_spaces": False,
        "model_max_length": header.fields[f"{header.fields['general.architecture']}.context_length"],
    }
    if isinstance(template := header.fields.get("tokenizer.chat_template"), str):
        config["chat_template"] = template
    return tokenizer, config


def _byte_level(vocabulary: dict[str, int], merges: Sequence[str], pre: str) -> Tokenizer:
    """A byte-level BPE tokenizer, as GPT-2's."""
    pairs = [(first, second) for first, second in (merge.split(" ") for merge in merges)]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs, ignore_merges=pre in WHOLE_WORDS))
    if pre in ("qwen2", "deepseek-r1-qwen"):
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(SPLITS[pre])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentencepiece(
    vocabulary: dict[str, int], scores: Sequence[float], controls: Collection[str], unknown: str | None, prefix: bool
) -> Tokenizer:
    """A SentencePiece tokenizer, which merges in the order of scores. With ``prefix`` a blank comes before
    a text, and before what follows a token that is matched as a whole, as in llama.cpp."""
    ordered = import_module("transformers.convert_slow_tokenizer").generate_merges  # moved in 5.24
    merges = ordered(vocabulary, dict(zip(vocabulary, scores, strict=True)), controls)
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    )
    blank, strip = ([normalizers.Prepend("▁")], [decoders.Strip(" ", 1, 0)]) if prefix else ([], [])
    tokenizer.normalizer = normalizers.Sequence([*blank, normalizers.Replace(" ", "▁")])
    texts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    tokenizer.decoder = decoders.Sequence(texts)
    return tokenizer
