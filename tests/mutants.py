"""One-line bugs, and the tests that must notice each of them.

``python -m tests.mutants [--changed BASE] [--list] [NAME ...]`` copies the repository into a temporary folder, puts in
one bug after the other, runs the tests named beside it, and prints who noticed. The working tree is never edited. Exit
status 1 if a bug survives, or if its line is not there exactly once any more (``test_mutants.py`` tells that at once).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("specdiff_core", "app", "tests")  # what else the repository holds is linked
LIMIT = 300  # seconds; who does not end has noticed, too


class Mutant(NamedTuple):
    """A bug: ``old``, which stands once in ``file``, becomes ``new``."""

    name: str
    old: str
    new: str
    tests: tuple[str, ...]
    file: str


def bugs(file: str, *found: tuple[str, str, str, str | tuple[str, ...]]) -> list[Mutant]:
    """The mutants of one file."""
    return [
        Mutant(name, old, new, (tests,) if isinstance(tests, str) else tests, file) for name, old, new, tests in found
    ]


HEADS = "tests/test_released_heads.py::test_q_is_what_plain_arithmetic_says"
LAW = "tests/test_law.py::test_the_text_follows_the_targets_law"
GRAPHS = "tests/test_graphs.py"
RECORDED = "tests/test_law.py::test_the_q_that_is_tested_is_the_q_that_was_drawn_from"
DRAFTS = "tests/test_law.py::test_drafts_follow_the_law_of_their_drafter"
BLOCK = "tests/test_lossless.py::test_a_block_keeps_the_law_and_never_fewer_tokens_than_ratio"
NETWORKS = "tests/test_law.py::test_real_keys_and_values_keep_the_law"
VANILLA = "tests/test_law.py::test_match_returns_vanillas_text_and_at_temperature_0_so_does_every_rule"
BELIEVED = "tests/test_law.py::test_a_drafter_that_is_the_target_is_always_believed"
STREAMS = "tests/test_law.py::test_independent_streams_give_the_law"
SEVERAL = "tests/test_law.py::test_several_drafts_of_a_round_really_differ"
HEADER = "tests/test_law.py::test_the_header_says_what_really_runs"
FEATURES = "tests/test_law.py::test_a_drafter_is_told_the_features_of_the_text_and_of_nothing_else"
DECODE = "tests/test_decode.py"
FACTS = "tests/test_facts.py"
NETWORK = "tests/test_network.py"
MATHS = "tests/test_maths.py"
CONTROLLER = "tests/test_controller.py"
CLI = "tests/test_cli.py"
ATTACHED = "tests/test_attached.py"
EXPORT = "tests/test_export.py"
EXPLORE = "tests/test_explore.py"
BUDGET = "tests/test_bench_budget.py"
WORKLOADS = "tests/test_workloads.py"
MODULES = "tests/test_js.py::test_modules"
DOCTOR = "tests/test_doctor.py"

MUTANTS = [
    *bugs(
        "specdiff_core/decoding/loop.py",
        (
            "p-without-top-k",
            "to_probs(scores.logits, config.sampling, target.suppress)",
            "to_probs(scores.logits, dataclasses.replace(config.sampling, top_k=0), target.suppress)",
            LAW,
        ),
        (
            "p-without-top-p",
            "to_probs(scores.logits, config.sampling, target.suppress)",
            "to_probs(scores.logits, dataclasses.replace(config.sampling, top_p=1.0), target.suppress)",
            LAW,
        ),
        (
            "p-at-the-drafters-temperature",
            "to_probs(scores.logits, config.sampling, target.suppress)",
            "to_probs(scores.logits, config.draft_sampling, target.suppress)",
            LAW,
        ),
        (
            "p-with-the-mask",
            "to_probs(scores.logits, config.sampling, target.suppress)",
            "to_probs(scores.logits, config.sampling)",
            LAW,
        ),
        (
            "q-at-the-targets-temperature",
            "sampling=config.draft_sampling,",
            "sampling=config.sampling,",
            DRAFTS,
        ),
        (
            "first-tokens-of-a-tree-committed",
            "accepted = [drafted[place] for place in verdict.path]",
            "accepted = drafted[: verdict.accepted]",
            LAW,
        ),
        (
            "rows-kept-one-to-the-left",
            "rows = [0, *(place + 1 for place in verdict.path)]",
            "rows = [0, *verdict.path]",
            LAW,
        ),
        (
            "last-row-not-kept",
            "target_run.rollback(1 + len(drafted), rows)",
            "target_run.rollback(1 + len(drafted), rows[:-1] or rows)",
            LAW,
        ),
        (
            "features-of-the-first-rows",
            "scores.features[rows]",
            "scores.features[: len(rows)]",
            FEATURES,
        ),
        ("one-draft-stream-for-all-rounds", "sampler=streams.draft(round),", "sampler=streams.draft(0),", SEVERAL),
        (
            "one-verify-stream-for-all-rounds",
            "streams.verify(round), positions",
            "streams.verify(0), positions",
            STREAMS,
        ),
        (
            "noise-of-the-target-shifted",
            "positions = range(len(ids), len(ids) + len(drafted) + 1)",
            "positions = range(len(ids) - 1, len(ids) + len(drafted))",
            BELIEVED,
        ),
        (
            "end-of-text-not-cut",
            "fresh, sources = fresh[: short or end], sources[: short or end]",
            "fresh, sources = fresh[:], sources[:]",
            (f"{DECODE}::test_end_of_text_inside_an_accepted_run_cuts_the_rest", LAW),
        ),
        (
            "drafts-run-past-the-end-of-the-text",
            "draft = draft.until(ends)",
            "draft = draft.until(())",
            f"{DECODE}::test_end_of_text_inside_an_accepted_run_cuts_the_rest",
        ),
        (
            "limit-off-by-one",
            "controller.choose(min(config.max_new_tokens - total - 1, target_run.room - 1))",
            "controller.choose(min(config.max_new_tokens - total, target_run.room - 1))",
            f"{DECODE}::test_the_limit_is_never_overrun",
        ),
        (
            "a-token-goes-because-it-was-drawn",
            "draft = draft.until(ends)",
            "draft = draft.until(ends); draft = draft if draft.parents or draft.probs is None or len(draft.ids) < 2 or "
            "draft.probs[-1, draft.ids[-1]] > 0.5 else dataclasses.replace(draft, ids=draft.ids[:-1], "
            "probs=draft.probs[:-1], exact_q=draft.exact_q[:-1], reveal_steps=draft.reveal_steps[:-1])",
            LAW,
        ),
        (
            "vanilla-slowed-by-a-pass",
            "scores = target_run.score([anchor, *drafted], draft.parents)",
            "scores = target_run.score([anchor, *drafted], draft.parents); target_run.rollback(1 + len(drafted), ()); "
            "scores = target_run.score([anchor, *drafted], draft.parents)",
            f"{DECODE}::test_vanilla_does_nothing_but_one_narrow_pass_for_each_token",
        ),
        (
            "trees-larger-than-the-room",
            "tree_nodes=min(config.tree_nodes, target_run.room - 1)",
            "tree_nodes=min(config.tree_nodes, 2 * target_run.room)",
            "tests/test_tree.py::test_a_small_room_makes_a_small_tree",
        ),
        (
            "rounds-of-a-stopped-run",
            'rounds=round + (reason != "stopped"),',
            "rounds=round + 1,",
            f"{DECODE}::test_stop_ends_the_run_before_the_next_pass",
        ),
    ),
    *bugs(
        "specdiff_core/decoding/verify.py",
        ("p-and-q-swapped", "min(1.0, p[i] / q[i]) if exact_q", "min(1.0, q[i] / p[i]) if exact_q", LAW),
        ("max-instead-of-min", "min(1.0, p[i] / q[i]) if exact_q", "max(1.0, p[i] / q[i]) if exact_q", LAW),
        (
            "bonus-from-the-row-before",
            'dist, source = target_probs[size], "bonus"',
            'dist, source = target_probs[size - 1], "bonus"',
            LAW,
        ),
        (
            "resampled-from-p",
            "dist = residual(target_probs[i], draft.probs[i].to(target_probs.device))",
            "dist = target_probs[i]",
            LAW,
        ),
        (
            "residual-of-another-position",
            "dist = residual(target_probs[i], draft.probs[i].to(target_probs.device))",
            "dist = residual(target_probs[i], draft.probs[0].to(target_probs.device))",
            LAW,
        ),
        (
            "residual-of-a-point-mass",
            "dist = residual(target_probs[i], draft.probs[i].to(target_probs.device))",
            "dist = without(target_probs[i], tokens[i])",
            LAW,
        ),
        ("delta-without-residual", "dist = without(target_probs[i], tokens[i])", "dist = target_probs[i]", LAW),
        (
            "every-position-tested-with-p-over-q",
            "(draft.exact_q[i] or rule is Rule.NAIVE)",
            "(draft.exact_q[i] or rule is not Rule.DELTA)",
            LAW,
        ),
        (
            "a-block-that-may-grow-beyond-1",
            "lambda weight, ratio: min(1.0, weight * ratio)",
            "lambda weight, ratio: weight * ratio",
            BLOCK,
        ),
        (
            "a-block-cut-at-its-first-failure",
            "return verdict, dist\n\n\ndef _match(",
            "return _accept(draft, target_probs, Rule.NAIVE, sampler, positions) if min(chances, default=1) < 0.5 "
            "else (verdict, dist)\n\n\ndef _match(",
            BLOCK,
        ),
        ("residual-of-an-unweighted-block", "(scale[:, None] * target_probs[:size]", "(target_probs[:size]", BLOCK),
        ("a-block-without-its-own-mass", "rest / (rest + 1 - weight)", "rest / (rest + 1)", BLOCK),
        (
            "chances-of-a-block-one-place-early",
            "before = zip(sums[1:], weights[1:size], strict=True)",
            "before = zip(sums[:-1], weights[:-2], strict=True)",
            BLOCK,
        ),
        (
            "late-positions-of-a-block-with-q",
            "exact = [draft.probs is not None and known for known in draft.exact_q]",
            "exact = [draft.probs is not None for _ in draft.exact_q]",
            BLOCK,
        ),
        (
            "self-selected-draft-tested-with-p-over-q",
            "own = Rule.MATCH if rule is Rule.MATCH else Rule.DELTA",
            "own, g = rule, len(branch); window = Draft(ids=window.ids, probs=draft.probs[list(branch)], "
            "reveal_steps=(0,) * g, exact_q=(True,) * g, nfe=1)",
            LAW,
        ),
        (
            "self-selection-of-the-worst",
            "chosen = max(range(len(scores)), key=lambda k: scores[k])",
            "chosen = min(range(len(scores)), key=lambda k: scores[k])",
            "tests/test_tree.py::test_the_selected_draft_is_the_one_with_the_longest_expected_run",
        ),
        (
            "selected-draft-behind-other-rows",
            "target_probs[[0, *(node + 1 for node in branch)]]",
            "target_probs[[0, *branch]]",
            LAW,
        ),
        ("multi-round-without-residual", "dist = residual(dist, q)", "dist = target_probs[0]", LAW),
        (
            "multi-round-keeps-dead-drafts",
            "alive = [branch for branch in alive if branch[len(path)] == taken]",
            "alive = list(alive)",
            LAW,
        ),
        ("walk-from-another-row", "dist = target_probs[node + 1]", "dist = target_probs[len(path)]", LAW),
        (
            "walk-with-the-noise-of-one-position",
            "wanted = int(sampler.sample(dist[None], [positions[len(path)]])[0])",
            "wanted = int(sampler.sample(dist[None], [positions[0]])[0])",
            VANILLA,
        ),
        (
            "match-with-the-noise-of-one-position",
            "sampler.sample(target_probs, positions[: size + 1])",
            "sampler.sample(target_probs, positions[:1] * (size + 1))",
            VANILLA,
        ),
        (
            "naive-claims-to-be-lossless",
            "lossless=rule.lossless,",
            "lossless=True,",
            f"{DECODE}::test_naive_never_claims_to_be_lossless",
        ),
    ),
    *bugs(
        "specdiff_core/decoding/controller.py",
        ("controller-forgets-the-past", "MEMORY = 0.97", "MEMORY = 0.0", CONTROLLER),
        ("positions-not-worth-their-row", "if gain >= row)", "if gain < row)", CONTROLLER),
        (
            "a-moment-turns-the-controller",
            "return min(seconds, OUTLIER * expected) if expected else seconds",
            "return seconds",
            f"{CONTROLLER}::test_a_moment_of_another_program_does_not_turn_it",
        ),
        (
            "confidence-corrected-the-wrong-way",
            "math.log(c if passed else 1 - c)",
            "math.log(1 - c if passed else c)",
            f"{CONTROLLER}::test_beliefs_are_corrected_by_what_came_of_them",
        ),
        (
            "rows-cost-nothing",
            "return self._choice.row_seconds * self._rate",
            "return 0.0",
            f"{CONTROLLER}::test_dear_rows_make_small_trees",
        ),
        (
            "acceptance-of-the-last-round-only",
            "self.accepted[position] += passed",
            "self.accepted[position] = float(passed)",
            CONTROLLER,
        ),
    ),
    *bugs(
        "specdiff_core/decoding/clock.py",
        (
            "clock-counts-narration",
            "self._away += self._tick() - began",
            "self._away += 0.0 * (self._tick() - began)",
            f"{DECODE}::test_a_slow_listener_does_not_slow_the_clock",
        ),
        (
            "drafting-takes-its-last-step",
            "seconds=sum(span.seconds for span in spans))",
            "seconds=spans[-1].seconds)",
            DECODE,
        ),
    ),
    *bugs(
        "specdiff_core/maths/distributions.py",
        (
            "residual-of-the-wrong-sign",
            "(target_probs - draft_probs).clamp_min(0.0)",
            "(draft_probs - target_probs).clamp_min(0.0)",
            LAW,
        ),
        (
            "residual-not-normalised",
            "return torch.where(total > 0.0, mass / total, otherwise)",
            "return torch.where(total > 0.0, mass, otherwise)",
            f"{MATHS}::test_residual_is_what_p_lacks",
        ),
        (
            "top-p-leaves-the-border-out",
            "before = ordered.values.cumsum(-1) - ordered.values",
            "before = ordered.values.cumsum(-1)",
            LAW,
        ),
        (
            "top-p-keeps-one-too-many",
            "before >= sampling.top_p",
            "before > sampling.top_p",
            MATHS,
        ),
        (
            "top-p-not-normalised",
            "probs = scaled.masked_fill(left_out, -torch.inf).softmax(-1)",
            "probs = probs.masked_fill(left_out, 0.0)",
            LAW,
        ),
        (
            "top-k-keeps-one-too-many",
            "if sampling.top_k and sampling.top_k < scaled.shape[-1]:",
            "if sampling.top_k and sampling.top_k < scaled.shape[-1] - 2:",
            (f"{MATHS}::test_process_by_hand", LAW),
        ),
        (
            "ties-at-the-border-take-the-higher-id",
            "best = scaled.sort(dim=-1, descending=True, stable=True)",
            "best = (scaled + 1e-9 * torch.arange(scaled.shape[-1])).sort(dim=-1, descending=True)",
            f"{MATHS}::test_process_by_hand",
        ),
        (
            "ties-at-temperature-0-share",
            "torch.zeros(logits.shape, dtype=torch.float64, device=logits.device).scatter_(-1, indices, 1.0)",
            "(logits == values).double() / (logits == values).sum(-1, keepdim=True)",
            MATHS,
        ),
        (
            "temperature-multiplied",
            "values.to(torch.float64)) / sampling.temperature",
            "values.to(torch.float64)) * sampling.temperature",
            LAW,
        ),
        (
            "confidence-of-a-greedy-drafter-is-one-hot",
            "sampling if sampling.temperature > 0 else Sampling(temperature=1.0), forbidden)",
            "sampling, forbidden)",
            "tests/test_tree.py::test_a_large_tree_needs_fewer_rounds_than_a_small_one",
        ),
    ),
    *bugs(
        "specdiff_core/maths/randomness.py",
        (
            "one-noise-for-all-positions",
            "_gumbel(self._root, position, size)",
            "_gumbel(self._root, 0, size)",
            f"{MATHS}::test_noise_depends_on_seed_and_position_only",
        ),
        (
            "noise-of-a-round",
            "_gumbel(self._root, position, size)",
            "_gumbel(self._root, self._key[1], size)",
            VANILLA,
        ),
        (
            "noise-of-a-stream",
            "_gumbel(self._root, position, size)",
            "_gumbel(self._key[0], position, size)",
            BELIEVED,
        ),
        (
            "several-drafts-of-one-noise",
            'return Independent("fresh", self._root, *self._key)',
            "return self",
            SEVERAL,
        ),
        (
            "several-drafts-the-same-in-every-round",
            'return Independent("fresh", self._root, *self._key)',
            'return Independent("fresh", self._root)',
            SEVERAL,
        ),
        (
            "one-stream-for-draft-and-verification",
            'return self._stream("verify", round)',
            'return self._stream("draft", round)',
            STREAMS,
        ),
        (
            "noise-of-a-candidate-not-of-its-id",
            "noise = noise.gather(-1, among.ids)",
            "noise = noise[:, : probs.shape[-1]]",
            BELIEVED,
        ),
        (
            "accepted-where-it-should-not-be",
            "return draw < threshold, draw",
            "return draw > threshold, draw",
            f"{MATHS}::test_acceptance_frequency_is_the_threshold",
        ),
    ),
    *bugs(
        "specdiff_core/maths/unmasking.py",
        ("latest-step-instead-of-the-running-maximum", "latest = max(latest, step)", "latest = step", LAW),
        ("late-positions-tested-with-p-over-q", "exact.append(step >= latest)", "exact.append(True)", LAW),
        (
            "value-confidence-taken-for-predictable",
            "if order is RevealOrder.VALUE_CONFIDENCE:",
            "if order == len(reveal_steps):",
            LAW,
        ),
    ),
    *bugs(
        "specdiff_core/maths/trees.py",
        (
            "a-node-does-not-see-its-ancestors",
            "rows.append(rows[parent + 1].copy())",
            "rows.append(rows[0].copy())",
            (LAW, NETWORKS),
        ),
        (
            "siblings-merged-by-depth",
            "            if (node, token) not in known:\n                known[node, token] = len(ids)\n"
            "                ids.append(token)\n                parents.append(node)\n"
            "            node = known[node, token]\n",
            "            if (len(branch), token) not in known:\n                known[len(branch), token] = len(ids)\n"
            "                ids.append(token)\n                parents.append(node)\n"
            "            node = known[len(branch), token]\n",
            LAW,
        ),
        (
            "a-tree-of-improbable-texts",
            "child = ranked(level + 1, places[rank])[0][0]",
            "child = ranked(level + 1, places[rank])[0][-1]",
            "tests/test_tree.py::test_the_tree_holds_the_most_probable_prefixes",
        ),
    ),
    *bugs(
        "specdiff_core/maths/chains.py",
        (
            "chain-draws-without-its-predecessor",
            "place = int(sampler.sample(here[slot, place][None], [first + slot], among)[0])",
            "place = int(sampler.sample(here[slot, 0][None], [first + slot], among)[0])",
            RECORDED,
        ),
        (
            "chain-forgets-its-predecessor",
            "before = torch.cat([ids.new_full((1, ids.shape[1]), anchor), ids[:-1]])",
            "before = torch.full_like(ids, anchor)",
            DRAFTS,
        ),
        (
            "chain-records-the-row-of-another-token",
            "ids, rows = self._ids[chosen], (chosen, [0, *places[:-1]])",
            "ids, rows = self._ids[chosen], (chosen, places)",
            LAW,
        ),
        (
            "noise-of-a-chain-shifted",
            "here[slot, place][None], [first + slot], among",
            "here[slot, place][None], [first + slot - 1], among",
            BELIEVED,
        ),
        (
            "candidates-not-masked",
            "logits = logits.index_fill(-1, torch.tensor(list(banned), device=logits.device), -torch.inf)",
            "logits = logits.clone()",
            DRAFTS,
        ),
    ),
    *bugs(
        "specdiff_core/drafters/denoise.py",
        (
            "q-recorded-without-top-k",
            "values = context.sampler.sample(rows, [first + i for i in chosen])",
            "values = context.sampler.sample(rows, [first + i for i in chosen]); "
            "probs = to_probs(logits, dataclasses.replace(context.sampling, top_k=0), banned)[: len(probs)]",
            LAW,
        ),
        (
            "q-recorded-at-another-temperature",
            "values = context.sampler.sample(rows, [first + i for i in chosen])",
            "values = context.sampler.sample(rows, [first + i for i in chosen]); "
            "probs = to_probs(logits, dataclasses.replace(context.sampling, temperature=1.0), banned)[: len(probs)]",
            LAW,
        ),
        (
            "q-of-the-last-step",
            "drawn_from[shown.chosen] = shown.probs[shown.chosen]",
            "drawn_from = shown.probs.clone()",
            LAW,
        ),
        (
            "q-of-the-first-step",
            "drawn_from[shown.chosen] = shown.probs[shown.chosen]",
            "drawn_from[shown.chosen] = drawn_from[shown.chosen]",
            LAW,
        ),
        (
            "noise-of-the-drafter-shifted",
            "first = len(context.ids)  # absolute position of window slot 0",
            "first = len(context.ids) - 1  # absolute position of window slot 0",
            BELIEVED,
        ),
        (
            "noise-of-several-drafts-shifted",
            "drawn = [sampler.sample(probs, range(first, first + size)) for sampler in samplers]",
            "drawn = [sampler.sample(probs, range(first + 1, first + 1 + size)) for sampler in samplers]",
            BELIEVED,
        ),
        (
            "several-drafts-from-one-sampler",
            "samplers = [context.sampler, *[context.sampler.another()] * (context.num_drafts - 1)]",
            "samplers = [context.sampler] * context.num_drafts",
            SEVERAL,
        ),
        (
            "several-drafts-recorded-with-the-q-of-one-slot",
            "drawn_from = probs[depths(parents)]",
            "drawn_from = probs[[0] * len(parents)]",
            RECORDED,
        ),
        (
            "the-mask-is-drawn",
            "never = tuple(dict.fromkeys((mask_id, *forbidden)))",
            "never = tuple(forbidden)",
            "tests/test_tree.py::test_the_mask_is_never_a_node",
        ),
        (
            "values-decide-what-is-revealed-and-p-over-q-tests-it",
            "exact_q=exact_positions(context.order, reveal_steps[:size]),",
            "exact_q=(True,) * size,",
            LAW,
        ),
        (
            "a-later-step-does-not-see-what-was-revealed",
            "for step, count in enumerate(plan):\n        logits = predict(ids)",
            "for step, count in enumerate(plan):\n        logits = predict(torch.full_like(ids, mask_id))",
            "tests/test_models_dflash.py::test_a_step_sees_what_earlier_steps_revealed",
        ),
    ),
    *bugs(
        "specdiff_core/drafters/sequential.py",
        (
            "sequential-q-recorded-raw",
            "probs.append(q)",
            "probs.append(logits.double().softmax(-1))",
            LAW,
        ),
        (
            "sequential-noise-shifted",
            "[len(context.ids) + step]",
            "[len(context.ids) + step - 1]",
            BELIEVED,
        ),
        (
            "a-pass-that-is-worth-nothing",
            "wanted = wanted if kept > passes else passes",
            "wanted = wanted",
            f"{CONTROLLER}::test_a_sequential_drafter_ends_where_it_grows_unsure",
        ),
    ),
    *bugs(
        "specdiff_core/drafters/base.py",
        (
            "nodes-behind-the-end-of-a-text",
            "if parent in kept and (parent == ROOT or tokens[parent] not in ends):",
            "if parent in kept:",
            "tests/test_tree.py::test_nothing_stands_behind_an_end_of_text",
        ),
    ),
    *bugs(
        "specdiff_core/drafters/block_diffusion.py",
        ("states-of-the-slot-before", "attend)[0, self.lead :]", "attend)[0, :-1]", DRAFTS),
        (
            "block-one-position-early",
            "return drafter.denoise(ids, slice(first, end), read)",
            "return drafter.denoise(ids, slice(first + 1, end + 1), read)",
            DRAFTS,
        ),
    ),
    *bugs(
        "specdiff_core/drafters/masked_diffusion.py",
        (
            "slots-read-one-to-the-left",
            "first = len(ids) - gamma - self.shift",
            "first = len(ids) - gamma - 1",
            DRAFTS,
        ),
    ),
    *bugs(
        "specdiff_core/drafters/autoregressive.py",
        (
            "refused-tokens-stay-with-the-drafter",
            "self._run.rollback(len(self._ahead), range(kept))",
            "self._run.rollback(len(self._ahead), range(len(self._ahead)))",
            "tests/test_drafters.py::test_what_was_refused_is_rolled_back",
        ),
        (
            "words-without-a-counterpart-are-drafted",
            "reader.start(), (*reader.suppress, *unread)",
            "reader.start(), reader.suppress",
            "tests/test_released.py::test_words_that_a_small_model_does_not_know_are_never_drafted_nor_shown",
        ),
        (
            "words-without-a-counterpart-are-read",
            "[self._instead if token in self._unread_ids else token for token in",
            "[token for token in",
            "tests/test_released.py::test_words_that_a_small_model_does_not_know_are_never_drafted_nor_shown",
        ),
    ),
    *bugs(
        "specdiff_core/models/dflash.py",
        ("the-anchors-slot-says-nothing", "return 0 if self.config.anchor_predicts else 1", "return 1", HEADS),
        (
            "sliding-layers-read-what-is-behind",
            "ends = sliding if causal is None else causal",
            "ends = bool(causal)",
            HEADS,
        ),
        ("a-window-one-wider", "return (window - 1, ", "return (window, ", HEADS),
        (
            "layers-counted-with-the-embedding",
            "[index - 1 for index in told.aux_hidden_state_layer_ids]",
            "told.aux_hidden_state_layer_ids",
            HEADS,
        ),
        (
            "a-convolution-of-what-comes",
            "F.pad(states, (0, 0, tap, 0))[:, :rows]",
            "F.pad(states, (0, 0, 0, tap))[:, -rows:]",
            HEADS,
        ),
    ),
    *bugs(
        "specdiff_core/models/eagle.py",
        (
            "a-residual-that-is-normed",
            "self.forward(normed if self._normed else features,",
            "self.forward(normed,",
            HEADS,
        ),
        ("features-one-layer-late", "(1, depth // 2 - 1, depth - 4)", "(2, depth // 2, depth - 3)", HEADS),
    ),
    *bugs(
        "specdiff_core/models/files.py",
        ("own-ids-for-the-targets", "torch.arange(len(behind)) + behind.long()", "torch.arange(len(behind))", HEADS),
    ),
    *bugs(
        "specdiff_core/drafters/eagle.py",
        (
            "features-beside-the-wrong-tokens",
            "context.ids[self._observed - len(features) + 1 : self._observed + 1]",
            "context.ids[self._observed - len(features) : self._observed]",
            "tests/test_eagle.py::test_every_token_is_drawn_from_its_true_conditional",
        ),
        (
            "refused-tokens-stay-with-the-head",
            "self._run.rollback(self._ahead, ())",
            "self._run.rollback(self._ahead, range(min(1, self._ahead)))",
            "tests/test_eagle.py::test_what_was_drafted_is_rolled_back",
        ),
    ),
    *bugs(
        "specdiff_core/models/stock.py",
        (
            "refused-tokens-stay-in-the-cache",
            "self._cache.crop(-surplus)",
            "self._cache.crop(1 - surplus)",
            LAW,
        ),
        (
            "branches-not-moved-to-the-front",
            "if list(rows) != list(range(len(rows))):",
            "if len(rows) > scored:",
            LAW,
        ),
        (
            "features-of-the-layer-below",
            "[out.hidden_states[i + 1][0] for i in self._layers]",
            "[out.hidden_states[i][0] for i in self._layers]",
            f"{DECODE}::test_features_are_the_outputs_of_the_asked_layers",
        ),
    ),
    *bugs(
        "specdiff_core/models/network.py",
        (
            "the-last-layers-output-without-its-norm",
            "found[end] = hidden = self.norm(hidden)",
            "found[end], hidden = hidden, self.norm(hidden)",
            f"{NETWORK}::test_every_family_says_what_transformers_says",
        ),
        (
            "query-groups-in-turn",
            "mask = mask.repeat(*[1] * (mask.ndim - 2), groups, 1)",
            "mask = mask.repeat_interleave(groups, -2)",
            f"{NETWORK}::test_every_family_says_what_transformers_says",
        ),
        (
            "rotated-the-other-way",
            "torch.cat([-first, second], -1)[:, None]",
            "torch.cat([first, -second], -1)[:, None]",
            f"{NETWORK}::test_every_family_says_what_transformers_says",
        ),
    ),
    *bugs(
        "specdiff_core/models/kernels.py",
        (
            "a-long-row-is-summed-up-alone",
            "if self._long and rows.numel() == rows.shape[-1]:",
            "if False:",
            f"{NETWORK}::test_wide_networks_have_the_same_bits_too",
        ),
    ),
    *bugs(
        "specdiff_core/models/graphs.py",
        (
            "a-replay-of-old-inputs",
            "old.copy_(new)",
            "old.copy_(old)",
            f"{GRAPHS}::test_inputs_are_copied_in_and_outputs_out",
        ),
        (
            "outputs-that-the-next-replay-overwrites",
            "return tuple(output.clone() for output in outputs)",
            "return tuple(output for output in outputs)",
            f"{GRAPHS}::test_inputs_are_copied_in_and_outputs_out",
        ),
    ),
    *bugs(
        "specdiff_core/models/cache.py",
        (
            "room-that-forgets",
            "F.pad(self._buffer, (0, 0, 0, longer - self.room))",
            "F.pad(self._buffer[..., :-1, :], (0, 0, 0, longer - self.room + 1))",
            f"{NETWORK}::test_the_buffer_grows_and_keeps_what_it_holds",
        ),
        (
            "a-recorded-pass-writes-one-place-late",
            "self._slots = first + torch.arange(rows, device=seen.device)",
            "self._slots = first + 1 + torch.arange(rows, device=seen.device)",
            f"{GRAPHS}::test_every_method_runs_on_recorded_passes",
        ),
        (
            "a-recorded-row-reads-all-rows",
            "(behind < 0) | inside",
            "behind < known",
            f"{GRAPHS}::test_every_method_runs_on_recorded_passes",
        ),
        (
            "a-row-sees-the-next-token",
            "mask.triu_(cache.length + first + 1)",
            "mask.triu_(cache.length + first + 2)",
            NETWORKS,
        ),
        ("refused-keys-stay", "self.length = first + len(rows)", "self.length = first + max(1, scored - 1)", NETWORKS),
        ("kept-keys-not-moved", "if list(rows) != list(range(len(rows))):", "if len(rows) > scored:", NETWORKS),
        (
            "a-tree-sees-its-siblings",
            "masked_fill_(seen[:, : room - begin], 0.0)",
            "fill_(0.0)",
            NETWORKS,
        ),
        (
            "a-buffer-for-two-runs",
            "held = self._free.pop()",
            "held = self._free[-1]",
            f"{NETWORK}::test_runs_that_overlap_have_their_own_buffers_and_later_ones_take_them_again",
        ),
        (
            "one-query-by-itself",
            "ROWS = 4",
            "ROWS = 1",
            f"{NETWORK}::test_a_token_has_the_same_bits_at_every_width",
        ),
    ),
    *bugs(
        "specdiff_core/models/target.py",
        (
            "a-baseline-that-reads-twice",
            "        logits, outputs = self._run.forward(ids, parents, features, last)\n",
            "        self._run.forward(ids, parents, features, last)\n        self._run.keep(len(ids), ())\n"
            "        logits, outputs = self._run.forward(ids, parents, features, last)\n",
            f"{NETWORK}::test_vanilla_makes_one_pass_of_one_row_for_each_token",
        ),
        (
            "exactness-believed",
            "return False\n        return True",
            "pass\n        return True",
            f"{NETWORK}::test_a_kernel_that_rounds_by_width_is_told",
        ),
    ),
    *bugs(
        "specdiff_core/maths/trees.py",
        (
            "places-of-a-tree-off-by-one",
            "anchor = held + new - 1 - len(parents)",
            "anchor = held + new - len(parents)",
            NETWORKS,
        ),
    ),
    *bugs(
        "specdiff_core/engine.py",
        (
            "end-of-text-always-ignored",
            "ends = () if config.ignore_eos else self._ends",
            "ends = ()",
            LAW,
        ),
        (
            "a-stop-string-is-not-heard",
            "cut = StopStrings(self.pair.tokenizer, config.stops) if config.stops else None",
            "cut = None",
            "tests/test_chat.py::test_a_stop_string_ends_the_text_before_it",
        ),
        ("settings-that-no-drafter-can-follow", "config = spec.follow(config)", "config = config", HEADER),
        (
            "typed-masks-become-masks",
            "split_special_tokens=True",
            "split_special_tokens=False",
            "tests/test_embedded.py::test_a_typed_mask_is_text",
        ),
    ),
    *bugs(
        "specdiff_core/schema/settings.py",
        ("every-rule-claims-to-be-lossless", "return self is not Rule.NAIVE", "return True", FACTS),
        ("match-does-not-share-noise", "return self is Rule.MATCH", "return self is Rule.NAIVE", VANILLA),
        ("as-many-steps-as-tokens-refused", "if self.steps > self.gamma:", "if self.steps >= self.gamma:", FACTS),
        (
            "several-greedy-drafts",
            "temperature = 1.0  # K greedy drafts would be one draft",
            "temperature = 0.0  # K greedy drafts would be one draft",
            "tests/test_tree.py::test_several_drafts_under_match_return_vanillas_text",
        ),
    ),
    *bugs(
        "specdiff_core/schema/pairs.py",
        (
            "several-steps-for-a-tree",
            "steps=steps if single else 1",
            "steps=steps",
            "tests/test_drafters.py::test_the_header_says_what_a_drafter_can_follow",
        ),
    ),
    *bugs(
        "specdiff_core/schema/metrics.py",
        (
            "tau-without-the-targets-token",
            "return self.committed / self.rounds if self.rounds else None",
            "return self.accepted / self.rounds if self.rounds else None",
            FACTS,
        ),
        (
            "alpha-over-what-was-drafted",
            "return self.accepted / self.tested if self.tested else None",
            "return self.accepted / self.drafted if self.tested else None",
            FACTS,
        ),
        ("speed-up-inverted", "return fast / slow if slow and fast", "return slow / fast if slow and fast", FACTS),
        (
            "predicted-costs-swapped",
            "speed_up=tau / (verify + cost * drafted.nfe / drafted.rounds)",
            "speed_up=tau / (cost + verify * drafted.nfe / drafted.rounds)",
            FACTS,
        ),
        (
            "every-test-counts-as-a-position",
            "found[test.position] = found.get(test.position, False) or test.accepted",
            "found[len(found)] = test.accepted",
            FACTS,
        ),
    ),
    *bugs(
        "specdiff_core/attached.py",
        ("a-server-is-lossless", "lossless=False", "lossless=True", ATTACHED),
        ("a-broken-stream-is-whole", "if not reason:", "if not ids:", ATTACHED),
        ("a-servers-ids-are-of-one-run", "{word: _own_id(word) for", "{word: len(pieces) + len(word) for", ATTACHED),
    ),
    *bugs(
        "specdiff_core/schema/summary.py",
        (
            "a-beginning-is-the-same-text",
            "base is not None and last.ids == base.ids",
            "base is not None and all(a == b for a, b in zip(last.ids, base.ids))",
            FACTS,
        ),
        (
            "one-lossless-round-makes-a-lossless-run",
            "all(event.lossless for event in tested)",
            "any(event.lossless for event in tested)",
            FACTS,
        ),
    ),
    *bugs(
        "specdiff_core/schema/trace.py",
        (
            "draws-that-are-no-numbers",
            "all(draw is not None and isfinite(draw) for draw in drawn)",
            "len(drawn) >= 0",
            FACTS,
        ),
        (
            "scores-of-another-draft",
            "need(len(event.p) == (size or 0)",
            "need(len(event.p) >= 0",
            FACTS,
        ),
        ("a-trace-cut-off", "if not unpacker.eof and len(out) <= MAX_BYTES:", "if not out:", FACTS),
    ),
    *bugs(
        "specdiff_core/schema/events.py",
        (
            "lists-of-any-length",
            "if len({len(one) for one in lists}) > 1:",
            "if len({len(one) for one in lists}) > 9:",
            FACTS,
        ),
    ),
    *bugs(
        "specdiff_core/schema/decoder.py",
        (
            "lanes-not-interleaved",
            "for lane in list(lanes)[:: 1 if repeat % 2 == 0 else -1]:",
            "for lane in list(lanes):",
            f"{CLI}::test_race_interleaves_and_tells_its_spread",
        ),
    ),
    *bugs(
        "specdiff_core/cli/options.py",
        (
            "others-instead-of-what-was-given",
            "{name: given[name] for name in SETTINGS if name in given}",
            "{name: given[name] for name in list(SETTINGS)[:-1] if name in given}",
            f"{CLI}::test_every_setting_has_a_flag_that_arrives",
        ),
    ),
    *bugs(
        "specdiff_core/cli/output.py",
        (
            "a-terminal-steered-by-text",
            'char if char in "\\n\\t" or char.isprintable() else',
            'char if char in "\\n\\t\\x1b" or char.isprintable() else',
            f"{CLI}::test_text_cannot_steer_the_terminal",
        ),
        (
            "everything-called-lossless",
            'if summary["lossless"] else EXACTNESS["biased"]',
            'if summary else EXACTNESS["biased"]',
            f"{CLI}::test_naive_is_never_called_lossless",
        ),
    ),
    *bugs(
        "app/export.py",
        (
            "an-export-over-anything",
            "return MARK.encode() not in file.read(1024)",
            "return False",
            f"{EXPORT}::test_writes_over_nothing_but_an_earlier_export",
        ),
        (
            "a-lesson-without-its-recording",
            "(*traces, *shown)",
            "traces",
            f"{EXPORT}::test_chosen_traces_come_first_and_lessons_bring_what_they_show",
        ),
        (
            "a-module-that-the-map-does-not-name",
            "normpath(f'{here}/{found[2]}')",
            "normpath(found[2])",
            f"{EXPORT}::test_every_import_of_a_module_is_one_that_the_map_names",
        ),
    ),
    *bugs(
        "specdiff_core/explorations/side_by_side.py",
        (
            "a-branch-forgets-the-token-that-was-put-there",
            "after = [*before, *([self.take] if self.take >= 0 else [])]",
            "after = [*before]",
            f"{EXPLORE}::test_a_branch_goes_on_from_the_token_that_was_put_there",
        ),
        (
            "a-branch-keeps-the-token-that-it-replaces",
            "return [*before, *event.ids[:-1]]",
            "return [*before, *event.ids]",
            f"{EXPLORE}::test_a_branch_goes_on_from_the_token_that_was_put_there",
        ),
        (
            "a-round-begins-where-the-last-one-did",
            "start, at = start + len(event.ids), event.at",
            "start, at = start + len(event.ids) - 1, event.at",
            f"{EXPLORE}::test_rounds_lie_one_after_the_other_along_the_text",
        ),
    ),
    *bugs(
        "specdiff_core/bench/budget.py",
        (
            "a-text-without-an-answer-votes",
            "        if answer:\n",
            "        if True:\n",
            f"{BUDGET}::test_the_answer_given_most_often_counts",
        ),
        (
            "of-several-answers-the-last",
            "(votes[answer], -first[answer]) > (votes[leading], -first[leading])",
            "(votes[answer], first[answer]) > (votes[leading], first[leading])",
            f"{BUDGET}::test_the_answer_given_most_often_counts",
        ),
        (
            "only-the-first-attempt-comes-first",
            "[*attempts[first:], *attempts[:first]]",
            "[*attempts]",
            f"{BUDGET}::test_attempts_count_in_order_as_far_as_they_are_finished",
        ),
        (
            "an-attempt-counts-before-its-end",
            "bisect_right(ends, seconds) for ends",
            "min(len(ends), 1 + bisect_right(ends, seconds)) for ends",
            f"{BUDGET}::test_before_the_first_attempt_is_finished_nothing_is_right",
        ),
        (
            "two-attempts-that-agree-have-no-noise",
            "(share * count + 1) / (count + 2)",
            "share",
            f"{BUDGET}::test_two_attempts_that_agree_have_noise_and_one_has_none_that_is_known",
        ),
        (
            "an-attempt-that-was-cut-off-has-an-answer",
            'ended = last.reason in ("end_of_text", "stop_string")',
            "ended = True",
            f"{BUDGET}::test_an_attempt_that_was_cut_off_has_only_an_answer_that_it_states",
        ),
        (
            "vanillas-best-is-where-it-has-no-attempt-left",
            "for seconds, accuracy in stairs(own).items() if seconds < until",
            "for seconds, accuracy in stairs(own).items()",
            f"{BUDGET}::test_seconds_to_an_accuracy_are_where_its_curve_first_is",
        ),
    ),
    *bugs(
        "specdiff_core/bench/workloads.py",
        (
            "the-next-problem-belongs-to-this-one",
            r"""text = re.split(r"\n\s*Question:", text)[0]""",
            "text = str(text)",
            f"{WORKLOADS}::test_an_answer_is_right_however_it_is_set",
        ),
        (
            "a-third-is-a-number-with-many-digits",
            "return short if Fraction(short) == value else str(value)",
            "return short",
            f"{WORKLOADS}::test_all_ways_to_write_an_answer_are_one",
        ),
    ),
    *bugs(
        "specdiff_core/explorations/budget.py",
        (
            "one-problem-of-the-visitors-is-enough",
            "if len(problems) < 2:",
            "if not problems:",
            f"{EXPLORE}::test_the_visitors_own_problems_take_the_place_of_the_labs",
        ),
        (
            "a-worked-answer-is-told-whole",
            "*filter(None, steps), result=",
            "*filter(None, [*steps, last]), result=",
            f"{EXPLORE}::test_a_line_of_the_visitors_own_is_a_problem",
        ),
    ),
    *bugs(
        "app/static/views/guide.js",
        ("a-room-is-told-at-once", "this.open = !this.room;", "this.open = true;", MODULES),
        (
            "a-verdict-before-all-hands-are-up",
            "if (this.room) return; // a show of hands; the verdicts come for all at once",
            "",
            MODULES,
        ),
        ("measured-numbers-before-the-answer", "hidden: !(this.room && this.open)", "hidden: false", MODULES),
    ),
    *bugs(
        "app/static/views/presenter.js",
        (
            "back-to-the-first-step-of-a-lesson",
            "if (at < 0) this.turn(-1, true);",
            "if (at < 0) this.turn(-1);",
            MODULES,
        ),
        ("the-last-lesson-leads-to-none", "if (number < 0 || number >= this.lessons.length) return;", "", MODULES),
        ("a-slider-turns-the-slide", "if (target.closest('input') && /^(Arrow|", "if (false && /^(Arrow|", MODULES),
        ("who-has-left-still-turns-slides", "if (this.number < 0 || event.ctrlKey", "if (event.ctrlKey", MODULES),
    ),
    *bugs(
        "app/static/views/glossary.js",
        ("run-b-is-a-tree", "(?<![Rr]un )", "", MODULES),
        ("letters-of-words-are-symbols", r"(?<![\\p{L}\\p{N}_’'.-])", "", MODULES),
        ("a-symbol-marked-twice-in-a-paragraph", "if (said.has(symbol)) continue;", "", MODULES),
        ("a-name-of-the-language-is-a-symbol", "const symbols = Object.create(null);", "const symbols = {};", MODULES),
    ),
    *bugs(
        "app/static/state/findings.js",
        (
            "recorded-numbers-beside-the-visitors",
            "own.length ? own : [",
            "own.length ? [...own, ...answered] : [",
            MODULES,
        ),
        ("a-disturbed-clock-counts", "quiet && v && c !== null", "v && c !== null", MODULES),
        ("the-oldest-run-speaks", "runs.map((run) => ({ run,", "runs.toReversed().map((run) => ({ run,", MODULES),
    ),
    *bugs(
        "app/run/gpu.py",
        (
            "a-worker-sees-only-its-own-stop",
            "return bool(FLAGS[self._place])",
            "return super().is_set()",
            ("tests/test_app_gpu.py::test_stop_events_are_plain_values_and_each_is_fresh",),
        ),
        (
            "a-stop-event-is-used-again-as-it-was-left",
            "FLAGS[place] = 0",
            "FLAGS[place] |= 0",
            ("tests/test_app_gpu.py::test_stop_events_are_plain_values_and_each_is_fresh",),
        ),
    ),
    *bugs(
        "specdiff_core/explorations/align.py",
        (
            "one-bad-replay-ends-a-training",
            "max(self._kept[-2:]) < LOST",
            "min(self._kept[-2:]) < LOST",
            "tests/test_explore.py::test_a_training_that_loses_the_drafter_has_diverged_though_its_loss_is_finite",
        ),
    ),
    *bugs(
        "specdiff_core/explorations/doctor.py",
        (
            "every-change-that-may-be-better-is-called-so",
            'if row.get("low") is not None and row["low"] > 1]',
            'if row.get("low") is not None and row["high"] > 0]',
            f"{DOCTOR}::test_a_sound_drafter_is_told_to_be_declared_rightly",
        ),
        (
            "a-changed-drafter-reads-the-features-of-the-declared-layers",
            "session, layers, seen = change.drafter.start(), change.drafter.layers, 0",
            "session, layers, seen = change.drafter.start(), sorted(text.features)[: len(change.drafter.layers)], 0",
            f"{DOCTOR}::test_feature_layers_that_a_released_config_declares_wrongly_are_named",
        ),
    ),
    *bugs(
        "specdiff_core/explorations/diverge.py",
        (
            "whatever-differs-is-a-tie",
            "limit = min(max(TIMES * rounding, LEAST * self._unit), MOST * self._unit)",
            "limit = max(TIMES * rounding, LEAST * self._unit) + 1e9",
            f"{DOCTOR}::test_a_tie_of_bf16_is_one_and_a_wide_lead_is_none",
        ),
        (
            "a-sibling-takes-the-place-of-the-text",
            "run.rollback(last + 1, [0, *range(1 + siblings, last)])",
            "run.rollback(last + 1, [*range(last - siblings)])",
            f"{DOCTOR}::test_trees_move_a_lead_by_rounding_only",
        ),
    ),
    *bugs(
        "app/run/exploration.py",
        (
            "whoever-explores-may-name-any-folder-of-the-server",
            "    own_pairs.check(what.pair)\n",
            "",
            "tests/test_app_explore.py::test_no_folder_of_a_public_host_is_read_for_an_exploration",
        ),
    ),
    *bugs(
        "specdiff_core/bench/forwards.py",
        (
            "bare-passes-are-timed-where-the-context-is-full",
            "tokens = max(1, min(base.max_new_tokens, room))",
            "tokens = base.max_new_tokens",
            f"{DOCTOR}::test_a_map_and_the_cost_of_rounds_of_a_pair_of_ones_own",
        ),
    ),
    *bugs(
        "specdiff_core/explorations/base.py",
        (
            "prompts-that-do-not-fit-end-it-all",
            "if prompt.flavour in self.flavours and engine.encode(prompt.prompt, self.base):",
            "if prompt.flavour in self.flavours:",
            f"{DOCTOR}::test_a_map_and_the_cost_of_rounds_of_a_pair_of_ones_own",
        ),
    ),
    *bugs(
        "app/static/views/form.js",
        ("another-pair-keeps-the-drafters", "if (of) this.inputs", "if (!of) this.inputs", MODULES),
        (
            "an-answer-without-a-pair-is-of-the-one-chosen",
            "this.fill({ ...Object",
            "this.fill(choice) ?? ({ ...Object",
            MODULES,
        ),
    ),
]


def stale(mutants: Iterable[Mutant] = MUTANTS) -> list[str]:
    """The mutants whose line is not there exactly once, and their files."""

    def times(mutant: Mutant) -> int:
        file = ROOT / mutant.file
        return file.read_text("utf-8").count(mutant.old) if file.is_file() else 0

    return [f"{mutant.name} ({mutant.file})" for mutant in mutants if times(mutant) != 1]


def copied(folder: Path) -> Path:
    """A copy of the repository in which files can be changed: code copied, everything else linked."""
    folder.mkdir()
    for path in ROOT.iterdir():
        if path.name in COPIED:
            shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        elif not path.name.startswith(".") and path.name != "runs":
            (folder / path.name).symlink_to(path)
    return folder


def failing(folder: Path, tests: Sequence[str], limit: float = LIMIT) -> str | None:
    """The first of ``tests`` that fails in ``folder``; None if all pass.

    Raises:
        RuntimeError: they could not be run.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    quiet = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, cwd=folder, env=quiet, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"no end after {limit:.0f} s"
    if done.returncode == 0:
        return None
    found = [line.split(" ")[1:] for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    if done.returncode != 1 or not found:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return " ".join(found[0]).split(" - ")[0]


def judged(folders: Sequence[Path], mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, str | None, float]]:
    """Each mutant, the test that noticed it, and the seconds that took: as many at once as there are folders."""
    free: SimpleQueue[Path] = SimpleQueue()
    for folder in folders:
        free.put(folder)

    def judge(mutant: Mutant) -> tuple[Mutant, str | None, float]:
        folder = free.get()
        file = folder / mutant.file
        whole = file.read_text("utf-8")
        file.write_text(whole.replace(mutant.old, mutant.new), "utf-8")
        began = time.monotonic()
        try:
            return mutant, failing(folder, mutant.tests), time.monotonic() - began
        finally:
            file.write_text(whole, "utf-8")
            free.put(folder)

    with ThreadPoolExecutor(len(folders)) as pool:
        yield from pool.map(judge, mutants)


