"""``train export``: a drafter in a layout that a serving engine loads.

Names, shapes and keys are those that the readers of the engines take: vLLM's ``qwen3_dflash.py``, ``qwen3_dspark.py``
and ``configs/speculators``, SGLang's ``models/dflash.py`` and ``dflash_utils.py``, and llama.cpp's ``dflash.cpp``.
Of these only llama.cpp has loaded our files (``python -m benchmarks peers``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from torch import Tensor

from specdiff_core.checkpoints.folders import read_config, read_gguf, short_path
from specdiff_core.checkpoints.gguf import LAYER
from specdiff_core.checkpoints.own_pairs import drafter_kind
from specdiff_core.checkpoints.sources import is_gguf, resolve
from specdiff_core.checkpoints.writing import replacing, write_folder
from specdiff_core.models.causal import read_tables
from specdiff_core.models.dflash import COPIES, PAIR_ROWS, DFlashDraftModel, from_folder, speculators_config
from specdiff_core.models.eagle import Eagle3Head, load_eagle, save_eagle
from specdiff_core.schema.errors import ConfigError, WeightsError
from specdiff_core.train.learners.base import layer_config

LAYOUTS = {"block": ("speculators", "z-lab", "gguf"), "eagle": ("eagle",)}
"""Kind of drafter -> the layouts that engines read."""
TRIED = "xllamacpp 2026.10"
"""The package of llama.cpp that has run a file of ours."""


def export(drafter: Path, layout: str, out: Path, *, target: str = "", verifier: str = "") -> list[str]:
    """Write the drafter in a folder for engines: as a folder, or as a GGUF file.

    Args:
        target: a folder, GGUF file or repository of the model that it was trained for, for what its own files lack.
        verifier: what the engine calls that model; by default what the drafter's config calls it.

    Returns:
        what each engine will do with it, sentence by sentence; a folder's README.md has them, too.

    Raises:
        ConfigError: there is no such layout for this drafter, or ``target`` is missing.
        WeightsError: files are missing or damaged, the target doesn't fit, or no engine has such a network.
    """
    values = read_config(drafter)
    layouts = LAYOUTS.get(drafter_kind(values), ())
    if layout not in layouts:
        hint = f"Give --to {' or '.join(layouts)}." if layouts else "Export a block drafter or an EAGLE head."
        raise ConfigError(f"No engine reads the drafter in {short_path(drafter)} as {layout}.", field="to", hint=hint)
    if out.resolve() == drafter.resolve():
        raise ConfigError("--out is the drafter itself.", field="out", hint="Give another folder.")
    source = resolve(target) if target else None
    if layout == "eagle":
        said = _eagle(drafter, source, out)
    else:
        model = from_folder(drafter)
        if why := _unsupported(model, layout):
            hint = "Export a DFlash or DSpark drafter of `train drafter`."
            raise WeightsError(f"No engine runs this drafter as {layout}: {why}.", hint=hint)
        name = verifier or values.get("speculators_config", {}).get("verifier", {}).get("name_or_path", "")
        write = {"speculators": _speculators, "z-lab": _zlab, "gguf": _gguf}[layout]
        said = write(model, source, out, name or target or "TARGET")
        if left := _left_out(model, layout):
            said.append(left)
    trained_for = values.get("trained_for")
    said.append(
        f"Precision: it was trained on the answers of {trained_for}. With a target of another precision it loads, and "
        "fewer of its drafts are accepted."
        if trained_for
        else "Precision: serve the target in the one that the drafter's card names."
    )
    if layout != "gguf":
        card = drafter / "README.md"
        words = card.read_text(encoding="utf-8") if card.is_file() else f"# {drafter.name}\n"
        lines = "\n".join(f"- {sentence}" for sentence in said)
        (out / "README.md").write_text(f"{words.rstrip()}\n\n## In serving engines\n\n{lines}\n", encoding="utf-8")
    return said


def _unsupported(model: DFlashDraftModel, layout: str) -> str:
    """Why the engines' networks differ from this one; empty if they don't."""
    config: Any = model.config
    if config.conv_kernel_size or config.selector_rank:
        return "it has DFlash 2's convolutions or selector"
    if any(reach is not None for reach in model.reaches):
        return "its layers read a window of the text"
    if config.rope_parameters.get("rope_type", "default") != "default" or config.attention_bias:
        return "its attention has biases or scaled positions"
    if config.input_embedding_scale != 1 or config.output_multiplier != 1 or config.final_logit_softcapping:
        return "its embedding or its logits are scaled"
    return "its anchor's slot predicts, too" if layout == "z-lab" and config.anchor_predicts else ""


def _rank(model: DFlashDraftModel) -> int:
    """The rank of its Markov head, if that is the vanilla one, else 0."""
    config: Any = model.config
    return int(config.markov_width or config.markov_rank) if config.markov_head_type == "vanilla" else 0


def _left_out(model: DFlashDraftModel, layout: str) -> str:
    if layout == "z-lab" and _rank(model):
        return "Left out: its Markov head. SGLang runs one (DSPARK) only where the anchor's slot predicts, too."
    if _rank(model) or (model.markov is None and model.markov_head is None):
        return ""
    how = "train drafter --start FOLDER --only head"
    return f"Left out: its Markov head. The slot's state gates it, and engines know only DSpark's plain one: {how}."


def _tensors(model: DFlashDraftModel) -> dict[str, Tensor]:
    """The network's tensors as files hold them, without its heads."""
    return {name: tensor for name, tensor in model.state_dict().items() if not name.startswith(("markov", "confiden"))}


