"""One network for all: transformers' numbers, and the same bits at every width."""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from branches import cell
from checkpoints import close, randomly, save
from families import FAMILIES, SIZES
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
)

from specdiff_core import warm_up
from specdiff_core.checkpoints.quantising import EMBEDDING
from specdiff_core.checkpoints.writing import shrink
from specdiff_core.engine import Engine
from specdiff_core.maths.trees import ROOT
from specdiff_core.models import kernels
from specdiff_core.models.cache import BLOCK, BORDERS, split_rows
from specdiff_core.models.causal import load_causal, load_stock, unsupported
from specdiff_core.models.device import cpu_threads
from specdiff_core.models.kernels import PACKED, PLAIN, Product, kernel
from specdiff_core.models.network import CausalLM
from specdiff_core.models.reader import NetworkSession
from specdiff_core.models.target import Target
from specdiff_core.processor import computes_bf16
from specdiff_core.schema.errors import WeightsError
from specdiff_core.schema.events import RunStarted
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.summary import header_of

CPU = torch.device("cpu")
PARENTS = [ROOT, ROOT, 0, 2, 1]


@pytest.fixture(scope="module", params=list(FAMILIES))
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Target, Target]:
    """The same checkpoint in this lab's network and in transformers' own module."""
    config = FAMILIES[request.param]
    folder = tmp_path_factory.mktemp("family")
    model = randomly(AutoModelForCausalLM.from_config(config, dtype=torch.float32))
    model.save_pretrained(folder)
    ours, why = load_causal(folder, torch.float32, context=100)
    assert isinstance(ours, CausalLM) and not why
    return Target(ours, context=100), Target(model, context=100)


@torch.inference_mode()
def test_every_family_says_what_transformers_says(both: tuple[Target, Target]) -> None:
    """Logits and every layer's features: prefill, windows, rollbacks, trees in one pass or two."""
    runs = [target.start((0, 1, 2)) for target in both]

    def agree(do: Any) -> None:
        ours, theirs = (do(run) for run in runs)
        for name in ("logits", "features"):
            close(getattr(ours, name), getattr(theirs, name))

    for run in runs:
        run.read([3, 5, 8, 9, 2, 7])
    agree(lambda run: run.score([4, 11, 12]))
    for run in runs:
        run.rollback(3, (0,))
    agree(lambda run: run.score([21, *range(30, 35)], PARENTS))
    for run in runs:
        run.rollback(6, (0, 1, 3))
    agree(lambda run: run.score([50], last=1))
    agree(lambda run: run.score([51, 7, 9], PARENTS[:2]))
    agree(lambda run: run.score([11, 13, 15], PARENTS))
    for run in runs:
        run.rollback(6, (0, 1))
    agree(lambda run: run.score(list(range(2, 40))))
    assert runs[0].length == runs[1].length and runs[0].room == runs[1].room


LONGEST = 33  # tokens of a pass: a window and its anchor


def split(length: int, seed: int, most: int = LONGEST) -> list[int]:
    draw, widths = random.Random(seed), []
    while sum(widths) < length:
        widths.append(min(draw.choice([1, 1, 2, 3, 5, 9, 16, 17, most]), length - sum(widths)))
    return widths


def in_parts(target: Target, ids: Sequence[int], widths: Sequence[int], *, refused: int = 0) -> Tensor:
    """Logits of ``ids`` in passes of so many tokens, each with ``refused`` ones rolled back."""
    run, found, first = target.start(), [], 0
    for width in widths:
        wrong = [5] * min(refused, run.room - width, LONGEST - width)
        found.append(run.score([*ids[first : first + width], *wrong]).logits[:width])
        run.rollback(width + len(wrong), range(width))
        first += width
    return torch.cat(found)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.load("embedded", device="cpu", dtype="fp32", drafters=["none", "block"])


@pytest.fixture(scope="module")
def fp32(engine: Engine) -> Target:
    return engine.target


