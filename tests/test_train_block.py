"""Training the block drafter: blocks, losses, written text, twenty honest steps, resuming, evaluation."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from specdiff_core.drafters.base import Context
from specdiff_core.drafters.block_diffusion import BlockDrafter
from specdiff_core.maths.randomness import Independent
from specdiff_core.models.dflash import DFlashDraftModel, from_folder
from specdiff_core.models.target import Target
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.settings import RevealOrder, Sampling
from specdiff_core.train import losses
from specdiff_core.train.block import BlockTask, export, train_block
from specdiff_core.train.block_pass import block_hidden, read_target
from specdiff_core.train.blocks import Blocks, MixedRows, Rows, cut_blocks, draw_blocks
from specdiff_core.train.corpus import Corpus, Mixture, Stream
from specdiff_core.train.loop import EvalStep, Plan, TrainStep, train
from specdiff_core.train.new_block import drafter_config, feature_layers, grown, new_drafter
from specdiff_core.train.target import new_target
from specdiff_core.train.written import Written, Wrote, continue_prompts, write

VOCAB, BLOCK, END, MASK = 64, 5, 0, 1


@pytest.fixture(scope="module")
def target() -> Any:
    torch.manual_seed(0)
    model = new_target(VOCAB, layers=4, width=64, context=128).eval().requires_grad_(False)
    model.lm_head.weight.mul_(8.0)  # decided logits, so that there is something to learn
    return model


def drafter_for(target: Any, seed: int = 0, features: int = 2) -> DFlashDraftModel:
    return new_drafter(target, drafter_config(target, layers=1, features=features, block_size=BLOCK), seed)


def documents(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """40 documents of 30 tokens that count upwards from a random start."""
    rng = np.random.default_rng(seed)
    rows = [np.r_[END, 2 + (rng.integers(60) + np.arange(29)) % 60] for _ in range(40)]
    return np.concatenate(rows).astype(np.uint16), np.arange(0, 1200, 30)


def task_for(target: Any, drafter: DFlashDraftModel, *, seed: int = 0, **options: Any) -> BlockTask:
    mixture = Mixture({"count": Stream(*documents(), (0,))}, {"count": 1.0}, 0)
    source = MixedRows(mixture, None, rows=4, length=32, share=0.0, seed=seed)
    return BlockTask(target, drafter, source, tokens_per_step=128, anchors=8, compile=False, seed=seed, **options)


def plan_for(run: Path, steps: int, **options: Any) -> Plan:
    return Plan(steps=steps, run=run, warmup=3, decay_from=1.0, eval_every=1000, save_every=1000, **options)


def test_shared_head_cross_entropy_is_soft_cross_entropy() -> None:
    """Value and gradient equal the textbook formula −Σ p log q over dense logits, in chunks of any size."""
    generator = torch.Generator().manual_seed(0)
    student = torch.randn(7, 8, generator=generator, requires_grad=True)
    teacher, table = torch.randn(7, 8, generator=generator), torch.randn(20, 8, generator=generator)
    expected = losses.expected_embedding(teacher, table, rows=3)
    short = losses.log_normalizer(student, table, rows=2) - (student * expected).sum(-1)
    dense = losses.soft_cross_entropy(student @ table.T, (teacher @ table.T).softmax(-1))
    torch.testing.assert_close(short, dense)
    weights = torch.rand(7, generator=generator)
    (one,) = torch.autograd.grad(losses.weighted_mean(short, weights), student)
    (two,) = torch.autograd.grad(losses.weighted_mean(dense, weights), student)
    torch.testing.assert_close(one, two)


def test_streak_counts_the_expected_run() -> None:
    """By hand: q = ½, ½ inside, then outside the text: ½ + ¼; a clean run of 1, 1, 1 is worth 3."""
    log_q = torch.log(torch.tensor([[0.5, 0.5, 0.9], [1.0, 1.0, 1.0]]))
    known = torch.tensor([[True, True, False], [True, True, True]])
    assert float(losses.streak(log_q, known)) == pytest.approx(-(0.75 + 3.0) / 2)
    # d/dlog q of Σ sg(Π before)·log q: 1 at the first slot, ½ at the second, 0 outside
    log_q.requires_grad_()
    losses.cross_entropy_streak(log_q, known).backward()
    assert log_q.grad is not None
    torch.testing.assert_close(log_q.grad[0], torch.tensor([-0.5, -0.25, 0.0]))
    torch.testing.assert_close(losses.position_weights(torch.tensor([0, 4]), 4.0), torch.tensor([1.0, math.exp(-1.0)]))


def test_blocks_end_where_the_text_ends() -> None:
    tokens = torch.tensor([[5, 6, 7, END, 8, 9]])
    rows = Rows(
        tokens=tokens, lengths=torch.tensor([5]), first=torch.tensor([0]), last=torch.tensor([4])
    )  # the 9 is padding
    truth, known = cut_blocks(rows, torch.tensor([[1, 3]]), 4, END)
    assert truth[0].tolist() == [[6, 7, END, 8], [END, 8, 9, 9]]
    assert known[0].tolist() == [[True, True, True, False], [True, True, False, False]]


def test_drawn_blocks_hide_what_is_scored() -> None:
    tokens = torch.arange(2, 42).repeat(3, 1)
    rows = Rows(
        tokens=tokens,
        lengths=torch.full((3,), 40),
        first=torch.tensor([1, 10, 38]),
        last=torch.tensor([38, 12, 38]),
    )
    blocks = draw_blocks(rows, 200, BLOCK, MASK, END, torch.Generator().manual_seed(0))
    assert blocks.anchors.amin(1).tolist() == [1, 10, 38] and blocks.anchors.amax(1).tolist() == [38, 12, 38]
    assert not bool(blocks.masked[..., 0].any())
    assert bool((blocks.ids[blocks.masked] == MASK).all()) and bool((blocks.ids == blocks.truth)[~blocks.masked].all())
    assert bool(blocks.masked[..., 1:][~blocks.known[..., 1:]].all())  # nothing behind the end is ever shown
    fully = blocks.masked[1, :, 1:].all(-1).float().mean()
    assert 0.4 < float(fully) < 0.75  # half by design, some of the rest by chance; 200 draws


@pytest.mark.parametrize(("whole", "low", "high"), [(1.0, 1.0, 1.0), (0.0, 0.02, 0.3)])
def test_whole_is_the_fraction_of_fully_masked_blocks(whole: float, low: float, high: float) -> None:
    """With none by design a few are left by sampler: a ratio near one, or a clean beginning of no token."""
    tokens = torch.arange(2, 42).repeat(2, 1)
    ends = torch.full((2,), 40)
    rows = Rows(tokens=tokens, lengths=ends, first=torch.ones(2, dtype=torch.long), last=torch.full((2,), 30))
    blocks = draw_blocks(rows, 300, 9, MASK, END, torch.Generator().manual_seed(0), whole=whole)
    assert low <= float(blocks.masked[..., 1:].all(-1).float().mean()) <= high


@pytest.mark.parametrize(("greedy", "share"), [(None, 0.25), (1.0, 1.0), (0.0, 0.0), (0.6, 0.6)])
def test_greedy_is_the_fraction_of_rows_written_at_temperature_zero(greedy: float | None, share: float) -> None:
    """None takes the rows as they come: one in four here."""
    count = 40
    temperatures = np.array([0.0, 1.0, 1.0, 1.0] * (count // 4))
    marked = np.where(temperatures == 0, 7, 9)[:, None].repeat(12, 1).astype(np.uint16)
    size = np.full(count, 12)
    own = Written(marked, np.full(count, 4), size, np.array(["a"] * count), temperatures)
    mixture = Mixture({"count": Stream(*documents(), (0,))}, {"count": 1.0}, 0)
    source = MixedRows(mixture, own, rows=50, length=12, share=1.0, greedy=greedy, seed=0)
    seen = torch.cat([source.batch().tokens[:, 0] for _ in range(20)])
    assert set(seen.tolist()) <= {7, 9}
    assert float((seen == 7).float().mean()) == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize(("short", "sizes"), [(0.0, {BLOCK}), (0.5, {3, BLOCK}), (1.0, {3})])
def test_short_steps_have_half_the_slots(
    target: Any, short: float, sizes: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The anchor and half of the masks; which steps are short depends on the seed and the step alone."""
    seen: list[int] = []

    def drawn(rows: Rows, count: int, size: int, *rest: Any, **options: Any) -> Any:
        seen.append(size)
        return draw_blocks(rows, count, size, *rest, **options)

    monkeypatch.setattr("specdiff_core.train.block.draw_blocks", drawn)
    for _ in range(2):
        task = task_for(target, drafter_for(target), short=short)
        assert all(math.isfinite(float(task.loss().detach())) for _ in range(8))
    assert set(seen) == sizes and seen[:8] == seen[8:]


