"""The doctor names faults in a pair."""

from __future__ import annotations

import copy
import dataclasses
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import IDS, save, save_tokenizer
from exploring import explore
from gguf import GGMLQuantizationType as Kind
from gguf_files import convert
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

import specdiff_core as lab
from specdiff_core.cli import main
from specdiff_core.drafters.base import Draft, Drafter, Stateless
from specdiff_core.drafters.block_diffusion import BlockDrafter
from specdiff_core.drafters.eagle import EagleSession
from specdiff_core.engine import Engine
from specdiff_core.explorations.doctor import Doctor
from specdiff_core.explorations.study import drafting, variants
from specdiff_core.explorations.study.variants import _with as changed
from specdiff_core.models.causal import read_tables
from specdiff_core.models.dflash import COPIES
from specdiff_core.models.reader import NetworkSession
from specdiff_core.schema import reported
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.pairs import EMBEDDED

pytestmark = pytest.mark.early
FEW: dict[str, Any] = {"tokens": 40, "flavours": "stories,dialogue,code", "per_flavour": 2, "gamma": 4}


def with_drafter(engine: Engine, name: str, drafter: Drafter) -> Engine:
    """The same pair with another drafter of this name."""
    return Engine(dataclasses.replace(engine.pair, drafters={**engine.pair.drafters, name: drafter}))


def examined(engine: Engine, name: str, **values: Any) -> Any:
    return explore(Doctor, engine, **{**FEW, "drafter": name, "pair": engine.pair.spec.name, **values}).result


@pytest.fixture(scope="module")
def engine() -> Engine:
    return lab.load(drafters=["masked", "block", "block_markov", "eagle", "none"])


WRITTEN: dict[tuple[Any, ...], drafting.Text] = {}


def written_once(
    engine: Engine, ids: Sequence[int], tokens: int, layers: Sequence[int], stopped: Any, write: Any = drafting.write
) -> drafting.Text:
    """A text of the target, written once for all tests: that takes most of their time."""
    norms = sum(float(one.sum()) for one in engine.target.model.parameters() if one.ndim == 1 and not one.is_meta)
    key, size = (engine.pair.spec.target, norms, tuple(ids)), len(ids) + tokens
    if key not in WRITTEN or len(WRITTEN[key].ids) < size:
        WRITTEN[key] = write(engine, ids, tokens, range(engine.target.model.config.num_hidden_layers), stopped)
    text = WRITTEN[key]
    features = {layer: text.features[layer][: size - 1] for layer in layers}
    return drafting.Text(text.ids[:size], text.prompt, features)


@pytest.fixture(autouse=True)
def _fewer_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafting, "EVERY", 6)
    monkeypatch.setattr(drafting, "write", written_once)


def slow_but(names: Iterable[str], *quick: str) -> Any:
    """Parameters of which the default run takes the ``quick`` ones."""
    return [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in names]


# Sound pairs.


@pytest.mark.parametrize("name", slow_but(["masked", "block", "block_markov", "eagle"], "block"))
def test_a_sound_drafter_is_found_correctly_declared(engine: Engine, name: str) -> None:
    before = {key: value.clone() for key, value in weights(engine, name).items()}
    final = examined(engine, name)
    assert final.facts["verdict"] == "right", final.facts["findings"]
    declared, *others = final.rows
    assert declared["drafts"] == sum(row["texts"] for row in final.rows[:1]) * 7
    assert declared["tau"] > 1.8
    assert len(declared["alpha_at"]) == 4
    assert all(0 < alpha <= 1 for alpha in declared["alpha_at"])
    own = {
        "block": {"shift", "mask id", "feature layers", "embedding of the anchor slot", "positions"},
        "masked": {"mask id"},
        "eagle": {"shift", "feature layers"},
    }
    expected = own[name.split("_")[0]]
    assert {row["declaration"] for row in others} == expected
    assert set(final.facts["not_changed"]) == set(variants.DECLARATIONS) - expected
    assert all(torch.equal(value, before[key]) for key, value in weights(engine, name).items())


