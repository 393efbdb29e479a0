"""The training of EAGLE's head: what it begins as, what its passes read, rounds as a decode makes them, resuming."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from test_train_mdlm import MASK, setting  # noqa: F401  (a fixture)

from specdiff_core.drafters.eagle import EagleDrafter, EagleSession
from specdiff_core.models.eagle import EagleReader, load_eagle, save_eagle
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.train.eagle import EagleTask, new_eagle, train_eagle
from specdiff_core.train.loop import EvalStep, Plan, TrainStep
from specdiff_core.train.sequential import GAMMA

SIZES = {"rows": 4, "length": 96, "compile": False}


def test_it_begins_by_repeating_the_feature_it_is_given(setting) -> None:  # noqa: F811
    target = setting[3]
    head = new_eagle(target)
    assert torch.equal(head.fc.weight[:, target.config.hidden_size :], torch.eye(target.config.hidden_size))
    assert head.config.num_hidden_layers == 1 and head.fc.bias is None


def test_later_passes_read_the_heads_own_features(setting, monkeypatch) -> None:  # noqa: F811
    """With every feature its own, pass k is what plain unrolling gives; and the loss is the mean of the passes'."""
    from specdiff_core.train import eagle

    corpus, tokenizer, cache, target = setting
    monkeypatch.setattr(eagle, "OWN", 1.0)
    head = new_eagle(target, seed=4).eval()
    given: list[torch.Tensor] = []
    head.register_forward_pre_hook(lambda module, args: given.append(args[1].detach().float()))
    found: list[torch.Tensor] = []
    head.register_forward_hook(lambda module, args, out: found.append(out.detach().float()))
    task = EagleTask(head, target, corpus, tokenizer, cache, **SIZES)
    ids = task.draw()
    loss = float(task.nats(ids, *task.chance(np.random.default_rng(0))).detach())
    assert len(given) == eagle.PASSES and np.isfinite(loss)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        states = target.model(input_ids=ids).last_hidden_state.float()
    torch.testing.assert_close(given[0], states[:, :-1])
    for before, after in zip(found[:-1], given[1:], strict=True):
        torch.testing.assert_close(after[:, 1:], before[:, :-1])
        torch.testing.assert_close(after[:, 0], states[:, 0])


def test_its_rounds_are_those_of_the_drafter(setting) -> None:  # noqa: F811
    """Prefixes of different lengths in one batch propose what the decoding session drafts for each alone."""
    corpus, tokenizer, cache, target = setting
    head = new_eagle(target, seed=4).eval()
    with torch.no_grad():
        head.fc.weight += 0.3 * torch.randn(head.fc.weight.shape, generator=torch.Generator().manual_seed(1))
    task = EagleTask(head, target, corpus, tokenizer, cache, **SIZES)
    prefixes = [torch.tensor(ids) for ids in ([0, 5, 9, 14], [0, 8], [0, 5, 9, 14, 20, 21, 22])]
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        task_rounds = [task.propose([prefix])[0].tolist() for prefix in prefixes]
        assert task.propose(prefixes).tolist() == task_rounds
    drafter = EagleDrafter("eagle", EagleReader(head, target), context=64, layer=0, forbidden=(MASK,))
    from test_drafters import context, drafted

    agreed = 0
    for prefix, proposed in zip(prefixes, task_rounds, strict=True):
        session = EagleSession(drafter)
        with torch.inference_mode():
            session.observe(prefix[:-1].tolist(), target.model(prefix[None, :-1]).last_hidden_state[0])
        told = context(prefix.tolist(), GAMMA, sampling=DecodeConfig(temperature=0.0).sampling)
        agreed += sum(a == b for a, b in zip(drafted(session, told).ids.tolist(), proposed, strict=True))
    assert agreed >= 3 * GAMMA - 2  # the task rounds in bf16: near ties may fall the other way


def run(setting, folder: Path, *, steps: int, resume: bool = False, stop_after: int | None = None) -> list:  # noqa: F811
    corpus, tokenizer, cache, target = setting
    plan = Plan(steps=steps, run=folder, warmup=2, eval_every=100, save_every=4, resume=resume)
    head, events = new_eagle(target, seed=2), []
    for event in train_eagle(head, target, corpus, tokenizer, cache, plan, prompts=2, **SIZES):
        events.append(event)
        if stop_after is not None and sum(isinstance(e, TrainStep) for e in events) == stop_after:
            break
    return [head, *events]


def test_steps_learn_resume_and_leave_files_that_load(setting, tmp_path: Path) -> None:  # noqa: F811
    head, *events = run(setting, tmp_path / "whole", steps=12)
    losses = [event.loss for event in events if isinstance(event, TrainStep)]
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    scores = next(event.scores for event in events if isinstance(event, EvalStep))
    assert 1.0 <= scores["tokens_per_round/mean"] <= GAMMA + 1 and scores["soft_ce/mean"] > 0
    run(setting, tmp_path / "cut", steps=12, stop_after=6)
    again = [e.loss for e in run(setting, tmp_path / "cut", steps=12, resume=True) if isinstance(e, TrainStep)]
    assert len(again) == 8 and again == pytest.approx(losses[-8:], rel=1e-3)
    loaded = load_eagle(save_eagle(head, tmp_path / "eagle"))
    assert torch.equal(loaded.fc.weight, head.fc.weight.detach().bfloat16().float())