def test_layers_are_spread_as_published() -> None:
    assert feature_layers(5, 36) == [1, 9, 17, 25, 33]
    assert feature_layers(3, 16) == [1, 7, 13]
    assert [feature_layers(1, layers) for layers in (1, 2, 3, 4)] == [[0], [0], [1], [1]]
    assert [feature_layers(layers - 1, layers) for layers in (2, 3, 4)] == [[0], [0, 1], [0, 1, 2]]


def test_one_training_pass_is_what_decoding_computes(target: Any) -> None:
    """Every block of the training layout equals a decoding session's q at that anchor (fp32), γ = 4 and 2."""
    drafter = drafter_for(target).eval()
    text = torch.from_numpy(documents(1)[0][:24].astype(np.int64))
    features = torch.cat([h[0] for h in _hidden(target, text, drafter.config.target_layer_ids)], -1)
    anchors = torch.tensor([[1, 7, 19]])
    weights = target.get_input_embeddings().weight
    for gamma in (4, 2):
        ids = torch.full((1, 3, gamma + 1), MASK)
        ids[..., 0] = text[anchors]
        with torch.no_grad():
            hidden = block_hidden(drafter, features[None], weights[ids.flatten(1)], anchors, gamma + 1)
        probs = (hidden.view(3, gamma + 1, -1)[:, 1:] @ weights.T).double()
        probs[..., MASK] = -torch.inf
        for row, anchor in enumerate(anchors[0].tolist()):
            session = BlockDrafter("block", drafter, weights, target.get_output_embeddings()).start()
            session.observe(text[:anchor].tolist(), features[:anchor])
            context = Context(
                ids=text[: anchor + 1].tolist(),
                gamma=gamma,
                steps=1,
                order=RevealOrder.LEFT_TO_RIGHT,
                sampling=Sampling(temperature=1.0),
                sampler=Independent("draft", 0, 0),
            )
            state = next(session.draft(context))
            torch.testing.assert_close(state.confidence(), probs[row].softmax(-1), atol=1e-6, rtol=1e-4)


