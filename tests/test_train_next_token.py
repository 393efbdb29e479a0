"""Training what predicts the next token: the target, the autoregressive drafter and EAGLE's head."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from train_fakes import MASK, Pair, events_of, greedy_context
from train_fakes import pair as pair  # a fixture

from specdiff_core.drafters.eagle import EagleDrafter, EagleSession
from specdiff_core.models.causal import vocabulary
from specdiff_core.models.eagle import load_eagle, save_eagle
from specdiff_core.models.target import Target
from specdiff_core.schema.settings import Sampling
from specdiff_core.train import eagle
from specdiff_core.train.autoregressive import GAMMA, AutoregressiveTask, SequentialTask, new_autoregressive
from specdiff_core.train.causal_target import TargetTask, held_out_loss, new_target, samples
from specdiff_core.train.eagle import PASSES, EagleTask, new_eagle
from specdiff_core.train.settings import DrafterSettings, EagleSettings, TargetSettings
from specdiff_core.train.trainer import EvalStep, TrainStep, train

SIZES = {"batch_tokens": 4 * 96, "length": 96, "compile": False}
TASKS = (AutoregressiveTask, EagleTask)


def settings_for(**options: Any) -> DrafterSettings:
    plan = {"warmup": 2, "eval_every": 100, "save_every": 4}
    return DrafterSettings(**{**SIZES, **plan, **options})


def task_for(kind: type[SequentialTask], pair: Pair, model: Any = None, **options: Any) -> SequentialTask:
    torch.manual_seed(2)
    if model is None:
        fresh = {AutoregressiveTask: lambda: new_autoregressive(pair.target, layers=1), EagleTask: head_of}
        model = fresh[kind](pair) if kind is EagleTask else fresh[kind]()
    return kind(model, pair.target, pair.data, settings_for(**options), prompts=2)


def head_of(pair: Pair) -> Any:
    return new_eagle(pair.target, seed=2)


# The target.


def test_the_targets_loss_is_the_mean_over_held_out_windows(pair: Pair) -> None:
    """Consecutive windows, every token but the first predicted once; a short text is one window."""
    tokens = pair.data.held_out()["tales"][:150]
    with torch.no_grad():
        logits = [pair.target(input_ids=torch.from_numpy(tokens[a : a + 40].astype(np.int64))[None]) for a in (0, 40)]
    nats = [
        -out.logits[0].log_softmax(-1)[torch.arange(40), torch.from_numpy(tokens[a + 1 : a + 41].astype(np.int64))]
        for out, a in zip(logits, (0, 40), strict=True)
    ]
    assert held_out_loss(pair.target, tokens, 40, 2) == pytest.approx(float(torch.cat(nats).mean()), rel=1e-4)
    assert math.isfinite(held_out_loss(pair.target, tokens[:20], 40))


def test_the_target_learns(pair: Pair, tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = new_target(len(pair.data.tokenizer), layers=1, width=64, context=128)
    settings = TargetSettings(**SIZES, steps=8, warmup=2)
    events = list(train(TargetTask(model, pair.data, settings), settings, tmp_path))
    losses = [event.loss for event in events if isinstance(event, TrainStep)]
    assert losses[0] == pytest.approx(math.log(300), rel=0.1) and losses[-1] < 0.8 * losses[0]
    assert events[-1].scores.keys() == {"tales", "mean"} and events[-3].tokens == 8 * 4 * 96


def test_samples_continue_held_out_documents(pair: Pair) -> None:
    begin, _, said = samples(pair.target, pair.data, length=5)["tales"].partition("⟶")
    assert next(pair.data.corpus.documents("tales", "valid")).startswith(begin.strip()) and said


# Drafters that predict one token after the other.


def test_they_begin_as_their_target_suggests(pair: Pair) -> None:
    target, model, head = pair.target, new_autoregressive(pair.target, layers=1), new_eagle(pair.target)
    assert torch.equal(model.get_input_embeddings().weight, target.get_input_embeddings().weight)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert model.config.num_hidden_layers == 1 and model.config.vocab_size == target.config.vocab_size
    assert torch.equal(head.fc.weight[:, target.config.hidden_size :], torch.eye(target.config.hidden_size))
    assert head.config.num_hidden_layers == 1 and head.fc.bias is None


def test_a_copy_of_the_target_pays_its_entropy_only(pair: Pair) -> None:
    """Soft cross-entropy of p with itself is its entropy, with the mask left out of both."""
    task = task_for(AutoregressiveTask, pair, pair.target)
    (ids,) = task.inputs(*task.rows.draw())
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        logits = pair.target(input_ids=ids).logits.float()
        labels = logits.index_fill(-1, torch.tensor([MASK]), -torch.inf).softmax(-1)
        entropy = -(labels * logits.log_softmax(-1)).sum(-1).mean()
        assert float(task.objective(ids)) == pytest.approx(float(entropy), rel=2e-3)


def test_later_passes_read_the_heads_own_features(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every feature its own, pass k is what plain unrolling gives."""
    monkeypatch.setattr(eagle, "OWN", 1.0)
    head = new_eagle(pair.target, seed=4).eval()
    given: list[Tensor] = []
    found: list[Tensor] = []
    head.register_forward_pre_hook(lambda module, args: given.append(args[1].detach().float()))
    head.register_forward_hook(lambda module, args, out: found.append(out.detach().float()))
    task = task_for(EagleTask, pair, head)
    inputs = task.inputs(*task.rows.draw())
    assert math.isfinite(float(task.objective(*inputs).detach())) and len(given) == PASSES
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        states = pair.target.model(input_ids=inputs[0]).last_hidden_state.float()
    torch.testing.assert_close(given[0], states[:, :-1])
    for before, after in zip(found[:-1], given[1:], strict=True):
        torch.testing.assert_close(after[:, 1:], before[:, :-1])
        torch.testing.assert_close(after[:, 0], states[:, 0])