@pytest.fixture(scope="module")
def bf16() -> Target:
    if not computes_bf16():
        pytest.skip("this processor does not compute bf16")
    return Engine.load("embedded", device="cpu", dtype="bf16", drafters=[]).target


IDS = [7919 * i % 4096 for i in range(512)]


ALONE = 40
"""Last tokens of a text that are read one by one, in the quick tests."""


@functools.cache
def one_by_one(target: Target, length: int, alone: int) -> Tensor:
    """Logits behind the last ``alone`` tokens."""
    with cpu_threads(1):
        return in_parts(target, IDS[:length], [*split(length - alone, 2), *[1] * alone])[-alone:]


@pytest.mark.parametrize(
    "dtype, threads, length",
    [
        ("fp32", 1, 200),  # beyond the first border of the attention's sums
        ("fp32", 2, 24),  # threads that wait for each other are slow beside other tests
        ("bf16", 1, 40),
        *(cell(dtype, threads, 512, quick=False) for dtype in ("fp32", "bf16") for threads in (1, 2, 4)),
    ],
)
def test_a_token_has_the_same_bits_at_every_width(
    request: pytest.FixtureRequest, dtype: str, threads: int, length: int
) -> None:
    """Over the whole context, with drafts refused in between; also on another number of threads."""
    target: Target = request.getfixturevalue(dtype)
    assert target.exactness() == "bitwise"
    with cpu_threads(threads):
        found = in_parts(target, IDS[:length], split(length, 1), refused=7)
        alone = length if length == len(IDS) else min(length, ALONE)
        assert torch.equal(found[-alone:], one_by_one(target, length, alone))