def _hidden(target: Any, text: Tensor, layers: list[int]) -> list[Tensor]:
    with torch.no_grad():
        states = target.model(input_ids=text[None], output_hidden_states=True).hidden_states
    return [states[layer + 1] for layer in layers]


def test_the_teacher_is_the_targets_own_distribution(target: Any) -> None:
    """The expected embedding at t is Σ p(v | ≤ t) e_v, to bf16."""
    text = torch.from_numpy(documents(2)[0][:20].astype(np.int64))[None]
    reading = read_target(target, text, [0, 2])
    with torch.no_grad():
        probs = target(input_ids=text).logits.softmax(-1)
    torch.testing.assert_close(reading.expected, probs @ target.lm_head.weight, atol=0.05, rtol=0.05)
    assert reading.features.shape == (1, 20, 128)


def test_twenty_steps_lower_the_loss(target: Any, tmp_path: Path) -> None:
    task = task_for(target, drafter_for(target))
    steps = [event.loss for event in train(task, plan_for(tmp_path, 20)) if isinstance(event, TrainStep)]
    assert len(steps) == 20
    assert np.mean(steps[-4:]) < 0.9 * np.mean(steps[:2])


def test_one_batch_is_overfitted(target: Any) -> None:
    """On one fixed batch the loss comes within 0.15 nats of its floor, the entropy of the labels."""
    task = task_for(target, drafter := drafter_for(target))
    rows = task._rows.batch()
    optimizer = torch.optim.Adam(drafter.parameters(), lr=5e-3)

    def loss() -> Tensor:
        return task.loss_on(rows, torch.Generator().manual_seed(0))

    first = float(loss().detach())
    for _ in range(80):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
    reading = read_target(target, rows.tokens, [0])
    with torch.no_grad():
        logits = target(input_ids=rows.tokens).logits
    entropy = float(torch.distributions.Categorical(logits=logits).entropy().mean())
    assert reading.expected.isfinite().all()
    assert float(value.detach()) < min(0.5 * first, entropy + 0.15)