def changed_since(base: str) -> set[str]:
    """The files that differ from a revision.

    Raises:
        subprocess.CalledProcessError: git does not know it.
    """
    command = ["git", "diff", "--name-only", "--relative", base, "--"]
    return set(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these bugs")
    parser.add_argument("--changed", metavar="BASE", help="only bugs in files that changed since this revision")
    parser.add_argument("--list", action="store_true", help="print the bugs and run nothing")
    args = parser.parse_args()
    say = sys.stdout.write
    if unknown := set(args.names) - {mutant.name for mutant in MUTANTS}:
        parser.error(f"there is no mutant {', '.join(sorted(unknown))}")
    changed = changed_since(args.changed) if args.changed else {mutant.file for mutant in MUTANTS}
    chosen = [m for m in MUTANTS if m.file in changed and (not args.names or m.name in args.names)]
    if args.list:
        say("".join(f"{mutant.name:<52} {mutant.file}\n" for mutant in chosen))
        return 0
    if old := stale(chosen):
        say(f"stale, the line is not there exactly once: {', '.join(old)}\n")
        return 1
    if not chosen:
        say("no mutant in what changed\n")
        return 0
    survivors = []
    with tempfile.TemporaryDirectory() as name:
        folders = [copied(Path(name) / str(job)) for job in range(os.cpu_count() or 1)]
        every = sorted({test for mutant in chosen for test in mutant.tests})
        if (broken := failing(folders[0], every, 5 * LIMIT)) is not None:
            say(f"without any bug, {broken} fails\n")
            return 1
        for mutant, test, seconds in judged(folders, chosen):
            say(f"{mutant.name:<52} {seconds:5.1f} s  {test or 'SURVIVED'}\n")
            sys.stdout.flush()
            survivors += [mutant.name] if test is None else []
    say(f"{len(chosen) - len(survivors)} of {len(chosen)} noticed\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