def test_a_kernel_that_rounds_by_width_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The self-test can fail: it sees sums that depend on the number of rows, as MKL's do."""

    def rounding(self: Product, rows: Tensor, residual: Tensor | float = 0.0) -> Tensor:
        out = rows @ self._weight.t()
        return residual + (out if rows.shape[-2] % 2 else out * (1 + 2**-22))

    monkeypatch.setattr(kernels, "kernel", lambda device, dtype: PLAIN)
    monkeypatch.setattr(Product, "__call__", rounding)
    assert Engine.load("embedded", device="cpu", drafters=[]).target.exactness() == "rounding"


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("plain", [False, True])
@torch.inference_mode()
def test_products_side_by_side_are_the_products(bias: bool, plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if plain:
        monkeypatch.setattr(kernels, "kernel", lambda device, dtype: PLAIN)
    parts = [torch.nn.Linear(24, out, bias) for out in (8, 40)]
    rows, residual = torch.randn(9, 24), torch.randn(9, 48)
    expected = torch.cat([part(rows) for part in parts], -1)
    product = Product.of(parts, keep=True)
    torch.testing.assert_close(product(rows), expected)
    torch.testing.assert_close(product(rows, residual), expected + residual)
    torch.testing.assert_close(torch.cat([part(rows) for part in parts], -1), expected)
    torch.testing.assert_close(Product.of(parts)(rows), expected)
    assert all(part.weight.is_meta for part in parts) == product.packed, "no weight is held twice"


def test_the_kernel_depends_on_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernel(torch.device("meta"), torch.float32) == PLAIN
    assert kernel(CPU, torch.float16) == PLAIN
    monkeypatch.setattr(kernels, "computes_bf16", lambda: False)
    assert kernel(CPU, torch.bfloat16) == PLAIN, "emulated bf16 would be slower"
    monkeypatch.setattr(kernels, "OPERATORS", ("a_torch_without_them",))
    assert kernel(CPU, torch.float32) == PLAIN


@given(held=st.integers(0, 2000), new=st.integers(1, 600))
def test_rows_are_read_in_lengths_that_round_alike(held: int, new: int) -> None:
    parts = split_rows(held, new)
    assert [first for first, _, _ in parts] == [0, *(end for _, end, _ in parts[:-1])] and parts[-1][1] == new
    for first, end, room in parts:
        assert room >= held + end, "every row may read itself"
        for row in (held + first, held + end - 1):
            begin = row // BLOCK * BLOCK
            if row - begin >= BORDERS[0]:
                assert room - begin == next(border for border in BORDERS if row - begin < border)
            else:
                assert room - begin <= BORDERS[0]


def test_what_a_broken_run_left_behind_harms_nobody(fp32: Target) -> None:
    """A number that is none, hidden by a mask, would still be one in every sum."""
    broken: Any = fp32.start()
    broken.read(IDS[:50])
    cache = broken._cache
    with torch.inference_mode():
        for part in cache.views(0, cache.room):
            part.fill_(torch.nan)
    del part, cache, broken
    assert bool(torch.isfinite(fp32.start().score([9]).logits).all())


def refusal(**changes: Any) -> str:
    family = changes.pop("family", LlamaConfig)
    return unsupported(family(**SIZES | changes), context=100)


def test_what_the_network_cannot_run_goes_to_transformers_with_its_reason() -> None:
    from transformers import Gemma2Config

    assert not refusal()
    assert "family" in refusal(family=Gemma2Config)
    assert "sliding window of 16" in refusal(family=MistralConfig, sliding_window=16)
    assert "sliding window" in refusal(
        family=Qwen2Config, use_sliding_window=True, sliding_window=16, max_window_layers=1
    )
    assert "quantised" in refusal(quantization_config={"quant_method": "awq"})
    odd = LlamaConfig(**SIZES)
    odd.head_dim = 7  # newer versions of transformers refuse it themselves
    assert "odd size" in unsupported(odd, 100)
    assert "activation" in refusal(hidden_act="gelu")
    dynamic = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
    assert "'dynamic'" in refusal(rope_parameters=dynamic)
    assert "variant" in unsupported(GPT2Config(activation_function="relu"), 100)
    assert "64 positions" in unsupported(GPT2Config(n_positions=64), 100)
    assert "a part of each head" in refusal(rope_parameters={"rope_theta": 1e4, "partial_rotary_factor": 0.5})


@pytest.mark.parametrize("border", [1, *BORDERS[:2]])
def test_the_self_test_reads_across_every_border(fp32: Target, monkeypatch: pytest.MonkeyPatch, border: int) -> None:
    """Wide passes that round differently there are enough, even if their keys and values are the same."""
    forward = NetworkSession.forward

    def wide(self: NetworkSession, ids: Sequence[int], *others: Any) -> Any:
        first = self.length
        logits, outputs = forward(self, ids, *others)
        return logits + (len(ids) > 8 and first < border < first + len(ids)), outputs

    monkeypatch.setattr(NetworkSession, "forward", wide)
    assert Target(fp32.model, context=fp32.context).exactness() == "rounding"


def test_a_sliding_window_runs_in_transformers_module(tmp_path: Path) -> None:
    """And can be rolled back beyond its window."""
    config = MistralConfig(**SIZES, sliding_window=8)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    model, why = load_causal(tmp_path, torch.float32, context=100)
    assert not isinstance(model, CausalLM) and "sliding window" in why
    target = Target(model, context=100)
    assert target.exactness() == "rounding"
    run = target.start()
    run.read(list(range(2, 30)))
    close(run.score([7, 8, 9]).logits[-1], model(torch.tensor([[*range(2, 30), 7, 8, 9]])).logits[0, -1])
    run.rollback(3, (0,))
    close(run.score([11]).logits[-1], model(torch.tensor([[*range(2, 30), 7, 11]])).logits[0, -1])


@pytest.mark.parametrize(
    ("name", "tensor", "words"),
    [
        ("layers.1.mlp.up_proj.weight", None, "missing"),
        ("layers.9.mlp.up_proj.weight", torch.zeros(2), "unknown tensor"),
        ("norm.weight", torch.zeros(31), "shape"),
        ("norm.weight", torch.full((32,), torch.nan), "values that are not finite"),
        ("norm.weight", torch.full((32,), 1e300, dtype=torch.float64), "values that are not finite"),
        ("norm.weight", torch.ones(32, dtype=torch.int8), "stored as int8"),
        ("norm.weight_scale", torch.ones(32, 1), "a scale per row"),
    ],
)
def test_a_damaged_checkpoint_is_named(tmp_path: Path, name: str, tensor: Tensor | None, words: str) -> None:
    model = AutoModelForCausalLM.from_config(FAMILIES["llama"])
    tensors = {**model.state_dict(), f"model.{name}": tensor}
    tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    save(tmp_path, tensors, model.config.to_dict())
    with pytest.raises(WeightsError, match=words):
        load_causal(tmp_path, torch.float32, context=100)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("family", ["llama, tied", "qwen2"])
def test_a_quantised_checkpoint_reads_back_within_half_a_step(tmp_path: Path, family: str, bits: int) -> None:
    """Half of the finest step that 8 bits allow; with 4, of the widest, where the largest values may be clipped."""
    config = copy.deepcopy(FAMILIES[family])
    config.intermediate_size = 64
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    before = load_stock(tmp_path, torch.float32).state_dict()
    for _ in range(2):  # a second time changes nothing
        shrink(tmp_path, bits)
    after = load_stock(tmp_path, torch.float32).state_dict()
    assert before.keys() == after.keys()
    small = {name for name, tensor in after.items() if not torch.equal(tensor, before[name])}
    assert small == {name for name, tensor in before.items() if tensor.ndim == 2 and not name.endswith(EMBEDDING)} - (
        {"lm_head.weight"} if FAMILIES[family].tie_word_embeddings else set()
    )
    for name in small:
        groups, read = (
            tensors[name].unflatten(1, (-1, 32 if bits == 4 else tensors[name].shape[1])) for tensors in (before, after)
        )
        step = groups.abs().amax(2, keepdim=True) / (2 ** (bits - 1) - 1)
        off = (read - groups).abs()
        assert bool((off <= step * 0.501).float().mean() > (0.97 if bits == 4 else 0.999)), name
        assert bool((off <= step * (2.5 if bits == 4 else 0.501)).all()), name
    models = load_causal(tmp_path, torch.float32, context=100)[0], load_stock(tmp_path, torch.float32)
    assert isinstance(models[0], CausalLM)
    with torch.inference_mode():
        close(*(Target(model, context=100).start().score([5, 7, 59, 1]).logits for model in models))


@pytest.mark.parametrize(("model", "words"), [
    ("mamba", "cannot be decoded here"), ("bert", "cannot be decoded here"), ("gpt2", "64 positions"),
    ("phi3", "depend on the length"), ("tied", "ties the output head"),
])  # fmt: skip
def test_what_would_decode_wrongly_is_refused(tmp_path: Path, model: str, words: str) -> None:
    """No cache, both directions, too few or varying positions, a head that is not tied."""
    import transformers

    sizes = {"vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    longrope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
    configs: dict[str, Callable[[], Any]] = {
        "mamba": lambda: transformers.MambaConfig(vocab_size=61, hidden_size=32, num_hidden_layers=2, state_size=4),
        "bert": lambda: transformers.BertConfig(**sizes, intermediate_size=64, is_decoder=False),
        "gpt2": lambda: GPT2Config(vocab_size=61, n_embd=32, n_layer=2, n_head=4, n_positions=64),
        "phi3": lambda: LlamaConfig(**sizes, intermediate_size=64, rope_parameters=longrope),
        "tied": lambda: LlamaConfig(**sizes, intermediate_size=64, tie_word_embeddings=False),
    }
    AutoModelForCausalLM.from_config(configs[model]()).save_pretrained(tmp_path)
    if model == "tied":
        file = tmp_path / "config.json"
        file.write_text(file.read_text().replace('"tie_word_embeddings": false', '"tie_word_embeddings": true'))
    with pytest.raises(WeightsError, match=words):
        load_causal(tmp_path, torch.float32, context=100)


@pytest.mark.parametrize("inner, threads", [(1408, 1), (3072, 2)])
def test_wide_networks_have_the_same_bits_too(inner: int, threads: int) -> None:
    """Long sums of a single row, and activations that threads share."""
    if kernel(CPU, torch.float32) is not PACKED:
        pytest.skip("no packed products here")
    network = CausalLM(LlamaConfig(**SIZES | {"intermediate_size": inner}), context=200)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    target = Target(network.freeze(), context=200)
    ids = [7 * i % SIZES["vocab_size"] for i in range(120 // threads**2)]
    with cpu_threads(threads):
        one, whole = target.start(), target.start()
        singles = torch.cat([one.score([token]).logits for token in ids])
        assert torch.equal(whole.score(ids).logits, singles) and target.exactness() == "bitwise"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("threads", [(1, 1), (1, 2), (2, 1)])
def test_threads_come_back_in_whatever_order_runs_end(
    engine: Engine, threads: tuple[int, int], order: tuple[int, int]
) -> None:
    config = DecodeConfig(drafter="none", max_new_tokens=2)
    with cpu_threads(3):
        runs = [engine.decode("Once", config, threads=count) for count in threads]
        for run, count in zip(runs, threads, strict=True):
            header = next(run)
            while not isinstance(header, RunStarted):
                header = next(run)
            assert header.threads == torch.get_num_threads() == count
        for number, left in zip(order, (1 - order[0], None), strict=True):
            list(runs[number])
            assert left is None or torch.get_num_threads() in {threads[left], threads[1]}
        assert torch.get_num_threads() == 3


@pytest.mark.parametrize("drafter", ["none", "block"])
def test_a_run_reads_every_token_once(engine: Engine, monkeypatch: pytest.MonkeyPatch, drafter: str) -> None:
    """The rows of the target's passes are the prompt's, then each round's anchor and draft. The
    baseline is not slowed: no second pass, no wider one, no unused row of the head."""
    assert engine.target.exactness(), "the self-test has passes of its own"
    network, passes = engine.target.model, []
    decode = network.decode

    def counted(ids: Tensor, *args: Any, **values: Any) -> Any:
        logits, outputs = decode(ids, *args, **values)
        passes.append((ids.shape[1], logits.shape[1]))
        return logits, outputs

    monkeypatch.setattr(network, "decode", counted)
    prompt = "Once upon a time"
    config = DecodeConfig(drafter=drafter, gamma=4, max_new_tokens=12, ignore_eos=True)
    run = fold([*engine.decode(prompt, config, threads=1)])
    prefill, *rounds = passes
    assert prefill == (len(engine.encode(prompt)) - 1, 0) and len(rounds) == run.target_calls
    assert all(rows == said for rows, said in rounds)
    assert sum(rows for rows, _ in rounds) == run.target_calls + run.drafted
    assert run.drafted > 0 if drafter == "block" else rounds == [(1, 1)] * 12


def test_a_probe_chooses_the_threads_and_the_text_does_not_depend_on_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_up, "PROBES", 1)  # waiting threads are slow
    config = DecodeConfig(drafter="block", gamma=9, max_new_tokens=3, ignore_eos=True)
    texts = set()
    with cpu_threads(2):
        for fixed, asked in ((None, None), (None, 2), (2, None), (2, 1)):
            own = Engine(engine.pair, threads=fixed)
            own.target._exactness[2] = own.target._exactness[1] = "bitwise"
            *events, last = own.decode("Once upon a time", config, threads=asked)
            header = header_of(events)
            assert header is not None and header.threads in ({1, 2} if asked is fixed else {asked or fixed})
            assert ("a probe chose" in header.reason) == (fixed is asked is None) and own.threads == (
                fixed or own.threads
            )
            texts.add(last.ids)
        assert torch.get_num_threads() == 2, "given back after the run"
    assert len(texts) == 1