@pytest.mark.parametrize("kind", TASKS)
def test_prefixes_of_different_lengths_are_continued_as_each_alone(pair: Pair, kind: type[SequentialTask]) -> None:
    task = task_for(kind, pair, pair.target if kind is AutoregressiveTask else None)
    prefixes = [torch.tensor(ids) for ids in ([0, 5, 9, 14], [0, 8], [0, 5, 9, 14, 20, 21, 22])]
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        together = task.propose(prefixes)
        assert together.shape == (3, GAMMA)
        assert [task.propose([prefix])[0].tolist() for prefix in prefixes] == together.tolist()


def test_eagles_simulated_rounds_are_those_of_the_drafter(pair: Pair) -> None:
    """What the decoding session drafts after each prefix."""
    head = new_eagle(pair.target, seed=4).eval()
    with torch.no_grad():
        head.fc.weight += 0.3 * torch.randn(head.fc.weight.shape, generator=torch.Generator().manual_seed(1))
    task = task_for(EagleTask, pair, head)
    prefixes = [torch.tensor(ids) for ids in ([0, 5, 9, 14], [0, 8], [0, 5, 9, 14, 20, 21, 22])]
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        proposed = task.propose(prefixes).tolist()
    reader = head.freeze(vocabulary(pair.target), context=64)
    drafter = EagleDrafter("eagle", Target(reader, context=64, suppress=(MASK,)), layers=(0,))
    agreed = 0
    for prefix, wanted in zip(prefixes, proposed, strict=True):
        session = EagleSession(drafter)
        with torch.inference_mode():
            session.observe(prefix[:-1].tolist(), pair.target.model(prefix[None, :-1]).last_hidden_state[0])
        *_, last = session.draft(greedy_context(prefix.tolist(), GAMMA, Sampling(temperature=0.0)))
        agreed += sum(a == b for a, b in zip(last.ids.tolist(), wanted, strict=True))
    assert agreed >= 3 * GAMMA - 2  # the task's rounds are in bf16: near ties may fall the other way


@pytest.mark.parametrize("kind", TASKS)
def test_steps_learn_and_a_cut_run_resumes(pair: Pair, tmp_path: Path, kind: type[SequentialTask]) -> None:
    def run(folder: str, stop_after: int | None = None, **options: Any) -> list[Any]:
        settings, task = settings_for(steps=8, **options), task_for(kind, pair)
        return events_of(train(task, settings, tmp_path / folder), (TrainStep, EvalStep), stop_after)

    *steps, last = run("whole")
    losses = [event.loss for event in steps]
    assert len(losses) == 8 and np.mean(losses[-3:]) < np.mean(losses[:3])
    assert 1.0 <= last.scores["tokens_per_round/mean"] <= GAMMA + 1 and last.scores["soft_ce/mean"] > 0
    run("cut", stop_after=6)
    again = [event.loss for event in run("cut", resume=True)[:-1]]
    assert len(again) == 4 and again == pytest.approx(losses[-4:], rel=1e-3)


def test_a_trained_head_comes_back_and_learns_on(pair: Pair, tmp_path: Path) -> None:
    """Decoding reads second copies of the weights; training must not, or no gradient reaches them."""
    head = new_eagle(pair.target, seed=2)
    folder = save_eagle(head, tmp_path)
    assert torch.equal(load_eagle(folder).fc.weight, head.fc.weight.detach().bfloat16().float())
    again = load_eagle(folder).requires_grad_(True)
    assert torch.equal(again.fc.weight.detach(), head.fc.weight.detach().bfloat16().float())
    task_for(EagleTask, pair, again).loss().backward()
    silent = [name for name, p in again.named_parameters() if p.grad is None or not bool(p.grad.abs().sum() > 0)]
    assert silent == []
    assert EagleSettings().batch_tokens == 3072