def _pairs(model: DFlashDraftModel, source: Path | None) -> dict[str, Tensor]:
    """The two tables of a vanilla Markov head, the second for the drafter's words only; nothing without such a head."""
    if not _rank(model):
        return {}
    if model.markov is not None:
        first, second = model.markov.tables(*(table.float() for table in _copies(model, source)))
    else:
        head: Any = model.markov_head
        first, second = head.markov_w1.weight, head.markov_w2.weight
        second = second if model.draft_ids is None else second[model.draft_ids]
    return {"markov_head.markov_w1.weight": first, PAIR_ROWS: second}


def _copies(model: DFlashDraftModel, source: Path | None) -> tuple[Tensor, Tensor]:
    """The target's embedding and the rows of its output head for the drafter's words, ``[n, W]``."""
    if {*COPIES} <= model.copies.keys():
        embedding, rows = (model.copies[name] for name in COPIES)
        return embedding, rows
    embedding, rows = read_tables(_needed(source, "its files lack the target's tables"))
    if embedding.shape != (model.config.vocab_size, model.shape.width):
        raise _misfit(model, embedding)
    return embedding, rows if model.draft_ids is None else rows[model.draft_ids]


def _tables(model: DFlashDraftModel, source: Path | None) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """For a drafter that has some of the target's words: the target's embedding and the rows of these words, and the
    maps between the two; nothing where it has all words, since engines then share the target's."""
    if (ids := model.draft_ids) is None:
        return {}, {}
    copies = dict(zip(COPIES, _copies(model, source), strict=True))
    known = ids.new_zeros(int(model.config.vocab_size)).bool().index_fill(0, ids, True)
    return copies, {"d2t": ids - ids.new_tensor(range(len(ids))), "t2d": known}


def _needed(source: Path | None, why: str) -> Path:
    if source is None:
        hint = "Give --target: the model that the drafter was trained for."
        raise ConfigError(f"The target is needed: {why}.", field="target", hint=hint)
    return source


def _misfit(model: DFlashDraftModel, table: Any) -> WeightsError:
    shape = " × ".join(map(str, table.shape))
    what = f"The drafter needs tables of {model.config.vocab_size} × {model.shape.width}; the target's are {shape}."
    return WeightsError(what, hint="Name the model that the drafter was trained for.")


