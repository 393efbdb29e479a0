"""``train drafter``: whole runs on a tiny target that counts; resuming, stopping, errors."""

from __future__ import annotations

import dataclasses
import json
import random
import re
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from checkpoints import SMALL, close, finished, randomly, same_text, save_counter, save_tokenizer
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import LlamaForCausalLM

from specdiff_core import cli
from specdiff_core.checkpoints.folders import read_config
from specdiff_core.checkpoints.own_pairs import parse, register_pair
from specdiff_core.engine import Engine
from specdiff_core.measure.prompts import read_prompts
from specdiff_core.models.dflash import from_folder
from specdiff_core.models.eagle import load_eagle
from specdiff_core.schema.errors import CorpusError, PairUnavailable
from specdiff_core.schema.history import HISTORY, read_history
from specdiff_core.schema.pairs import ASSETS, OWN_PAIRS
from specdiff_core.train import drafter as module
from specdiff_core.train import losses, writing
from specdiff_core.train.answers import Answers, EncodedPrompt
from specdiff_core.train.cards import ModelCard, render_card
from specdiff_core.train.curve import read_metrics
from specdiff_core.train.drafter import DrafterTraining, choose_mask, spread
from specdiff_core.train.learners.base import frequent_words
from specdiff_core.train.learners.block import BlockLearner, default_taps
from specdiff_core.train.learners.windows import draw_blocks
from specdiff_core.train.settings import DrafterSettings

pytestmark = pytest.mark.early
NOTHING = ["--hours", "1e-6", "--answering", "0"]


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    OWN_PAIRS.clear()


WARMUP = 15  # steps of a rising rate: the whole run has about 130


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a target that counts, and prompts for it, half of which are of each flavour."""
    root = tmp_path_factory.mktemp("home")
    vocabulary = save_tokenizer(root / "target")
    save_counter(root / "target", vocabulary)
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 6))) for _ in range(60)]
    lines = [{"prompt": word, "flavour": "even" if len(word) % 2 else "odd"} for word in words]
    (root / "prompts.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "WARMUP", WARMUP)
        yield root


def train(home: Path, out: Path, *words: str, small: Sequence[str] = SMALL, prompts: str = "prompts.jsonl") -> int:
    files = ["--target", str(home / "target"), "--prompts", str(home / prompts), "--out", str(out)]
    return cli.main(["train", "drafter", *files, *small, *words])


def given(made: Path) -> list[str]:
    """Learn from the answers of another run."""
    return ["--answers", str(made / "run" / "answers")]


@pytest.fixture(scope="module")
def made(home: Path) -> Path:
    """A block drafter that trained for a few seconds."""
    assert train(home, home / "made", "--hours", "0.0008", "--minutes", "0.03", "--answering", "0.1") == 0
    return home / "made"


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "out"))


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in read_metrics(folder / "run") if event["kind"] == kind]


def tau(folder: Path) -> float:
    """As it was measured last."""
    return float(events(folder, "measured")[-1]["scores"]["tokens_per_round/mean"])


def untrained(home: Path, made: Path, out: Path, *words: str) -> float:
    assert train(home, out, *NOTHING, *given(made), *words) == 0
    return tau(out)


def raced(home: Path, drafter: Path) -> float:
    """τ of a real run with the exported drafter, whose text is vanilla's."""
    spec = register_pair(parse({"target": str(home / "target"), "drafter": str(drafter)}).name)
    engine, name = Engine.load(spec.name, device="cpu"), spec.drafters[0].name
    values: dict[str, Any] = {"prompt": "help", "gamma": 8, "max_new_tokens": 24, "ignore_eos": False}
    vanilla = same_text(engine, name, **values)
    return len(vanilla.ids) / finished(engine, drafter=name, **values).rounds


# A whole run.