def weights(engine: Engine, name: str) -> dict[str, Tensor]:
    drafter: Any = engine.pair.drafters[name]
    own = getattr(drafter, "model", None) or getattr(drafter, "network", None) or drafter.reader.model
    return {key: value for key, value in own.state_dict().items() if not value.is_meta}


def test_too_few_texts_are_reported(engine: Engine) -> None:
    final = examined(engine, "block", texts="Once upon a time\nThe dog", tokens=16)
    assert final.facts["verdict"] == "unknown"
    assert "at least 6" in final.facts["findings"][0]
    assert final.rows[1]["low"] is None


# Faults in the embedded pair.


class Displaced(BlockDrafter):
    """Its block stands one position too near to what it reads."""

    def denoise(self, ids: Tensor, positions: Any, attend: Any) -> tuple[Tensor, Tensor]:
        where = slice(positions.start - 1, positions.stop - 1)
        return super().denoise(ids, where, attend)


class Anchorless(BlockDrafter):
    """Its anchor's slot holds a mask."""

    def denoise(self, ids: Tensor, positions: Any, attend: Any) -> tuple[Tensor, Tensor]:
        masked = torch.cat([ids.new_tensor([self.mask_id]), ids[1:]])
        return super().denoise(masked, positions, attend)


class Offset(BlockDrafter):
    """Its anchor's slot is taken to predict the first token."""

    def denoise(self, ids: Tensor, positions: Any, attend: Any) -> tuple[Tensor, Tensor]:
        embeddings = self.words.embed(ids)[None]
        rope = (self.rope[0][:, :, positions], self.rope[1][:, :, positions])
        states = self.network.denoise(embeddings, rope, attend)[0, :-1]
        return states, self.words.head(states)


class Late(EagleSession):
    """Each token is paired with the feature of the token before it."""

    row: Any = None

    def observe(self, ids: Any, features: Any) -> None:
        if len(ids):
            first = features[:1] if self.row is None else self.row
            self.row, features = features[-1:], torch.cat([first, features[:-1]])
        super().observe(ids, features)


FAULTS: dict[str, tuple[str, Callable[[Any], Any], str, str]] = {
    "block mask": ("block", lambda one: changed(one, mask_id=77), "mask id", "1 “<|mask|>”"),
    "block anchor": (
        "block",
        lambda one: changed(one, __class__=Anchorless),
        "embedding of the anchor slot",
        "the anchor’s own",
    ),
    "block positions": ("block", lambda one: changed(one, __class__=Displaced), "positions", "1"),
    "block shift": ("block", lambda one: changed(one, __class__=Offset), "shift", "−1"),
    "block layers": ("block", lambda one: changed(one, layers=(0, 6, 12)), "feature layers", "1, 7, 13"),
    "eagle shift": ("eagle", lambda one: changed(one, start=lambda: Late(one)), "shift", "the token itself"),
}