def _network(model: DFlashDraftModel) -> dict[str, Any]:
    """Qwen3's fields of its config."""
    return {"num_hidden_layers": model.shape.layers, **layer_config(model.config)}


def _block(model: DFlashDraftModel) -> int:
    return int(model.config.block_size) - model.lead


def _speculators(model: DFlashDraftModel, source: Path | None, out: Path, name: str) -> list[str]:
    config, rank, block = model.config, _rank(model), _block(model)
    tables, maps = _tables(model, source)
    values = speculators_config(
        _network(model),
        verifier=name,
        architectures=model.released.get("speculators_config", {}).get("verifier", {}).get("architectures", ()),
        taps=config.target_layer_ids,
        block=block,
        words=int(config.vocab_size) if model.draft_ids is None else len(model.draft_ids),
        mask=int(config.mask_token_id),
        rank=rank,
        anchor=bool(config.anchor_predicts),
    )
    kept = {key: model.released[key] for key in ("trained_for",) if key in model.released}
    write_folder(out, values | kept, _tensors(model) | _pairs(model, source) | tables, tables=maps)
    kind = values["speculators_model_type"]
    asked = f'{{"method": "{kind}", "model": "{out}", "num_speculative_tokens": {block}}}'
    served = "REPOSITORY" if is_gguf(name) else name
    said = [f"vLLM (not run) should load it: vllm serve {served} --speculative-config '{asked}'."]
    if is_gguf(name):
        said.append("vLLM serves safetensors: name that repository with --verifier.")
    return [
        *said,
        "SGLang doesn't read this layout: --to z-lab.",
        "llama.cpp doesn't, either: --to gguf.",
    ]


def _zlab(model: DFlashDraftModel, source: Path | None, out: Path, name: str) -> list[str]:
    config = model.config
    depth = config.num_target_layers
    if depth is None:
        depth = read_config(_needed(source, "its config doesn't say how many layers the target has"))[
            "num_hidden_layers"
        ]
    values = {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        **_network(model),
        "rope_theta": float(config.rope_parameters["rope_theta"]),
        "layer_types": ["full_attention"] * model.shape.layers,
        "sliding_window": None,
        "use_sliding_window": False,
        "num_target_layers": int(depth),
        "block_size": int(config.block_size),
        "dflash_config": {
            "mask_token_id": int(config.mask_token_id),
            "target_layer_ids": [*config.target_layer_ids],
        },
        "dtype": "bfloat16",
    }
    write_folder(out, values, _tensors(model))
    flags = f"--speculative-draft-model-path {out} --speculative-num-draft-tokens {config.block_size}"
    asked = f'{{"method": "dflash", "model": "{out}", "num_speculative_tokens": {_block(model)}}}'
    said = [
        f"SGLang (not run) should load it: --model-path {name} --speculative-algorithm DFLASH {flags}.",
        f"vLLM (not run) should load it: vllm serve {name} --speculative-config '{asked}'.",
        "llama.cpp doesn't read this layout: --to gguf.",
    ]
    if model.draft_ids is not None:
        count, size = len(model.draft_ids), int(config.vocab_size)
        said.append(
            f"This layout has no vocabulary of its own: it drafts all {size:,} words, and was trained for {count:,}."
        )
    return said


def _eagle(drafter: Path, source: Path | None, out: Path) -> list[str]:
    head = load_eagle(drafter)
    if isinstance(head, Eagle3Head):
        raise WeightsError("An EAGLE-3 head is in an engine's layout already.", hint="Use its folder as it is.")
    save_eagle(head, out, embedding=None if source is None else read_tables(source)[0])
    return [
        f"SGLang (not run) should load it: --speculative-algorithm EAGLE --speculative-draft-model-path {out}.",
        'vLLM (not run) should load it (method "eagle") with "architectures": ["LlamaForCausalLM"] in its config.json.',
        "llama.cpp doesn't: it knows EAGLE-3 only.",
    ]


# llama.cpp.