def test_a_block_drafter_learns_and_loads(home: Path, made: Path, tmp_path: Path) -> None:
    assert untrained(home, made, tmp_path / "untrained") < 1.2
    assert tau(made) > 3 and [len(run.curve) > 1 for run in read_history(made / HISTORY)] == [True]
    _, scores = read_history(made / HISTORY)[0].curve[-1]
    assert scores["tokens_per_round/mean"] == pytest.approx(tau(made), abs=1e-3)
    assert raced(home, made) > 2
    card = (made / "README.md").read_text("utf-8")
    expected = ("Block drafter for target", "it has 269 of 270 words", "| odd |", "| even |", "not tried in a serving")
    for words in expected:
        assert words in card
    assert re.search(r"\| mean \| \d\.\d+ \| \d\.\d+ to \d\.\d+ \|", card)
    assert str(home) not in card and "train export" in card and "train drafter --target target" in card
    spec = register_pair(parse({"target": str(home / "target"), "drafter": str(made)}).name).drafters[0]
    assert (spec.name, spec.chained, spec.window) == ("block_markov", True, 8)


def test_the_rate_rises_stays_and_falls(made: Path) -> None:
    steps = events(made, "step")
    rates = [step["rate"] for step in steps]
    assert rates[0] == pytest.approx(1 / WARMUP) and max(rates) == 1 and rates[-1] < 0.1
    falling = next(step["seconds"] for step in steps if step["rate"] < 1 and step["step"] > WARMUP)
    assert falling / steps[-1]["seconds"] == pytest.approx(0.67, abs=0.08)
    assert events(made, "saved")[-1]["step"] == steps[-1]["step"]


