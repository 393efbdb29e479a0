"""Training the masked-diffusion drafter: labels and streaks as described, both phases learn, a cut run resumes."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from train_fakes import MASK, Pair, events_of
from train_fakes import pair as pair  # a fixture

from specdiff_core.models.mdlm import Mdlm, load_mdlm, save_mdlm
from specdiff_core.schema.errors import ConfigError, CorpusError
from specdiff_core.train.mdlm import DraftTask, SubsTask, new_mdlm
from specdiff_core.train.rows import SLOTS
from specdiff_core.train.settings import MdlmSettings
from specdiff_core.train.trainer import EvalStep, TrainStep, train

OWN = np.tile(np.arange(2, 100, dtype=np.uint16), 4)
"""Text that the target might have written."""


def fresh(pair: Pair) -> Mdlm:
    torch.manual_seed(0)
    return new_mdlm(len(pair.data.tokenizer), MASK, layers=2, width=64, context=64, cond_dim=8, target=pair.target)


def settings_for(**options: Any) -> MdlmSettings:
    plan = {"warmup": 2, "eval_every": 100, "save_every": 5, "compile": False}
    return MdlmSettings(**{**plan, "batch_tokens": 512, "length": 96, "share": 0.5, **options})


def draft_task(pair: Pair, model: Mdlm | None = None, **options: Any) -> DraftTask:
    return DraftTask(model or fresh(pair), pair.target, pair.data, settings_for(**options), written=OWN, prompts=2)


def test_labels_are_the_targets_distribution_of_each_slot(pair: Pair) -> None:
    """The soft label of the token at t is the target's softmax at t − 1 on the clean row, without the mask id."""
    task = draft_task(pair)
    rows, rng = task.rows.draw()
    windows = task.draw_windows(rows, rng)
    labels = task.labels(rows, windows)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        logits = pair.target(input_ids=torch.from_numpy(rows)).logits.float()
    logits[..., MASK] = -torch.inf
    n, slot = 3, SLOTS - 2
    expected = logits[windows.row[n], windows.position[n, slot] - 1].softmax(-1)
    torch.testing.assert_close(labels[n, slot], expected, atol=2e-3, rtol=0)
    assert float(labels[..., MASK].max()) == 0.0


def test_streaks_are_counted_on_whole_windows_of_target_written_text_only(pair: Pair) -> None:
    """The loss with the streak term, less the one without it, is the term by hand: Σ_j sg(Π_{i<j} q_i) log q_j."""
    model = fresh(pair)
    plain, task = draft_task(pair, model), draft_task(pair, model, streak=2.0)
    rows, rng = task.rows.draw()
    windows = task.draw_windows(rows, rng)
    inputs = task.inputs_of(rows, windows)
    ids, padding, chains = inputs[0], inputs[1], inputs[-1].numpy()
    sizes = (windows.rank >= 0).sum(1)
    whole = windows.masked.sum(1) == sizes
    assert (chains == (whole & (windows.row >= 4))).all() and 0 < chains.sum() < whole.sum()  # rows 4 to 7 are its own
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        logits = model(ids, first=ids.shape[1] - SLOTS, padding=padding).float()
    logits[..., MASK] = -torch.inf
    log_q, total = logits.log_softmax(-1), 0.0
    for n in np.flatnonzero(chains):
        before = 1.0
        for slot in range(SLOTS - sizes[n], SLOTS):
            one = float(log_q[n, slot, int(rows[windows.row[n], windows.position[n, slot]])])
            total -= before * one
            before *= math.exp(one)
    found = float((task.objective(*inputs) - plain.objective(*inputs)).detach())
    assert found == pytest.approx(2.0 * total / chains.sum(), rel=1e-3)


def run(pair: Pair, folder: Path, *, resume: bool = False, stop_after: int | None = None) -> tuple[Mdlm, list[Any]]:
    """10 steps of denoising, then 10 of drafting."""
    settings, model = settings_for(steps=10, resume=resume), fresh(pair)

    def phases() -> Any:
        denoise = dataclasses.replace(settings, decay_from=1.0)
        yield from train(SubsTask(model, pair.data, denoise), denoise, folder / "subs")
        yield from train(draft_task(pair, model, steps=10), settings, folder / "draft")

    return model, events_of(phases(), (TrainStep, EvalStep), stop_after)


def test_both_phases_learn_and_a_cut_run_resumes(pair: Pair, tmp_path: Path) -> None:
    """A run cut after 17 steps and resumed ends where the uncut one does."""
    _, events = run(pair, tmp_path / "whole")
    losses = [event.loss for event in events if isinstance(event, TrainStep)]
    scores = [event.scores for event in events if isinstance(event, EvalStep)]
    assert len(losses) == 20 and all(math.isfinite(loss) for loss in losses)
    assert np.mean(losses[7:10]) < 0.95 * np.mean(losses[:3])  # denoising
    assert np.mean(losses[-3:]) < np.mean(losses[10:13])  # drafting
    assert {"subs/tales", "subs/mean"} == scores[0].keys()
    assert {"soft_ce", "tokens_per_round", "tokens_per_round@half"} == {name.split("/")[0] for name in scores[1]}
    assert 1.0 <= scores[1]["tokens_per_round/mean"] <= 9.0 and math.isfinite(scores[1]["soft_ce/mean"])

    run(pair, tmp_path / "cut", stop_after=18)  # 17 steps, and the first phase's evaluation
    resumed, rest = run(pair, tmp_path / "cut", resume=True)
    again = [event.loss for event in rest if isinstance(event, TrainStep)]
    assert again == pytest.approx(losses[-len(again) :], rel=1e-3) and len(again) == 5

    loaded = load_mdlm(save_mdlm(resumed, tmp_path / "export"))
    ids = torch.tensor([[0, 5, 9, MASK, MASK]])
    with torch.no_grad():
        torch.testing.assert_close(loaded(ids), resumed(ids), atol=0.15, rtol=0.05)  # stored in bf16


def test_what_cannot_work_is_refused_before_training(pair: Pair) -> None:
    with pytest.raises(ConfigError, match="--width 100"):
        new_mdlm(300, MASK, width=100)
    with pytest.raises(CorpusError, match="a row takes 96"):
        DraftTask(fresh(pair), pair.target, pair.data, settings_for(), written=OWN[:50])
