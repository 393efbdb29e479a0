"""The drafter's training: formulas by hand, windows as described, twenty steps that learn, a run that resumes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from specdiff_core.models.mdlm import Mdlm, load_mdlm
from specdiff_core.train.corpus import Corpus
from specdiff_core.train.loop import EvalStep, Plan, TrainStep
from specdiff_core.train.losses import subs_loss
from specdiff_core.train.mdlm import export, new_mdlm, train_mdlm
from specdiff_core.train.mdlm_tasks import DraftTask
from specdiff_core.train.rounds import greedy_text, greedy_tokens_per_round
from specdiff_core.train.target import new_target
from specdiff_core.train.tokenizer import train_tokenizer
from specdiff_core.train.windows import SLOTS, draw_rows, draw_windows, stream_of
from specdiff_core.train.written import Written

MASK = 1
SIZES = {"tokens": 512, "rows": 4, "row_length": 96, "prompts": 2, "compile": False}


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> tuple[Corpus, PreTrainedTokenizerFast, Path, LlamaForCausalLM]:
    root = tmp_path_factory.mktemp("corpus")
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "the", "dog", "ran", "to", "a", "red", "house"]
    rng = np.random.default_rng(0)
    for split, count in (("train", 120), ("valid", 60)):
        documents = [" ".join(rng.choice(words, 60)) for _ in range(count)]
        (root / f"tales.{split}.txt").write_text("\n<|endoftext|>\n".join(documents))
    corpus = Corpus.open(root)
    train_tokenizer(corpus, root / "tokenizer", vocab_size=300)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(root / "tokenizer")
    torch.manual_seed(0)
    return corpus, tokenizer, root / "cache", new_target(len(tokenizer), layers=1, width=64, context=128)


def fresh(setting) -> Mdlm:
    torch.manual_seed(0)
    _, tokenizer, _, target = setting
    return new_mdlm(len(tokenizer), MASK, blocks=2, width=64, context=64, cond_dim=8, target=target)


def test_subs_loss_by_hand() -> None:
    """Two tokens, three ids, mask id 2: the mask's logit must not count, and only the masked token costs, over t."""
    logits = torch.tensor([[[0.0, math.log(3.0), 9.0], [5.0, 0.0, 0.0]]])
    ids, masked = torch.tensor([[1, 0]]), torch.tensor([[True, False]])
    loss = subs_loss(logits, ids, masked, torch.tensor([0.25]), mask_id=2)
    assert float(loss) == pytest.approx(-math.log(0.75) / 0.25 / 2, rel=1e-5)


def test_windows_are_clean_prefixes_with_masks() -> None:
    rows = np.arange(2, 2 + 3 * 100).reshape(3, 100)  # every token tells its place
    windows = draw_windows(rows, np.random.default_rng(0), count=200, length=64, mask_id=MASK)
    sizes = (windows.rank >= 0).sum(1)
    assert sizes.min() == 4 and sizes.max() == SLOTS
    assert windows.padding.min() >= 0 and (windows.padding + sizes < 64).all()  # a token of context at least
    assert (windows.ids[:, -SLOTS:] == MASK).tolist() == windows.masked.tolist()
    assert (windows.ids[:, :-SLOTS] != MASK).all()
    assert not (windows.masked & (windows.rank < 0)).any() and windows.masked.any(1).all()
    full = (windows.masked.sum(1) == sizes).mean()
    assert 0.4 < full < 0.75
    seen = windows.ids[:, -SLOTS:]
    truth = rows[windows.row[:, None], windows.position]
    assert (seen == truth)[~windows.masked].all()
    for ids, pad, row in zip(windows.ids, windows.padding, windows.row, strict=True):
        kept = ids[pad:-SLOTS]
        assert (np.diff(kept) == 1).all() and np.isin(kept, rows[row]).all()


def test_rows_and_streams() -> None:
    written = Written(
        np.array([[0, 5, 6, 0], [0, 7, 0, 0]], dtype=np.uint16),
        np.array([2, 2]),
        np.array([4, 3]),
        *([np.zeros(2)] * 2),
    )
    assert stream_of(written).tolist() == [0, 5, 6, 0, 0, 7, 0]
    rows = draw_rows([np.arange(50), np.arange(3)], np.random.default_rng(0), 6, 10)
    assert rows.shape == (6, 10) and (np.diff(rows, axis=1) == 1).all()


def test_greedy_rounds_are_counted_as_a_decode_would() -> None:
    """Always right: γ + 1 tokens a round. Always wrong: 1. Right at the first slot only: 2."""
    text = torch.arange(40)[None]

    def proposer(good: int):
        def propose(prefixes):
            drafts = torch.stack([torch.arange(len(p), len(p) + 4) for p in prefixes])
            drafts[:, good:] = -1
            return drafts

        return propose

    assert [greedy_tokens_per_round(proposer(n), text, 4, 4) for n in (4, 0, 1)] == [5.0, 1.0, 2.0]