def test_the_files_are_those_of_the_layout(home: Path, made: Path, tmp_path: Path) -> None:
    config, stored = json.loads((made / "config.json").read_text()), load_file(made / "model.safetensors")
    assert config["speculators_model_type"] == "dflash" and config["aux_hidden_state_layer_ids"] == [1]
    assert config["block_size"] == 9 and config["draft_vocab_size"] == 269 and config["markov_width"] == 16
    width = len(stored["norm.weight"])
    shapes = {name: tuple(tensor.shape) for name, tensor in stored.items() if name.startswith("markov")}
    assert shapes == {
        "markov.before.weight": (16, width),
        "markov.before.bias": (16,),
        "markov.out.weight": (width, 16),
    }
    assert config["speculators_config"]["proposal_methods"][0]["speculative_tokens"] == 8
    assert stored["d2t"].dtype == torch.int64 and stored["t2d"].dtype == torch.bool
    ids = torch.arange(269) + stored["d2t"]
    assert ids.tolist() == stored["t2d"].nonzero()[:, 0].tolist() and config["mask_token_id"] not in ids
    theirs = load_file(home / "target" / "model.safetensors")
    assert torch.equal(stored["embed_tokens.weight"], theirs["model.embed_tokens.weight"].bfloat16())
    assert torch.equal(stored["lm_head.weight"], theirs["lm_head.weight"][ids].bfloat16())
    assert stored["fc.weight"].dtype == torch.bfloat16
    slim = tmp_path / "slim"
    answers = [*given(made), "--words", "100", "--no-tables"]
    assert train(home, slim, *NOTHING, *answers) == 0
    assert not {"embed_tokens.weight", "lm_head.weight"} & load_file(slim / "model.safetensors").keys()
    assert "left out of its files" in (slim / "README.md").read_text("utf-8")
    ids = from_folder(slim).draft_ids
    assert ids is not None and len(ids) == 100 and raced(home, slim) > 0
    stored["lm_head.weight"] = stored["lm_head.weight"].roll(1, 0)
    foreign = Path(shutil.copytree(made, tmp_path / "foreign"))
    save_file(stored, foreign / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(PairUnavailable, match=r"lm_head\.weight stored with it is not the target's"):
        built(home, foreign, chained=True)


def built(home: Path, drafter: Path, *, chained: bool) -> Any:
    spec = register_pair(parse({"target": str(home / "target"), "drafter": str(drafter)}).name)
    engine = Engine.load(spec.name, device="cpu", drafters=("none",))
    one = dataclasses.replace(spec.drafters[0], chained=chained)
    return engine.pair.build(one)


def test_one_folder_serves_a_plain_and_a_chained_drafter(home: Path, made: Path) -> None:
    assert built(home, made, chained=True).successors is not None
    plain = built(home, made, chained=False)
    assert plain.successors is None and plain.network.markov is None


def test_a_head_alone_is_trained_on_a_drafter_without_one(
    home: Path, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its other weights, words and layers stay, and the plain drafts with them; a run goes on as it began."""
    base, out = tmp_path / "base", tmp_path / "headed"
    assert train(home, base, *NOTHING, *given(made), "--markov", "0", "--words", "200", "--block", "6") == 0
    words = ["--start", str(base), "--only", "head", "--answering", "0", *given(made)]
    assert train(home, out, "--hours", "0.0003", "--finish", "0", "--rate", "3", *words) == 0
    before, after = (load_file(folder / "model.safetensors") for folder in (base, out))
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    heads = sorted(after.keys() - before.keys())
    assert heads == ["markov.before.bias", "markov.before.weight", "markov.out.weight"] and bool(after[heads[2]].any())
    losses = [step["loss"] for step in events(out, "step")]
    assert losses[-1] < losses[0] - 0.5 and tau(out) > tau(base)
    assert train(home, out, *given(made), "--resume", "--hours", "0.0004", small=()) == 0 and raced(home, out) > 0
    for flags, said in ((["--markov", "0"], "there is none"), (["--kind", "eagle"], "there is none")):
        assert train(home, tmp_path / "no", *NOTHING, "--only", "head", *flags) == 2
        assert said in capsys.readouterr().err


def test_states_that_are_not_stored_are_computed_again(
    home: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU: the answers hold tokens only, and learning from them begins alike."""
    monkeypatch.setattr(DrafterTraining, "_stores", False)
    assert train(home, tmp_path, "--hours", "0.0003", "--answering", "0.3") == 0
    answers = Answers(tmp_path / "run" / "answers", ())
    assert answers.batch(answers.rows[:1]).features.shape[2] == 0
    assert train(home, tmp_path / "same", "--hours", "0.0001", "--answering", "0", *given(made)) == 0
    again, stored = (events(folder, "step")[0]["loss"] for folder in (tmp_path / "same", made))
    assert again == pytest.approx(stored, rel=0.01)
    unread = ["--hours", "0.0001", "--answering", "0", "--kind", "masked", *given(made)]
    assert train(home, tmp_path / "masked", *unread) == 0, "it reads none of them"


def test_an_eagle_head_learns_from_the_same_answers(home: Path, made: Path, tmp_path: Path) -> None:
    answers = [*given(made), "--answering", "0", "--kind", "eagle"]
    before = untrained(home, made, tmp_path / "untrained", "--kind", "eagle")
    out = tmp_path / "eagle"
    assert train(home, out, "--hours", "0.001", *answers) == 0
    assert tau(out) > before + 0.5 and not (out / "run" / "answers").exists()
    assert raced(home, out) > 0 and "embed_tokens.weight" in load_file(out / "model.safetensors")
    head = load_eagle(out)
    assert head.config.architectures == ["LlamaForCausalLMEagle"] and head.config.num_key_value_heads == 2
    target, ends = read_config(home / "target"), ("bos_token_id", "eos_token_id")
    assert [getattr(head.config, name) for name in ends] == [target[name] for name in ends]
    assert "EAGLE drafter for target" in (out / "README.md").read_text("utf-8")


def test_an_autoregressive_drafter_is_a_stock_llama(home: Path, made: Path, tmp_path: Path) -> None:
    """It begins with a layer of the target, between the target's tables."""
    out, answers = tmp_path / "out", [*given(made), "--answering", "0", "--kind", "autoregressive"]
    assert train(home, out, "--hours", "0.0003", *answers) == 0
    losses = [step["loss"] for step in events(out, "step")]
    assert losses[-1] < losses[0] - 1 and tau(out) > 4 and raced(home, out) > 4
    model, target = (LlamaForCausalLM.from_pretrained(folder) for folder in (out, home / "target"))
    assert (model.config.num_hidden_layers, model.config.eos_token_id) == (1, target.config.eos_token_id)
    for table, own in ((model.lm_head, target.lm_head), (model.model.embed_tokens, target.model.embed_tokens)):
        assert torch.equal(table.weight, own.weight.bfloat16().to(table.weight.dtype))
    cut = tmp_path / "cut"
    assert train(home, cut, *NOTHING, *answers, "--cut", "1") == 0
    stored = load_file(cut / "model.safetensors")["model.layers.0.mlp.up_proj.weight"].float()
    assert torch.cosine_similarity(stored.flatten(), target.model.layers[1].mlp.up_proj.weight.flatten(), 0) > 0.98
    assert "begun with layers 1 of the target" in (cut / "README.md").read_text("utf-8")


def test_a_masked_drafter_learns_from_the_same_answers(
    home: Path, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It begins with layers of the target, and has some of its words."""
    answers = [*given(made), "--answering", "0", "--kind", "masked", "--cut", "1", "0", "--words", "200"]
    out = tmp_path / "masked"
    assert train(home, out, "--hours", "0.0006", "--align", "streak", *answers) == 0
    losses = [step["loss"] for step in events(out, "step")]
    assert losses[len(losses) // 2] < losses[0] - 0.1
    assert tau(out) >= 2 and raced(home, out) > 1.5, "those layers knew the next token from the start"
    config, stored = json.loads((out / "config.json").read_text()), load_file(out / "model.safetensors")
    assert (config["block_size"], config["draft_vocab_size"], config["cut_from"]["layers"]) == (8, 200, [1, 0])
    assert len(stored["d2t"]) == 200 and config["mask_token_id"] not in stored["t2d"].nonzero()
    assert not {"embed_tokens.weight", "lm_head.weight"} & stored.keys()
    card = (out / "README.md").read_text("utf-8")
    assert "SpecDiff drafter for target" in card and "begun with layers 1, 0 of the target" in card
    assert train(home, tmp_path / "none", *answers[:6], "--cut", "0", "2") == 2
    assert "--cut 0 2 must be layers of the target, 0 to 1" in capsys.readouterr().err


# Going on, and stopping.


def test_a_drafter_goes_on_from_an_exported_one_over_as_many_tokens(home: Path, made: Path, tmp_path: Path) -> None:
    """The control and the aligned drafter begin alike and see the same tokens in the same order; masked ones, too."""
    masked, answers = tmp_path / "masked", [*given(made), "--answering", "0"]
    assert train(home, masked, "--kind", "masked", "--hours", "1e-4", "--words", "200", *answers) == 0
    for start, seen in ((made, 2), (masked, 2)):
        logs = []
        for align in ("none", "streak"):
            out = tmp_path / f"{start.name}-{align}"
            words = ["--start", str(start), "--align", align, "--tokens", "1500", "--rate", "0.01", "--hours", "1e-6"]
            assert train(home, out, *words, *answers, "--longest", "60", "--new-tokens", "24", small=()) == 0
            logs.append(events(out, "step"))
            card, runs = (out / "README.md").read_text("utf-8"), read_history(out / HISTORY)
            assert len(runs) == seen and runs[0] == read_history(start / HISTORY)[0]
            assert f"the weights of `{start.parent.name}/{start.name}`" in card
            assert ("streak-distillation" in card) == (align == "streak")
            assert json.loads((out / "config.json").read_text()) == json.loads((start / "config.json").read_text())
            assert tau(out) > 0.7 * tau(start), "at first as good as it was"
        one, other = ([step["tokens"] for step in log] for log in logs)
        assert one == other and one[-2] < 1500 <= one[-1] and logs[0][-1]["rate"] < 0.5
        assert logs[0][0]["loss"] != logs[1][0]["loss"]


def test_what_cannot_be_begun_with_is_one_sentence(
    home: Path, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for start, said in (
        (home / "target", "home0/target can't be trained here"),
        (ASSETS / "embedded" / "block", "the target's have 64"),
    ):
        assert train(home, tmp_path / "none", "--start", str(start)) == 2
        assert said in capsys.readouterr().err


def test_a_run_goes_on_with_more_hours(home: Path, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, stored = events(copy, "step")[-1], copy / "run" / "settings.json"
    early = {name: value for name, value in json.loads(stored.read_text()).items() if name not in ("start", "tokens")}
    stored.write_text(json.dumps(early))  # as runs of earlier versions have it
    assert train(home, copy) == 2 and "holds a run already" in capsys.readouterr().err
    assert train(home, copy, "--resume", "--hours", "0.0012", small=()) == 0
    after = events(copy, "step")[len(events(copy, "step")) - 1]
    first = next(step for step in events(copy, "step") if step["step"] > before["step"])
    assert first["step"] == before["step"] + 1 and first["rate"] > before["rate"] > after["rate"] - 0.1
    assert after["tokens"] > before["tokens"] and after["seconds"] > before["seconds"]
    settings = json.loads(stored.read_text())
    assert settings["hours"] == 0.0012 and settings["words"] == 270 and settings["minutes"] == 0.03
    (run,) = read_history(copy / HISTORY)
    assert run.steps == after["step"]
    begun, resumed = run.command.splitlines()
    assert "--hours 0.0008" in begun and resumed.endswith("--resume --hours 0.0012")
    assert f"`{begun}`\n  `{resumed}`" in (copy / "README.md").read_text("utf-8")
    held_out = (copy / "run" / "held_out.json").read_bytes()
    (home / "more.jsonl").write_text("\n".join((home / "prompts.jsonl").read_text().splitlines()[::-1]))
    assert train(home, copy, "--resume", prompts="more.jsonl") == 0
    assert (copy / "run" / "held_out.json").read_bytes() == held_out, "not learnt from"
    assert train(home, copy, "--resume", "--layers", "2", small=()) == 2
    assert "was begun with --layers 1; it can't become 2" in capsys.readouterr().err


def interrupt_in(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, at: int) -> None:
    """Press Ctrl-C during a call."""
    whole, calls = getattr(owner, name), iter(range(10**9))

    def call(*args: Any, **options: Any) -> Any:
        if next(calls) == at:
            signal.raise_signal(signal.SIGINT)
        return whole(*args, **options)

    monkeypatch.setattr(owner, name, call)


def test_a_stop_keeps_everything(
    home: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, answers = tmp_path / "out", ["--answering", "0", *given(made)]
    with monkeypatch.context() as patch:
        interrupt_in(patch, BlockLearner, "loss", 2)
        assert train(home, out, *answers) == 130
    error = capsys.readouterr().err
    assert "keeping everything" in error and "--resume" in error
    assert [step["step"] for step in events(out, "step")] == [1, 2, 3] and not events(out, "measured")
    assert "Greedy tokens per round" not in (out / "README.md").read_text("utf-8")
    assert raced(home, out) > 0
    with monkeypatch.context() as patch:
        interrupt_in(patch, BlockLearner, "loss", 1)
        assert train(home, out, *answers, "--resume") == 130
    assert [step["step"] for step in events(out, "step")] == [1, 2, 3, 4, 5]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_stop_while_the_target_answers_keeps_the_answers(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        interrupt_in(patch, writing._Slots, "step", 10)
        assert train(home, tmp_path, "--slots", "4") == 130
    held = Answers(tmp_path / "run" / "answers", (0, 1))
    assert len(held.rows) == 4 and {len(held.text(row)) for row in held.rows} == {11}
    assert not (tmp_path / "config.json").exists() and "config" not in capsys.readouterr().out
    spent = events(tmp_path, "answers")[-1]["seconds"]
    assert train(home, tmp_path, "--resume", "--hours", "1e-9") == 0, "nothing is left of its time"
    assert len(held.rows) == 4 and spent > 0 and (tmp_path / "config.json").exists()


def test_a_second_ctrl_c_interrupts_at_once(
    home: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loss(*args: Any, **options: Any) -> Tensor:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it went on")

    monkeypatch.setattr(BlockLearner, "loss", loss)
    assert train(home, tmp_path, "--answering", "0", *given(made)) == 130
    assert not (tmp_path / "config.json").exists()


# What it learns from.


@pytest.fixture
def trainer(home: Path, made: Path, tmp_path: Path) -> Callable[..., DrafterTraining]:
    engine = Engine.load(
        register_pair(parse({"target": str(home / "target")}).name).name, device="cpu", drafters=("none",)
    )

    def make(**settings: Any) -> DrafterTraining:
        small = {"new_tokens": 24, "longest": 60, "words": 270, "rows": 4, "markov": 0, **settings}
        prompts, answers = read_prompts(home / "prompts.jsonl"), made / "run" / "answers"
        return DrafterTraining(engine, prompts, tmp_path, DrafterSettings(**small), answers=answers)

    return make


@pytest.mark.parametrize("kind", ["block", "eagle", "masked", "autoregressive"])
def test_a_slot_is_compared_with_what_the_target_says_there(
    trainer: Callable[..., DrafterTraining], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """This target says t + 1 behind t. In greedy answers the text's word is the target's best."""
    one, seen = trainer(kind=kind, temperatures=(0.0,)), []
    answers = Answers(one.folder, one.read)
    greedy = [row for row in answers.rows if row.temperature == 0][:4]
    learner, batch, whole = one._begin(answers, None), answers.batch(greedy), losses.top_loss

    def watched(hidden: Tensor, table: Tensor, labels: Tensor, ids: Tensor, *rest: Any, tv: float, **more: Any) -> Any:
        seen.append((labels, ids[:, 0], tv))
        return whole(hidden, table, labels, ids, *rest, tv=tv, **more)

    monkeypatch.setattr(losses, "top_loss", watched)
    for finishing in (False, True):
        loss = learner.loss(batch, torch.Generator().manual_seed(0), finishing=finishing)
        assert bool(loss.isfinite()) and loss.requires_grad
    for labels, best, tv in seen:
        assert len(best) > 20 and bool((best >= 0).all())
        assert torch.equal(labels, best) if kind in ("block", "masked") else bool((labels == -1).all())
        assert tv in (0.0, 0.9)
    if kind in ("eagle", "autoregressive"):  # behind each token of the answers, from the prompt's last one on
        words = [
            learner.words.inverse[row[p - 1 : n] + 1]
            for row, p, n in zip(batch.tokens, batch.prompts, batch.lengths, strict=True)
        ]
        assert torch.equal(seen[0][1], torch.cat(words)) and len(seen) == (6 if kind == "eagle" else 2)


def test_an_autoregressive_drafter_trains_on_what_a_run_drafts_from(
    trainer: Callable[..., DrafterTraining], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The logits in training are those of the exported model, with layers that matter."""
    one, seen, whole = trainer(kind="autoregressive", layers=2), [], losses.top_loss
    answers = Answers(one.folder, one.read)
    learner, batch = one._begin(answers, None), answers.batch(answers.rows[:3])
    for parameter in randomly(learner.model).parameters():
        parameter.data.copy_(parameter.bfloat16())
    monkeypatch.setattr(
        losses, "top_loss", lambda hidden, *rest, **tv: seen.append(hidden) or whole(hidden, *rest, **tv)
    )
    learner.loss(batch, torch.Generator(), finishing=True)
    learner.export(tmp_path / "stock")
    with torch.no_grad():
        logits = LlamaForCausalLM.from_pretrained(tmp_path / "stock", dtype=torch.float32)(batch.tokens).logits
    lengths = zip(batch.prompts, batch.lengths, strict=True)
    expected = torch.cat([row[p - 1 : n] for row, (p, n) in zip(logits, lengths, strict=True)])
    close(seen[0].detach() @ learner._head.T, expected, 0.03)


def test_blocks_lie_in_the_answer_and_show_no_more_than_they_should(trainer: Callable[..., DrafterTraining]) -> None:
    one = trainer()
    answers = Answers(one.folder, one.read)
    batch = answers.batch([row for row in answers.rows if row.temperature == 0][:4])
    plan: Any = {"count": 200, "size": 8, "whole": 0.5, "generator": torch.Generator().manual_seed(0)}
    text, known, masked, anchors = draw_blocks(batch.tokens, batch.lengths, batch.prompts - 1, **plan)
    assert text.shape == (4, 200, 9) and not bool(masked[..., 0].any())
    assert bool((anchors >= batch.prompts[:, None] - 1).all()) and bool((anchors < batch.lengths[:, None] - 1).all())
    assert {int(a) for a in anchors[0]} == set(range(int(batch.prompts[0]) - 1, int(batch.lengths[0]) - 1))
    assert torch.equal(text[..., 1:][known[..., 1:]], (text[..., :-1] + 1)[known[..., 1:]])
    assert bool(masked[~known].all()), "nothing is given behind the end"
    inside = known[..., 1:].all(-1)
    share = masked[..., 1:].all(-1)[inside].float().mean()
    assert 0.5 < float(share) < 0.75, "half of them, and some of the others by chance"
    begun = (masked[..., 1:].long().diff(dim=-1) >= 0).all(-1)[inside].float().mean()
    assert float(begun) > 0.75


def test_answers_that_loop_or_are_held_out_are_not_learnt_from(
    trainer: Callable[..., DrafterTraining], made: Path, tmp_path: Path
) -> None:
    one = trainer()
    answers = Answers(one.folder, one.read)
    row = answers.rows[0]
    assert one._is_usable(row) and not one._is_usable(row._replace(looped=True))
    assert not one._is_usable(row._replace(prompt_id=one.held_out[0].id))
    assert not one._is_usable(row._replace(end=row.first + row.prompt + 3))
    assert {prompt.id for prompt in one.held_out}.isdisjoint(prompt.id for prompt in one.prompts)
    assert {prompt.flavour for prompt in one.held_out} == {"odd", "even"} and len(one.prompts) + len(one.held_out) == 60
    answers.rows = [row._replace(looped=True)]
    with pytest.raises(CorpusError, match="None of the 1 answers can be learnt from"):
        next(one._batches(answers, 0))


def test_answers_that_come_meanwhile_are_learnt_from(
    trainer: Callable[..., DrafterTraining], made: Path, tmp_path: Path
) -> None:
    one, folder = trainer(rows=20), tmp_path / "growing"
    folder.mkdir()
    shard = min((made / "run" / "answers").glob("*.safetensors"))
    shutil.copy(shard, folder)
    answers = Answers(folder, one.read)
    count, batches = len(answers.rows), one._batches(answers, 0)
    next(batches)
    shutil.copy(shard, folder / "more.safetensors")
    for _ in range(4):
        next(batches)
    assert len(answers.rows) == 2 * count


def test_measured_texts_that_loop_are_left_out(
    trainer: Callable[..., DrafterTraining], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = trainer()
    one.learner = one._begin(Answers(one.folder, one.read), None)
    odd = {prompt.tokens[-1] + 1 for prompt in one.held_out if prompt.flavour == "odd"}
    monkeypatch.setattr(module, "loops", lambda ids: ids[0] in odd)
    assert one._measure().keys() == {"even", "mean"}
    assert one._looping
    monkeypatch.setattr(module, "loops", lambda ids: True)
    assert one._measure() == {}


def test_words_and_layers_are_chosen_by_rule(trainer: Callable[..., DrafterTraining]) -> None:
    assert [default_taps(depth) for depth in (1, 2, 4, 12, 30)] == [(0,), (0,), (1, 2), (3, 7, 10), (8, 18, 27)]
    said, asked = [[3, 3, 5], [3, 1]], [[5, 7, 7, 7]]
    among = [token for token in range(9) if token != 1]
    assert frequent_words(said, asked, among=among, count=4) == [3, 5, 7, 0]
    assert len(frequent_words(said, asked, among=among, count=99)) == 8
    engine = trainer().engine
    assert choose_mask(engine, []) == 269 and choose_mask(engine, [EncodedPrompt("", "", (269, 268))]) == 267
    special, plain = SimpleNamespace(special=True), SimpleNamespace(special=False)
    tokenizer = SimpleNamespace(
        mask_token_id=None, all_special_ids=[0], added_tokens_decoder={9: special, 4: plain, 7: special, 0: special}
    )
    other: Any = SimpleNamespace(pair=SimpleNamespace(tokenizer=tokenizer), target=engine.target, ends=(0,))
    assert choose_mask(other, []) == 7 and choose_mask(other, [EncodedPrompt("", "", (7,))]) == 9
    tokenizer.mask_token_id = 4
    assert choose_mask(other, []) == 4
    engine.pair.model.embed_tokens.weight[260:] = 0
    assert choose_mask(engine, []) == 259, "one whose embedding says something"


def test_prompts_are_spread_over_flavours() -> None:
    every = [EncodedPrompt(str(i), "abc"[i % 3] if i < 9 else "d", (i,)) for i in range(30)]
    assert [one.flavour for one in spread(every, 8)] == list("aabbccdd")
    assert len(spread(every, 2)) == 2 and spread(every, 0) == []


# What can be wrong.


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--hours", "0"], "--hours cannot be '0'"),
        (["--hours", "nan"], "--hours cannot be 'nan'"),
        (["--layers", "two"], "--layers cannot be 'two'"),
        (["--temperatures", "0", "3"], "--temperatures cannot be '0,3'"),
        (["--taps", "0", "0"], "--taps 0 0 must be different layers of the target, 0 to 1."),
        (["--taps", "2"], "--taps 2 must be different layers"),
        (["--longest", "110"], "110 tokens of a prompt and 24 of its answer exceed the 128 of a run."),
        (["--longest", "1"], "None of these prompts can be used. All have more than 1 tokens"),
        (["--answering", "0"], "There are no answers in"),
        (["--prompts", "none.txt"], "none.txt can't be read (No such file or directory)"),
        (["--valid", "none.txt"], "none.txt can't be read"),
        (["--target", "./nowhere"], "nowhere does not exist"),
        (["--device", "tpu"], "no device called 'tpu'"),
    ],
)
def test_bad_input_is_one_sentence(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert train(home, tmp_path / "out", *words) == 2
    lines = capsys.readouterr().err.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert len(errors) == 1 and said in errors[0] and lines[-1].startswith("hint: ")
    assert not (tmp_path / "out" / "config.json").exists()


def test_a_bad_run_or_answers_of_another_target_are_refused(
    home: Path, copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    shutil.copytree(home / "target", other / "target")
    save_counter(other / "target", 270, seed=1)
    shutil.copy(home / "prompts.jsonl", other)
    assert train(other, tmp_path / "new", *given(copy)) == 2
    assert "were written by another target" in capsys.readouterr().err
    assert train(other, copy, "--resume") == 2
    state = torch.load(copy / "run" / "checkpoint.pt", weights_only=True)
    torch.save({**state, "released": {**state["released"], "markov_rank": 16}}, copy / "run" / "checkpoint.pt")
    capsys.readouterr()
    assert train(home, copy, "--resume", "--hours", "0.1") == 2
    assert "has a Markov head of an older kind" in capsys.readouterr().err
    (copy / "run" / "checkpoint.pt").write_bytes(b"damaged")
    assert train(home, copy, "--resume", "--hours", "0.1") == 2
    assert "checkpoint.pt is damaged" in capsys.readouterr().err
    (copy / "run" / "settings.json").write_text('{"hours": "many"}')
    assert train(home, copy, "--resume") == 2 and "settings.json is damaged" in capsys.readouterr().err


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


def test_a_full_disk_is_one_sentence(
    home: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a checkpoint, and of what is exported; then the run goes on."""
    words, torn = [*NOTHING, *given(made)], "PytorchStreamWriter failed writing file data/0"
    full, export = OSError(28, "No space left on device"), "specdiff_core.train.learners.block.write_folder"
    for name, error, said in (
        ("torch.save", RuntimeError(torn), "checkpoint.pt can't be written (Pytorch"),
        (export, full, "can't be written to"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(name, failing(error))
            assert train(home, tmp_path, *words) == 2
        assert said in capsys.readouterr().err and not list(tmp_path.glob("*.safetensors"))
        words += [] if "--resume" in words else ["--resume"]
    assert train(home, tmp_path, *words) == 0 and list(tmp_path.glob("*.safetensors"))


NO_NUMBER = torch.tensor(float("nan"), requires_grad=True)
NO_MEMORY = RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: not enough memory")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda *_, **__: NO_NUMBER, "The loss became NaN at step 0."),
        (failing(NO_MEMORY), "hint: Lower --slots or --rows"),
    ],
)
def test_a_step_that_fails_is_one_sentence(
    home: Path,
    made: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fault: Callable[..., Any],
    said: str,
) -> None:
    monkeypatch.setattr(BlockLearner, "loss", fault)
    assert train(home, tmp_path, "--answering", "0", *given(made)) == 2
    assert said in capsys.readouterr().err


def test_a_card_names_its_licence_and_its_target() -> None:
    facts: dict[str, Any] = {"summary": "", "shape": "", "history": [], "scores": {}, "score_name": ""}
    front = render_card(ModelCard(name="x", licence="as-its-target", base_model="owner/name", **facts)).split("---")[1]
    assert "license: other\nlicense_name: as-its-target\nbase_model: owner/name\n" in front
    assert "base_model" not in render_card(ModelCard(name="x", **facts)).split("---")[1]
