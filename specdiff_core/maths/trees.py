"""Draft trees, as lists of nodes in which a parent comes before its children.

A node is a drafted token; its parent is the node before it in the text, or −1 for the anchor."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specdiff_core.maths.distributions import to_host
from specdiff_core.schema.events import depths

ROOT = -1

Successors = Callable[[int, int], tuple[Sequence[float], Sequence[int], Sequence[int]]]
"""(depth, the parent's candidate index) -> log q, ids and candidate indices, the most probable first.
A candidate index is the second argument at the next depth."""


def children(parents: Sequence[int], node: int) -> list[int]:
    return [child for child, parent in enumerate(parents) if parent == node]


def visible(parents: Sequence[int]) -> Tensor:
    """``[n+1, n+1]`` bool: what each of [anchor, nodes] reads: itself and its ancestors."""
    rows = [[True] + [False] * len(parents)]
    for node, parent in enumerate(parents):
        rows.append(rows[parent + 1].copy())
        rows[-1][node + 1] = True
    return torch.tensor(rows)


def position_ids(cached: int, new: int, parents: Sequence[int]) -> list[int]:
    """Absolute positions of the last ``new`` of [anchor, tree], behind ``cached`` tokens."""
    anchor = cached + new - 1 - len(parents)
    return [anchor, *(anchor + 1 + depth for depth in depths(parents))][-new:]


def merge(texts: Sequence[Sequence[int]]) -> tuple[list[int], list[int], list[tuple[int, ...]]]:
    """Drafts as one tree in which equal beginnings are one: ids, parents, nodes of each draft."""
    ids: list[int] = []
    parents: list[int] = []
    nodes: dict[tuple[int, int], int] = {}  # (parent, id) -> node
    branches = []
    for text in texts:
        node, branch = ROOT, []
        for token in text:
            if (node, token) not in nodes:
                nodes[node, token] = len(ids)
                ids.append(token)
                parents.append(node)
            node = nodes[node, token]
            branch.append(node)
        branches.append(tuple(branch))
    return ids, parents, branches


def independent(q: Tensor, budget: int) -> Successors:
    """Rows for :func:`best_first` of independent positions ``q [g, V]``, ``budget`` of each."""
    best = q.topk(min(budget, q.shape[-1]), -1)
    values, tokens = (part.tolist() for part in to_host(best.values.log(), best.indices))
    return lambda depth, candidate: (values[depth], tokens[depth], range(len(tokens[depth])))


def most_probable(successors: Successors, depth: int) -> tuple[list[int], list[int]]:
    """The most probable token of every depth given the one before, and its candidate index."""
    ids, before, candidate = [], [], 0
    for level in range(depth):
        _, tokens, following = successors(level, candidate)
        ids.append(tokens[0])
        before.append(candidate)
        candidate = following[0]
    return ids, before


def best_first(
    successors: Successors, depth: int, budget: int, min_prob: float = 0.0
) -> tuple[list[int], list[int], list[float]]:
    """The ``budget`` most probable prefixes of a window (DDTree, arXiv 2604.12989), without those
    less probable than ``min_prob``; the first one always stays.

    A heap by Σ log q: the best prefix becomes a node; its next-best sibling and best child enter.

    Args:
        successors: what may follow a token.
        depth: of the window.
        budget: nodes, at least 1.

    Returns:
        ids, parents and Σ log q of the nodes, at most ``budget``, the most probable prefix first.
    """
    ids: list[int] = []
    parents: list[int] = []
    totals: list[float] = []
    # (−Σ log q, depth, rank, parent, the parent's candidate index, Σ log q of the parent)
    heap = [(-successors(0, 0)[0][0], 0, 0, ROOT, 0, 0.0)]
    highest = -math.log(min_prob) if min_prob > 0 else math.inf
    while heap and len(ids) < budget:
        cost, level, rank, parent, candidate, before = heapq.heappop(heap)
        if cost == math.inf or (ids and cost > highest):
            break  # the others are impossible, or too improbable
        values, tokens, candidates = successors(level, candidate)
        node = len(ids)
        ids.append(tokens[rank])
        parents.append(parent)
        totals.append(-cost)
        if rank + 1 < len(values):
            heapq.heappush(heap, (-(before + values[rank + 1]), level, rank + 1, parent, candidate, before))
        if level + 1 < depth:
            child = successors(level + 1, candidates[rank])[0][0]
            heapq.heappush(heap, (cost - child, level + 1, 0, node, candidates[rank], -cost))
    return ids, parents, totals


class Growth:
    """A tree that grows by depth (EAGLE-2, arXiv 2406.16858): open nodes get their most probable
    children, of which the best are open next; in the end the ``budget`` best nodes by Σ log q.

    Args:
        budget: nodes that remain, at least 1.
        width: nodes that are open at a depth, and children that each of them gets, at most.
    """

    def __init__(self, budget: int, width: int) -> None:
        self._budget, self._width = budget, min(width, budget)
        self.ids: list[int] = []
        self.parents: list[int] = []
        self._totals: list[float] = []  # Σ log q from the anchor to the node
        self._first = 0  # of the deepest nodes

    def extend(self, rows: Sequence[int], log_q: Tensor) -> None:
        """Give the nodes ``rows`` (at first ``[ROOT]``) children by their ``log_q [n, V]``."""
        self._first = len(self.ids)
        best = log_q.topk(min(self._width, log_q.shape[-1]), -1)
        for parent, values, tokens in zip(rows, *(part.tolist() for part in to_host(*best)), strict=True):
            before = 0.0 if parent == ROOT else self._totals[parent]
            for value, token in zip(values, tokens, strict=True):
                if value > float("-inf"):
                    self.ids.append(token)
                    self.parents.append(parent)
                    self._totals.append(before + value)

    def open(self) -> list[int]:
        """The deepest nodes to extend, the most probable first: a child is never more probable than
        its parent, so it can remain only if fewer than ``budget`` − 1 nodes are better."""
        best = set(self._by_probability()[: self._budget - 1])
        deepest = sorted(range(self._first, len(self.ids)), key=lambda node: -self._totals[node])
        return [node for node in deepest[: self._width] if node in best]

    def best_path(self) -> list[int]:
        """The ids of the most probable text that ends at the deepest nodes."""
        if self._first == len(self.ids):
            return []
        node = max(range(self._first, len(self.ids)), key=lambda node: self._totals[node])
        path = []
        while node != ROOT:
            path.append(self.ids[node])
            node = self.parents[node]
        return path[::-1]

    def best(self) -> tuple[list[int], list[int], list[float]]:
        """Ids, parents and Σ log q of the ``budget`` most probable nodes, the oldest first."""
        nodes = sorted(self._by_probability()[: self._budget])
        renumbered = {node: new for new, node in enumerate(nodes)} | {ROOT: ROOT}
        parents = [renumbered[self.parents[node]] for node in nodes]
        return [self.ids[node] for node in nodes], parents, [self._totals[node] for node in nodes]

    def _by_probability(self) -> list[int]:
        """All nodes, the most probable first; of equals the parent, which is older."""
        return sorted(range(len(self.ids)), key=lambda node: (-self._totals[node], node))