PARTS = {ours: theirs for theirs, ours in LAYER.items()}
"""Our names of a layer's tensors -> llama.cpp's."""
OTHERS = {
    "fc": "fc",
    "hidden_norm": "enc.output_norm",
    "norm": "output_norm",
    "markov_head.markov_w1": "markov_w1",
    "markov_head.markov_w2": "markov_w2",
}


def _gguf(model: DFlashDraftModel, source: Path | None, out: Path, name: str) -> list[str]:
    """A GGUF file of the architecture ``dflash``, with the tokenizer of the target's file and, for a vocabulary of its
    own, the rows of the target's output table as they are stored there."""
    index = read_gguf(_needed(source, "its tokenizer and its output rows go into the file"))
    if index is None:
        raise ConfigError("llama.cpp drafts for a GGUF file.", field="target", hint="Give --target FILE.gguf.")
    reader = gguf.GGUFReader(index.file)
    stored = {tensor.name: tensor for tensor in reader.tensors}
    rows = stored.get("output.weight", stored["token_embd.weight"])
    size = (int(model.config.vocab_size), model.shape.width)
    if tuple(map(int, reversed(rows.shape))) != size:
        raise _misfit(model, rows)
    with replacing(out) as fresh:
        writer = gguf.GGUFWriter(fresh, "dflash")
        for key, field in reader.fields.items():
            if key.startswith("tokenizer.") and not key.endswith("mask_token_id"):
                inner = field.types[-1] if field.types[0] is gguf.GGUFValueType.ARRAY else None
                writer.add_key_value(key, field.contents(), field.types[0], inner)
        _describe(writer, model)
        for key, tensor in (_tensors(model) | _pairs(model, source)).items():
            values = tensor.float().numpy()
            writer.add_tensor(_gguf_name(key), values.astype(np.float32 if values.ndim == 1 else np.float16))
        if model.draft_ids is not None:
            ids = model.draft_ids.numpy()
            writer.add_tensor("output.weight", rows.data[ids], raw_dtype=rows.tensor_type)
            writer.add_tensor("d2t", ids.astype(np.int64))  # ids, not offsets as in safetensors
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    kind = "draft-dspark --spec-draft-p-min 0" if _rank(model) else "draft-dflash"
    flags = f"--spec-type {kind} --spec-draft-n-max {_block(model)}"
    return [
        f"llama.cpp (run with {TRIED}) loads it: llama-server -m {Path(index.file).name} -md {out} {flags}.",
        "vLLM and SGLang don't read it: --to speculators or --to z-lab.",
    ]


def _describe(writer: gguf.GGUFWriter, model: DFlashDraftModel) -> None:
    config, shape = model.config, model.shape
    writer.add_mask_token_id(int(config.mask_token_id))
    counts = {
        "vocab_size": config.vocab_size,
        "context_length": config.max_position_embeddings,
        "embedding_length": shape.width,
        "block_count": shape.layers,
        "feed_forward_length": shape.inner,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads,
        "attention.key_length": shape.head_dim,
        "attention.value_length": shape.head_dim,
        "rope.dimension_count": shape.head_dim,
        "block_size": config.block_size,
    }
    for name, value in counts.items():
        writer.add_uint32(f"dflash.{name}", int(value))
    writer.add_float32("dflash.attention.layer_norm_rms_epsilon", shape.epsilon)
    writer.add_float32("dflash.rope.freq_base", float(config.rope_parameters["rope_theta"]))
    writer.add_array("dflash.target_layers", [layer + 1 for layer in config.target_layer_ids])  # it reads their inputs
    writer.add_bool("dflash.sample_from_anchor", bool(config.anchor_predicts))
    writer.add_bool("dflash.attention.causal", False)


def _gguf_name(name: str) -> str:
    """llama.cpp's name of a tensor."""
    module = name.removesuffix(".weight")
    if module.startswith("layers."):
        _, index, part = module.split(".", 2)
        return f"blk.{index}.{PARTS[part]}.weight"
    return f"{OTHERS[module]}.weight"