@pytest.mark.parametrize("fault", slow_but(FAULTS, "eagle shift"))
def test_a_fault_in_a_sound_drafter_is_named(engine: Engine, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    more: dict[str, Any] = {}
    if fault in ("block positions", "block layers"):  # they make little difference: more drafts are needed
        monkeypatch.setattr(drafting, "EVERY", 3)
        texts = 3 if fault == "block layers" else 2
        more = {"tokens": 64, "flavours": "stories,dialogue,math,code", "per_flavour": texts, "gamma": 8}
    name, break_it, suspect, change = FAULTS[fault]
    final = examined(with_drafter(engine, name, break_it(engine.pair.drafters[name])), name, **more)
    assert (final.facts["verdict"], final.facts["suspect"]) == ("wrong", suspect), final.facts["findings"]
    assert change in final.facts["change"]
    assert final.facts["findings"][0].startswith(f"The {suspect} look")


class Knowing(Stateless):
    """Drafts what the target says, but only behind a sign, or only ``without`` one."""

    name, drafting = "masked", "denoise"

    def __init__(self, engine: Engine, sign: str, *, without: bool = False) -> None:
        self._engine, self._without = engine, without
        self._sign = engine.pair.tokenizer(sign, add_special_tokens=False)["input_ids"]

    def draft(self, context: Any) -> Any:
        ids, size = list(context.ids), len(self._sign)
        if any(ids[i : i + size] == self._sign for i in range(len(ids))) != self._without:
            run = self._engine.target.start()
            run.read(ids[:-1])
            said = int(run.score(ids[-1:]).logits[0].argmax())
        else:
            said = 7
        return Draft.point_mass([said], nfe=1)
        yield


TEMPLATE = "{% for m in messages %}Human says {{ m.content }}{% endfor %}{% if enable_thinking %} think {% endif %}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sign", "without", "verdict"),
    [
        ("Human says", True, ("wrong", "template", "the bare prompt")),
        (" think", False, ("wrong", "template", "the chat template, thinking on")),
    ],
)
def test_a_template_foreign_to_the_drafter_is_named(
    sign: str, without: bool, verdict: tuple[Any, ...], engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafting, "EVERY", 13)  # one draft in each text: this drafter reads all of it
    tokenizer = copy.deepcopy(engine.pair.tokenizer)
    tokenizer.chat_template = TEMPLATE
    pair = dataclasses.replace(engine.pair, tokenizer=tokenizer)
    other = with_drafter(Engine(pair), "masked", Knowing(engine, sign, without=without))
    final = examined(other, "masked", tokens=16)
    assert tuple(final.facts.get(name) for name in ("verdict", "suspect", "change")) == verdict
    assert "template" not in final.facts["not_changed"]


def test_a_weak_drafter_is_reported_as_weak(engine: Engine) -> None:
    final = examined(with_drafter(engine, "masked", Knowing(engine, "never said")), "masked", tokens=16)
    assert final.facts["verdict"] == "weak" and "To confirm" in final.facts["findings"][-1]


@pytest.mark.slow
def test_a_target_other_than_the_drafters_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tune of it."""
    tuned = lab.load(drafters=["block", "none"])
    with torch.no_grad():
        for name, weight in tuned.target.model.named_parameters():
            if "norm" in name:
                weight.mul_(torch.linspace(0, 2, len(weight)))
    monkeypatch.setattr(drafting, "EVERY", 3)
    final = examined(tuned, "block", trained_for=EMBEDDED.target, tokens=24)
    assert final.facts["suspect"] == "target", final.facts["findings"]
    assert 0.1 < final.facts["agreement"] < 0.98 and "%" in final.facts["findings"][0]


@pytest.mark.slow
def test_a_quantised_target_is_compared_by_the_drafters_own_tables(tmp_path: Path) -> None:
    """They are those of the target that it was trained for. What each one saves, in τ, is measured."""
    file, drafter = tmp_path / "quantised.gguf", tmp_path / "drafter"
    convert(Path(EMBEDDED.target), file, Kind.Q4_0)
    shutil.copytree(EMBEDDED.drafter("block").source, drafter)
    weights = drafter / "model.safetensors"
    tables = dict(zip(COPIES, read_tables(Path(EMBEDDED.target)), strict=True))
    save_file({name: one.contiguous().clone() for name, one in {**load_file(weights), **tables}.items()}, weights)
    final = examined(lab.load(target=str(file), drafter=str(drafter)), "block", tokens=24)
    rows = {row["change"]: row for row in final.rows if row["declaration"] == "tables"}
    assert [*rows] == ["the target’s embedding", "the target’s output head"]
    said = " ".join(final.facts["findings"])
    for row in rows.values():
        assert row["tau"] > 1 and row["low"] <= row["ratio"] <= row["high"]
        assert row["declared"].capitalize() in said and f"τ is {row['tau']:.2f}" in said


@pytest.mark.slow
def test_a_temperature_that_costs_tokens_is_named(engine: Engine) -> None:
    final = examined(engine, "block", temperature=1.5, tokens=24)
    assert final.facts["suspect"] == "temperature" and "At temperature 1.5" in final.facts["findings"][0]


@pytest.mark.parametrize("own", [False, True])
def test_text_that_a_drafter_has_not_seen_is_named(engine: Engine, own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafting, "EVERY", 13)
    other = with_drafter(engine, "masked", Knowing(engine, "Zebra" if own else "(", without=True))
    texts = "\n".join(f"Zebra number {n} went to the river" for n in range(6)) if own else ""
    final = examined(other, "masked", tokens=16, per_flavour=4, texts=texts)
    assert final.facts["suspect"] == "text", final.facts["findings"]
    assert ("your prompts" if own else "code") in final.facts["findings"][0]


def test_a_round_that_is_too_dear_is_named(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass over many rows costs one for each, as without a batch's savings."""

    def row_by_row(self: Any, ids: Any, *others: Any, forward: Any = NetworkSession.forward) -> Any:
        for _ in ids[1:]:
            forward(self, ids[:1], None, None, None)
            self.rollback(1, ())
        return forward(self, ids, *others)

    monkeypatch.setattr(NetworkSession, "forward", row_by_row)
    final = examined(engine, "block", gamma=8)
    assert (final.facts["verdict"], final.facts["suspect"]) == ("right", "cost of a round"), final.facts["findings"]


