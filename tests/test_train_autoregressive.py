"""The autoregressive drafter's training: labels as described, steps that learn, a run that resumes, files that load."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from test_train_mdlm import MASK, setting  # noqa: F401  (a fixture)
from transformers import LlamaForCausalLM

from specdiff_core.train.autoregressive import AutoregressiveTask, new_autoregressive, train_autoregressive
from specdiff_core.train.loop import EvalStep, Plan, TrainStep
from specdiff_core.train.sequential import GAMMA

SIZES = {"rows": 4, "length": 96, "compile": False}


def fresh(target: LlamaForCausalLM) -> LlamaForCausalLM:
    torch.manual_seed(0)
    return new_autoregressive(target, layers=1)


def test_it_begins_with_the_targets_ends(setting) -> None:  # noqa: F811
    target = setting[3]
    model = fresh(target)
    assert torch.equal(model.get_input_embeddings().weight, target.get_input_embeddings().weight)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert model.config.num_hidden_layers == 1 and model.config.vocab_size == target.config.vocab_size


def test_a_copy_of_the_target_pays_its_entropy_only(setting) -> None:  # noqa: F811
    """Soft cross-entropy of p with itself is its entropy, with the mask left out of both."""
    corpus, tokenizer, cache, target = setting
    task = AutoregressiveTask(target, target, corpus, tokenizer, cache, **SIZES)
    ids = task.draw()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        logits = target(input_ids=ids).logits.float()
        told = logits.index_fill(-1, torch.tensor([MASK]), -torch.inf).softmax(-1)
        entropy = -(told * logits.log_softmax(-1)).sum(-1).mean()
        assert float(task.nats(ids)) == pytest.approx(float(entropy), rel=2e-3)


def test_the_share_of_target_written_rows(setting) -> None:  # noqa: F811
    corpus, tokenizer, cache, target = setting
    written = [np.full(400, 77, dtype=np.uint16)]
    for share, own in ((0.0, 0), (0.5, 2), (1.0, 4)):
        task = AutoregressiveTask(
            fresh(target), target, corpus, tokenizer, cache, written=written, share=share, **SIZES
        )
        assert int((task.draw() == 77).all(1).sum()) == own


def test_its_rounds_are_those_of_plain_decoding(setting) -> None:  # noqa: F811
    """Prefixes of different lengths in one batch propose what each would alone."""
    corpus, tokenizer, cache, target = setting
    task = AutoregressiveTask(target, target, corpus, tokenizer, cache, **SIZES)
    prefixes = [torch.tensor([0, 5, 9, 14]), torch.tensor([0, 8]), torch.tensor([0, 5, 9, 14, 20, 21, 22])]
    together = task.propose(prefixes)
    assert together.shape == (3, GAMMA)
    for prefix, proposed in zip(prefixes, together, strict=True):
        assert task.propose([prefix])[0].tolist() == proposed.tolist()


def run(setting, folder: Path, *, steps: int, resume: bool = False, stop_after: int | None = None) -> list:  # noqa: F811
    corpus, tokenizer, cache, target = setting
    plan = Plan(steps=steps, run=folder, warmup=2, eval_every=100, save_every=5, resume=resume)
    events = []
    for event in train_autoregressive(fresh(target), target, corpus, tokenizer, cache, plan, **SIZES):
        events.append(event)
        if stop_after is not None and sum(isinstance(e, TrainStep) for e in events) == stop_after:
            break
    return events


def test_steps_learn_and_a_cut_run_resumes(setting, tmp_path: Path) -> None:  # noqa: F811
    events = run(setting, tmp_path / "whole", steps=30)
    losses = [event.loss for event in events if isinstance(event, TrainStep)]
    assert len(losses) == 30 and np.mean(losses[-5:]) < np.mean(losses[:3])
    scores = next(event.scores for event in events if isinstance(event, EvalStep))
    assert 1.0 <= scores["tokens_per_round/mean"] <= GAMMA + 1
    run(setting, tmp_path / "cut", steps=30, stop_after=17)
    again = [e.loss for e in run(setting, tmp_path / "cut", steps=30, resume=True) if isinstance(e, TrainStep)]
    assert len(again) == 15 and again == pytest.approx(losses[-15:], rel=1e-3)