def test_a_run_can_be_averaged_with_where_it_began(target: Any, tmp_path: Path) -> None:
    """Also when a finished run is opened again; what it goes on from is never the average."""
    begun, plain, mixed = (drafter_for(target) for _ in range(3))
    list(train(task_for(target, plain), plan_for(tmp_path / "run", 4)))
    events = list(train(task_for(target, mixed), plan_for(tmp_path / "run", 4, resume=True, average=0.25)))
    assert [type(event) for event in events] == [EvalStep]
    moved = False
    for first, last, found in zip(begun.parameters(), plain.parameters(), mixed.parameters(), strict=True):
        torch.testing.assert_close(found, 0.25 * first + 0.75 * last)
        moved |= not torch.equal(first, last)
    assert moved
    saved = torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)["model"]
    assert all(torch.equal(saved[name], value) for name, value in plain.state_dict().items())


def test_a_resumed_run_is_the_same_run(target: Any, tmp_path: Path) -> None:
    whole = drafter_for(target)
    list(train(task_for(target, whole), plan_for(tmp_path / "whole", 6)))
    list(train(task_for(target, drafter_for(target)), plan_for(tmp_path / "halves", 3)))
    resumed = drafter_for(target, seed=9)
    events = list(train(task_for(target, resumed), plan_for(tmp_path / "halves", 6, resume=True)))
    assert [e.step for e in events if isinstance(e, TrainStep)] == [4, 5, 6]
    for a, b in zip(whole.parameters(), resumed.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_streak_without_a_fully_masked_block_adds_nothing(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mean over no block is no number, and must not reach the weights."""

    def drawn(rows: Rows, count: int, size: int, mask_id: int, end: int, *rest: Any, **options: Any) -> Any:
        anchors = torch.full((rows.tokens.shape[0], count), 3)
        truth, known = cut_blocks(rows, anchors, size, end)
        masked = torch.zeros_like(known)
        masked[..., 2:] = True  # the first slot is always known
        return Blocks(torch.where(masked, mask_id, truth), anchors, masked, known, truth)

    monkeypatch.setattr("specdiff_core.train.block.draw_blocks", drawn)
    plain, streaked = (float(task_for(target, drafter_for(target), streak=w).loss().detach()) for w in (0.0, 1.0))
    assert math.isfinite(plain) and streaked == plain


def test_streak_term_reaches_the_weights(target: Any) -> None:
    drafter = drafter_for(target)
    losses_seen = []
    for weight in (0.0, 0.5):
        task = task_for(target, drafter, streak=weight)
        losses_seen.append(float(task.loss().detach()))
    assert losses_seen[1] > losses_seen[0]  # −Σ sg(Π)·log q is positive


def test_a_new_markov_head_changes_nothing_until_it_learns(target: Any, tmp_path: Path) -> None:
    """It begins as the drafter that it was added to; its losses reach all three matrices; its folder comes back."""
    plain = drafter_for(target)
    chained = grown(plain, target_layers=4, markov=16)
    markov = chained.markov
    assert markov is not None and sum(p.numel() for p in markov.parameters()) == 3 * 16 * 64
    states, before = torch.randn(2, 3, 64), torch.randn(2, 3, 64)
    assert torch.equal(markov(states, before), states)
    assert torch.equal(chained.fc.weight, plain.fc.weight)
    task = task_for(target, chained, streak=1.0, whole=1.0)
    torch.nn.init.normal_(markov.out.weight, std=0.1)
    task.loss().backward()
    assert all(p.grad is not None and float(p.grad.abs().sum()) > 0 for p in markov.parameters())
    export(chained, tmp_path)
    again = from_folder(tmp_path)
    assert again.markov is not None and again.config.markov_width == 16
    assert torch.equal(again.markov.out.weight, markov.out.weight.bfloat16().float())


def test_a_grown_drafter_computes_the_same_and_all_its_weights_learn(target: Any) -> None:
    """New features and MLP columns begin at zero: the same hidden states; behind them, after one step, everything new
    has a gradient."""
    plain = drafter_for(target, features=1)
    larger = grown(plain, target_layers=4, features=3, intermediate=plain.config.intermediate_size + 64)
    assert set(plain.config.target_layer_ids) < set(larger.config.target_layer_ids)
    text = torch.randint(2, 60, (2, 40))
    hidden = [hidden_of(target, model, text) for model in (plain, larger)]
    torch.testing.assert_close(*hidden)
    task = task_for(target, larger)
    optimizer = torch.optim.SGD(larger.parameters(), lr=0.1)
    for _ in range(2):  # what feeds the silent columns learns once these have moved
        optimizer.zero_grad()
        task.loss().backward()
        optimizer.step()
    mlp = larger.layers[0].mlp
    new = [mlp.gate_proj.weight.grad[-64:], mlp.up_proj.weight.grad[-64:], mlp.down_proj.weight.grad[:, -64:].T]
    assert all(bool((part.abs().sum(1) > 0).all()) for part in new)
    assert larger.fc.weight.grad is not None and bool((larger.fc.weight.grad.abs().sum(0) > 0).all())


def hidden_of(target: Any, model: DFlashDraftModel, text: Tensor) -> Tensor:
    """Hidden states of two blocks in each row of ``text``."""
    anchors = torch.tensor([[5, 20]] * len(text))
    features = read_target(target, text, model.config.target_layer_ids).features
    ids = torch.full((len(text), 2 * BLOCK), MASK)
    with torch.no_grad():
        return block_hidden(model, features, target.get_input_embeddings()(ids), anchors, BLOCK)


@pytest.mark.parametrize("layers", [[2, 0, 1], [1, 1], [1, 1, 1]])
def test_a_drafter_grows_from_layers_in_any_order(target: Any, layers: list[int]) -> None:
    """Released configs may name them as they like, twice even."""
    values = drafter_config(target, layers=1, features=len(layers), block_size=BLOCK)
    values["dflash_config"]["target_layer_ids"] = layers
    plain = new_drafter(target, values)
    text = torch.randint(2, 60, (2, 40))
    larger = grown(plain, target_layers=4, features=3)
    assert larger.config.target_layer_ids == [0, 1, 2]
    torch.testing.assert_close(hidden_of(target, plain, text), hidden_of(target, larger, text), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("wanted", [{"features": 9}, {"features": 1}, {"intermediate": 64}, {"markov": 8}])
def test_a_drafter_grows_and_never_shrinks(target: Any, wanted: dict[str, int]) -> None:
    chained = grown(drafter_for(target), target_layers=4, markov=16)
    with pytest.raises(ConfigError, match=f"--{next(iter(wanted))}"):
        grown(chained, target_layers=4, **wanted)


def test_a_markov_head_learns_what_follows_what(target: Any) -> None:
    """Of two heads that learn alike, the one that sees the token before each slot ends lower than the one that sees
    another slot's."""
    losses_of = {}
    for name in ("told", "misled"):
        torch.manual_seed(0)
        chained = grown(drafter_for(target), target_layers=4, markov=64)
        task = task_for(target, chained, whole=1.0, alone=0.0)
        if name == "misled":
            honest = task._chained
            task._chained = lambda states, before, honest=honest: honest(states, before[torch.randperm(len(before))])  # type: ignore[method-assign]
        optimizer = torch.optim.AdamW(chained.markov.parameters(), lr=1e-2)  # type: ignore[union-attr]
        seen = []
        for _ in range(60):
            optimizer.zero_grad()
            loss = task.loss()
            loss.backward()
            optimizer.step()
            seen.append(float(loss.detach()))
        losses_of[name] = sum(seen[-15:]) / 15
    assert losses_of["told"] < 0.97 * losses_of["misled"]


def test_written_text_is_the_targets_own(target: Any, tmp_path: Path) -> None:
    """Greedy rows equal transformers' ``generate``; an interrupted run goes on; sampled rows differ."""
    source = {"count": documents()}
    options: dict[str, Any] = {"rows": 4, "prompt_tokens": (5, 8), "new_tokens": 12, "temperatures": (0.0, 1.0)}
    events = list(write(target, source, tmp_path, parts=2, **options))
    assert [event.part for event in events] == [0, 1] and all(isinstance(event, Wrote) for event in events)
    assert list(write(target, source, tmp_path, parts=2, **options)) == []
    before = Written.load(tmp_path)
    (tmp_path / "part-00001.npz").unlink()
    list(write(target, source, tmp_path, parts=2, **options))
    assert np.array_equal(Written.load(tmp_path).tokens, before.tokens)
    for row in np.flatnonzero(before.temperatures == 0):
        prompt, length = int(before.prompts[row]), int(before.lengths[row])
        text = torch.from_numpy(before.tokens[row, :length].astype(np.int64))[None]
        again = target.generate(
            text[:, :prompt], max_new_tokens=12, do_sample=False, suppress_tokens=[MASK], eos_token_id=END
        )
        assert again[0, :length].tolist() == text[0].tolist()
    assert not (before.tokens[:, 9:] == MASK).any()


def test_sampling_follows_the_temperature() -> None:
    """20,000 draws of a 3-token law at temperature 2; false alarm below 1e-6 (5 sigma is 0.018)."""
    logits = torch.tensor([2.0, 0.0, -1.0])

    def model(**_: Any) -> Any:
        return SimpleNamespace(logits=logits.expand(20_000, 1, 3))

    model.config = new_target(8, layers=1, width=64).config  # type: ignore[attr-defined]  # a function as a model
    prompts, heat = torch.ones(20_000, 1, dtype=torch.long), torch.full((20_000,), 2.0)
    text = continue_prompts(model, prompts, heat, 1, torch.Generator().manual_seed(0), end=9)  # type: ignore[arg-type]
    seen = torch.bincount(text[:, 1], minlength=3) / 20_000
    torch.testing.assert_close(seen, (logits / 2).softmax(0), atol=0.018, rtol=0.0)


def test_evaluation_is_the_tau_of_a_real_greedy_decode(target: Any, tmp_path: Path) -> None:
    """Replaying target-written text gives the tokens per round of the real loop over the same prompts."""
    list(
        write(
            target,
            {"count": documents()},
            tmp_path,
            parts=1,
            rows=3,
            prompt_tokens=(6, 9),
            new_tokens=20,
            temperatures=(0.0,),
        )
    )
    written = Written.load(tmp_path)
    drafter = drafter_for(target)
    task = task_for(target, drafter, held_out=written)
    list(train(task, plan_for(tmp_path / "run", 30)))
    drafter.eval()
    scores = task.evaluate()
    assert set(scores) == {"tau4/count", "tau4/mean"}
    weights = target.get_input_embeddings().weight
    shared = BlockDrafter("block", drafter, weights, target.get_output_embeddings())
    committed = rounds = 0
    for row in range(3):
        prompt, length = int(written.prompts[row]), int(written.lengths[row])
        text = written.tokens[row, :length].astype(int).tolist()
        run, session = Target(target, context=128, suppress=(MASK,)).start(shared.layers), shared.start()
        session.observe(text[: prompt - 1], run.read(text[: prompt - 1]))
        ids = text[:prompt]
        while len(ids) < length:
            context = Context(
                ids=ids,
                gamma=4,
                steps=1,
                order=RevealOrder.LEFT_TO_RIGHT,
                sampling=Sampling(),
                sampler=Independent("draft", 0, 0),
            )
            drafting = session.draft(context)
            drafted = next(drafting).ids.tolist()
            drafting.close()
            wanted = text[len(ids) : len(ids) + 4]
            hits = next((i for i, (a, b) in enumerate(zip(drafted, wanted, strict=False)) if a != b), len(wanted))
            features = run.score([ids[-1], *drafted]).features
            assert features is not None
            run.rollback(5, range(hits + 1))
            session.observe([ids[-1], *drafted[:hits]], features[: hits + 1])
            ids = text[: min(length, len(ids) + hits + 1)]
            rounds += 1
        committed += length - prompt
    assert scores["tau4/count"] == pytest.approx(committed / rounds, rel=0.05)  # bf16 against fp32 may flip a tie


def test_train_block_goes_from_text_to_a_released_folder(target: Any, tmp_path: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    from specdiff_core.train.tokenizer import train_tokenizer

    for split in ("train", "valid"):
        text = "\n<|endoftext|>\n".join(f"{i} {' '.join(str(i + j) for j in range(40))}" for i in range(30))
        (tmp_path / f"numbers.{split}.txt").write_text(text)
    corpus = Corpus.open(tmp_path)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(train_tokenizer(corpus, tmp_path / "tok", vocab_size=300))
    torch.manual_seed(1)
    own = new_target(len(tokenizer), layers=4, width=64, context=128).eval().requires_grad_(False)
    drafter = drafter_for(own)
    plan = Plan(steps=2, run=tmp_path / "run", warmup=1, eval_every=2, save_every=2)
    events = list(
        train_block(
            drafter,
            own,
            corpus,
            tokenizer,
            tmp_path / "cache",
            plan,
            written=tmp_path / "written",
            write_parts=1,
            new_tokens=12,
            rows=4,
            length=64,
            anchors=4,
            compile=False,
        )
    )
    assert sum(isinstance(event, Wrote) for event in events) == 2
    scores = next(event.scores for event in events if isinstance(event, EvalStep))
    assert 1.0 <= scores["tau4/mean"] <= 5.0
    again = from_folder(export(drafter, tmp_path / "out"))
    torch.testing.assert_close(again.fc.weight, drafter.fc.weight.detach(), atol=1e-2, rtol=1e-2)