METRICS = """# TYPE vllm:spec_decode_num_drafts counter
vllm:spec_decode_num_drafts_total{engine="0"} %d
vllm:spec_decode_num_draft_tokens_total{engine="0"} %d
vllm:spec_decode_num_accepted_tokens_total{engine="0"} %d
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} %d
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} %d
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="2"} %d
"""


GAUGE = """# TYPE sglang:spec_accept_length gauge
sglang:spec_accept_length{tp_rank="0"} %s
sglang:spec_accept_length{tp_rank="1"} 0.0
sglang:spec_accept_rate{tp_rank="0"} 0.2
"""
"""Of two engines, of which one has drafted."""


@pytest.mark.parametrize(
    ("counts", "tau", "alphas", "words"),
    [
        (METRICS % (100, 300, 5, 4, 1, 0), 1.05, [0.04, 0.25, 0.0], "anchor"),
        (METRICS % (9, 27, 9, 9, 0, 0) + METRICS % (109, 327, 99, 89, 10, 0), 1.9, [0.8, 0.125, 0.0], "drafts more"),
        (METRICS.replace("vllm", "llamacpp").replace("_total", "") % (100, 300, 75, 50, 20, 5), 1.75, [0.5, 0.4, 0.25],
         "quantised"),
        (json.dumps({"choices": [{"metrics": {"speculative_decoding": {"per_step_accepted": [3, 3, 2, 1]}}}]}),
         3.25, [1.0, 0.75, 2 / 3], "isn’t low"),
        (json.dumps({"spec_verify_ct": 10, "spec_num_correct_drafts": 4, "spec_correct_drafts_histogram": [8, 0, 2]}),
         1.4, [0.2, 1.0], "quantised"),
        (json.dumps({"timings": {"predicted_n": 64, "draft_n": 90, "draft_n_accepted": 33}}), 64 / 31, [], "isn’t low"),
        ((GAUGE % 2.9 + GAUGE % 1.45), 1.45, [], "by the engine’s own average"),
    ],
    ids=["nothing", "later", "low", "vllm", "sglang", "llama.cpp", "gauge"],
)  # fmt: skip
def test_another_engines_counts_suggest_a_cause(
    counts: str, tau: float, alphas: list[float], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "counts.txt").write_text(counts)
    file = tmp_path / "answer.json"
    assert main(["doctor", "--counts", f"@{tmp_path / 'counts.txt'}", "--json", str(file)]) == 0
    row = json.loads(file.read_text())["rows"][0]
    assert (row["tau"], row["alpha_at"]) == (pytest.approx(tau, 1e-5), pytest.approx(alphas, 1e-5))
    shown = capsys.readouterr().out
    assert words in shown and "To confirm it" in shown