def test_greedy_text_is_the_targets_own(setting) -> None:
    _, _, _, target = setting
    prompts = torch.tensor([[0, 5, 9], [0, 8, 30]])
    text = greedy_text(target, prompts, 6, [MASK])
    for position in range(3, 9):
        with torch.no_grad():
            logits = target(input_ids=text[:, :position]).logits[:, -1]
        logits[:, MASK] = -torch.inf
        assert text[:, position].tolist() == logits.argmax(-1).tolist()


def test_labels_are_the_targets_distribution_of_each_slot(setting) -> None:
    """The soft label of the token at t is the target's softmax at t − 1 on the clean row, without the mask id."""
    corpus, tokenizer, cache, target = setting
    task = DraftTask(fresh(setting), target, corpus, tokenizer, cache, **SIZES)
    rows, windows = task._draw()
    labels = task._labels(rows, windows)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        logits = target(input_ids=torch.from_numpy(rows)).logits.float()
    logits[..., MASK] = -torch.inf
    n, slot = 3, SLOTS - 2
    expected = logits[windows.row[n], windows.position[n, slot] - 1].softmax(-1)
    torch.testing.assert_close(labels[n, slot], expected, atol=2e-3, rtol=0)
    assert float(labels[..., MASK].max()) == 0.0


def test_streaks_are_counted_on_whole_windows_of_target_written_text_only(setting) -> None:
    """The loss with the streak term, less the one without it, is the term by hand: Σ_j sg(Π_{i<j} q_i) log q_j."""
    corpus, tokenizer, cache, target = setting
    own = [np.tile(np.arange(2, 100, dtype=np.uint16), 4)]
    options = {"written": own, "share": 0.5, "whole": 0.5, **SIZES}
    model = fresh(setting)
    plain = DraftTask(model, target, corpus, tokenizer, cache, **options)
    task = DraftTask(model, target, corpus, tokenizer, cache, streak=2.0, **options)
    rows, windows = task._draw()
    inputs = task._inputs(rows, windows)
    ids, padding, chains = inputs[0], inputs[1], inputs[-1].numpy()
    sizes = (windows.rank >= 0).sum(1)
    whole = windows.masked.sum(1) == sizes
    assert (chains == (whole & (windows.row >= 2))).all() and 0 < chains.sum() < whole.sum()  # rows 2, 3 are its own
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
    found = float((task._nats(*inputs) - plain._nats(*inputs)).detach())
    assert found == pytest.approx(2.0 * total / chains.sum(), rel=1e-3)


def run(setting, folder: Path, *, steps: int, resume: bool = False, stop_after: int | None = None) -> list:
    corpus, tokenizer, cache, target = setting
    own = [np.tile(np.arange(2, 100, dtype=np.uint16), 4)]
    plan = Plan(steps=steps, run=folder, warmup=2, eval_every=100, save_every=5, resume=resume)
    model = fresh(setting)
    events = []
    for event in train_mdlm(model, target, corpus, tokenizer, cache, plan, subs_fraction=0.5, written=own, **SIZES):
        events.append(event)
        if stop_after is not None and sum(isinstance(e, TrainStep) for e in events) == stop_after:
            break
    return [model, *events]


def test_forty_steps_learn_and_a_cut_run_resumes(setting, tmp_path: Path) -> None:
    """Both phases lower their loss; a run cut after 27 steps and resumed ends where the uncut one does."""
    _, *events = run(setting, tmp_path / "whole", steps=40)
    losses = [event.loss for event in events if isinstance(event, TrainStep)]
    scores = [event.scores for event in events if isinstance(event, EvalStep)]
    assert len(losses) == 40 and all(math.isfinite(loss) for loss in losses)
    assert np.mean(losses[15:20]) < 0.9 * np.mean(losses[:3])  # SUBS
    assert np.mean(losses[35:]) < np.mean(losses[20:23])  # drafting
    assert {"subs/tales", "subs/mean"} <= scores[0].keys()
    assert 1.0 <= scores[1]["tokens_per_round/mean"] <= 9.0 and math.isfinite(scores[1]["soft_ce/mean"])

    run(setting, tmp_path / "cut", steps=40, stop_after=27)
    resumed, *rest = run(setting, tmp_path / "cut", steps=40, resume=True)
    again = [event.loss for event in rest if isinstance(event, TrainStep)]
    assert again == pytest.approx(losses[-len(again) :], rel=1e-3) and len(again) == 15
    lines = (tmp_path / "cut" / "draft" / "metrics.jsonl").read_text().splitlines()
    assert all("kind" in json.loads(line) for line in lines)

    loaded = load_mdlm(export(resumed, tmp_path / "export"))
    ids = torch.tensor([[0, 5, 9, MASK, MASK]])
    with torch.no_grad():
        torch.testing.assert_close(loaded(ids), resumed(ids), atol=0.15, rtol=0.05)  # stored in bf16