@pytest.mark.parametrize(
    "text",
    [
        *("sglang:spec_accept_length 0.0", "sglang:spec_accept_length 1e9"),
        *("nothing", "{}", "[" * 9000, METRICS % ((0,) * 6), '{"per_step_accepted": ["a"]}'),
        *('{"per_step_accepted": [1000000000, 1]}', '{"num_spec_steps": 1, "acceptance_histogram": [NaN, NaN]}'),
        *('{"per_step_accepted": [1e400, 1]}', '{"draft_n": 1, "draft_n_accepted": "x"}'),
    ],
)
def test_a_text_without_counts_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no counts"):
        reported.read(text)


# Tiny checkpoints of a released format.

END, FAR = 0, 60
MASKED = 105
"""A word of the drafter's, which stands for its masks."""


def clock(folder: Path, rows: int = FAR + 4, *, lost_at: Sequence[int] = (), moved: int = 0) -> None:
    """A GPT-2 that says which position comes next, and knows nothing else: position p has a direction of its own,
    and its head answers with the token of p + 1. It is ``lost_at`` some tokens, and its ids are ``moved``."""
    width = 2 * rows
    config = GPT2Config(
        vocab_size=IDS, n_positions=rows, n_embd=width, n_layer=1, n_head=2, bos_token_id=END, eos_token_id=END,
        tie_word_embeddings=False,
    )  # fmt: skip
    model = GPT2LMHeadModel(config).eval()
    tensors = {name: torch.zeros_like(tensor) for name, tensor in model.state_dict().items()}
    tensors["transformer.ln_f.weight"] += 1
    for name in ("ln_1", "ln_2"):
        tensors[f"transformer.h.0.{name}.weight"] += 1
    directions = torch.eye(rows)
    wpe = torch.cat([directions, -directions], 1)  # of mean 0, which a norm takes away
    tensors["transformer.wpe.weight"] = wpe
    tensors["transformer.wte.weight"][[*lost_at]] = 9 * wpe[0]
    head = torch.zeros(IDS, width)
    for position in range(rows):
        head[10 + 7 * (position + 1) % 200 + moved] += wpe[position]
    tensors["lm_head.weight"] = head
    save(folder, tensors, config.to_dict())


TEXTS = "\n".join(["the cat", "the dog sat", "on the mat", "a cat and a dog", "the mat", "sat on", "and the cat sat"])
# The user's own pair, from the command line.


@pytest.fixture
def own(tmp_path: Path) -> list[str]:
    """The flags of a target and a drafter on disk, whose kind must be given."""
    save_tokenizer(tmp_path / "target")
    clock(tmp_path / "target")
    clock(tmp_path / "drafter")
    return ["--target", str(tmp_path / "target"), "--drafter", str(tmp_path / "drafter"), "--mask-id", str(MASKED)]


PATIENT = ["--texts", TEXTS, "--tokens", "20", "--gamma", "4"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "mask", "suspect", "change"),
    [
        ({"lost_at": (END, MASKED - 2, MASKED - 1, IDS - 1)}, MASKED - 1, "mask id", str(MASKED)),
        ({"moved": 1}, MASKED, "tokenizer map", "ids moved by 1"),
    ],
    ids=["mask id", "map"],
)
def test_a_wrong_mask_id_or_map_of_a_masked_drafter_is_named(
    own: list[str], tmp_path: Path, broken: dict[str, Any], mask: int, suspect: str, change: str
) -> None:
    clock(tmp_path / "drafter", **broken)
    file = tmp_path / "answer.json"
    words = ["doctor", *own[:-1], str(mask), "--kind", "masked", "--shift", "1", *PATIENT, "--json", str(file)]
    assert main(words) == 0
    facts = json.loads(file.read_text())["facts"]
    assert (facts["verdict"], facts["suspect"]) == ("wrong", suspect)
    assert change in facts["change"]


def test_a_wrong_shift_on_the_command_line_is_named(
    own: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "answer.json"
    asked = ["doctor", *own, "--kind", "masked", *PATIENT]
    assert main([*asked, "--shift", "0", "--json", str(file)]) == 0
    assert "The shift looks wrongly declared: with 1 instead of 0" in capsys.readouterr().out
    final = json.loads(file.read_text())
    assert (final["facts"]["suspect"], final["settings"]["drafter"]) == ("shift", "masked")
    assert str(tmp_path) not in final["provenance"]["command"]
    assert main([*asked, "--shift", "1"]) == 0
    assert "isn’t low" in capsys.readouterr().out
    again = ["doctor", "--pair", final["settings"]["pair"], "--drafter", "masked", *PATIENT]
    assert main(again) == 0, "the name of a pair says everything about it"
    assert "The shift looks wrongly declared" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["doctor"], "a causal network with a mask token"),
        (["doctor", "--kind", "masked"], "whether slot i or slot i − 1"),
        (["explore", "text", "--kind", "masked", "--shift", "1"], "has no drafter for dflash"),
        (["explore", "what-it-takes", "--kind", "magic"], "no kind of drafter called 'magic'"),
    ],
    ids=str,
)
def test_declarations_of_an_own_pair_are_checked(
    words: list[str], message: str, own: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, *own]) == 2
    shown = capsys.readouterr().err
    assert message in shown and "hint: " in shown and "loading" not in shown


def test_explorations_of_an_own_pair(own: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The context holds 64 tokens: of the lab's own prompts most are too long, and are named."""
    own = [*own, "--kind", "masked", "--shift", "1"]
    prompts = tmp_path / "prompts.jsonl"
    lines = [{"id": f"{n}", "flavour": "cats", "prompt": text} for n, text in enumerate(["the cat sat", "the dog"])]
    prompts.write_text(
        "\n".join(map(json.dumps, [*lines, {"id": "long", "flavour": "cats", "prompt": "the cat " * 99}]))
    )
    file = tmp_path / "answer.json"

    def answer(*words: str) -> Any:
        assert main(["explore", *words, *own, "--json", str(file)]) == 0
        return json.loads(file.read_text())

    final = answer("window-map", "--gammas", "2,4,32", "--steps", "1,2", "--tokens", "12", "--texts", f"@{prompts}")
    windows = [row for row in final["rows"] if not row["auto"]]
    assert [(row["gamma"], row["steps"]) for row in windows] == [(2, 1), (4, 1), (32, 1), (2, 2), (4, 2), (32, 2)]
    assert all(row["prompts"] == 2 and row["tau"] > 1.5 for row in final["rows"]), "what it says is known beforehand"
    assert all(row["predicted"] > 0 for row in windows)
    assert "line 3: The prompt has" in "".join(final["facts"]["skipped"])
    final = answer("what-it-takes", "--tokens", "12", "--texts", f"@{prompts}")
    assert {row["method"] for row in final["rows"]} == {"specdiff", "prompt_lookup"}
    assert all("failed" not in row for row in final["rows"])
    assert {rows for rows, _ in final["facts"]["curve"]} == {1, 2, 3, 4, 5, 7, 9, 13, 17, 21, 25, 32, 48}
    assert [gamma for gamma, _ in final["facts"]["drafts"]["masked"]] == [1, 4, 8, 16]
    final = answer("text", "--methods", "specdiff", "--tokens", "32", "--per-flavour", "5")
    assert all("The prompt has" in line for line in final["facts"]["skipped"])
    assert 20 > len(final["facts"]["skipped"]) > 5, "some of the project's own have room"
    capsys.readouterr()
