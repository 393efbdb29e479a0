"""The target writes answers to prompts, many at once, for a drafter to learn from.

They go into shards that appear only when complete (``answers.py``), so an interrupted run loses little."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from specdiff_core.models.network import CausalLM, attend, causal
from specdiff_core.models.target import Target
from specdiff_core.schema.summary import loops

from .answers import TOP, Answers, EncodedPrompt, TrainingExample, allowed, save_shard

SHARD = 64
"""Answers in a shard."""
LEAST = 4
"""Tokens of the shortest answer to keep."""
TOGETHER = {"cpu": 16, "cuda": 64}
"""Prompts read in one pass, at most."""
FREE = 1 / 32
"""Share of the slots that are free before the next prompts are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """What is stored of answers, how long they are, and how they are drawn."""

    layers: Sequence[int]  # layers to store, if any; 0 is the first. The last one's output is normed
    ends: Sequence[int]  # ids that end an answer
    new_tokens: int  # most tokens of an answer; looping ones end early
    temperatures: Sequence[float] = (0.0, 0.7)  # a prompt is answered once at each, in random order
    slots: int = 96  # answers written in parallel
    seed: int = 0


def write_answers(
    target: Target,
    prompts: Sequence[EncodedPrompt],
    folder: Path,
    writing: Writing,
    *,
    going: Callable[[], bool] = lambda: True,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[dict[str, float]]:
    """Answer ``prompts`` in order, at one temperature after another, except as in ``folder``.

    Args:
        going: called before each pass; once it returns False, the current answers end.
        clock: returns seconds.

    Yields:
        after each shard: ``answers`` in the folder, their ``tokens`` (prompts not counted),
        ``tokens_per_second`` since the writing began, and ``seconds`` on the clock.

    Raises:
        CorpusError: the folder has answers without these layers.
        SpecDiffError: a shard can't be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stored = Answers(folder, writing.layers)
    rng = np.random.default_rng(writing.seed)
    orders = rng.permuted([writing.temperatures] * len(prompts), axis=1).T.tolist()
    done = {(row.prompt_id, row.temperature) for row in stored.rows}
    pairs = (pair for order in orders for pair in zip(prompts, order, strict=True))
    waiting = [(prompt, temperature) for prompt, temperature in pairs if (prompt.id, temperature) not in done]
    generator = torch.Generator(target.model.device).manual_seed(writing.seed + len(done))
    number = 1 + max((int(path.stem) for path in folder.glob("*.safetensors") if path.stem.isdigit()), default=-1)
    answers = Writer(target, writing, generator, going).write(waiting)
    tokens, added, began = stored.tokens, 0, clock()
    while batch := list(islice(answers, SHARD)):
        save_shard(batch, folder / f"{number:05d}.safetensors", writing.layers)
        number, added = number + 1, added + sum(len(a.tokens) - len(a.prompt.tokens) for a in batch)
        stored.refresh()
        seconds = clock()
        facts = {"answers": len(stored.rows), "tokens": tokens + added, "seconds": seconds}
        yield facts | {"tokens_per_second": added / max(1e-9, seconds - began)}


def _draw(logits: Tensor, temperatures: Tensor, generator: torch.Generator) -> Tensor:
    """A token from each row of ``logits [n, V]`` at its temperature ``[n]``; 0: greedy."""
    drawn = logits.argmax(-1)
    hot = temperatures > 0
    if bool(hot.any()):
        heights = (logits[hot] / temperatures[hot, None]).softmax(-1).cumsum(-1)
        draws = torch.rand(len(heights), 1, generator=generator, device=heights.device) * heights[:, -1:]
        drawn[hot] = torch.searchsorted(heights, draws, right=True)[:, 0].clamp(max=logits.shape[-1] - 1)
    return drawn


def _top(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The most probable ids of each row ``[n, TOP]``, and their log-probabilities."""
    best = logits.topk(min(TOP, logits.shape[-1]), -1)
    return best.indices.to(torch.int32), (best.values - logits.logsumexp(-1, keepdim=True)).half()


class _Slots:
    """Texts of at most ``room`` tokens, written at once in slots: keys, values and results."""

    def __init__(self, target: Target, layers: Sequence[int], slots: int, room: int) -> None:
        self.target = target
        self.model: CausalLM = target.model
        shape, device = self.model.shape, self.model.device
        self._layers = (*layers, shape.layers - 1)  # the head reads the last one's output
        keys, top = (shape.layers, slots, shape.kv_heads, room, shape.head_dim), min(TOP, target.vocab_size)
        self._keys, self._values = (torch.zeros(keys, dtype=self.model.dtype, device=device) for _ in range(2))
        self._features = torch.zeros(slots, room, len(layers), shape.width, dtype=torch.bfloat16, device=device)
        self._top_ids = torch.zeros(slots, room, top, dtype=torch.int32, device=device)
        self._top_logs = torch.zeros(slots, room, top, dtype=torch.float16, device=device)
        self.lengths = torch.zeros(slots, dtype=torch.long, device=device)  # tokens that were read
        self._all_slots = torch.arange(slots, device=device)

    def read(self, slots: Sequence[int], texts: Sequence[Sequence[int]]) -> Tensor:
        """Read prompts into slots; returns the logits after them, ``[n, V]``."""
        device, end = self.model.device, max(map(len, texts))
        where, ends = (torch.tensor(values, device=device) for values in (slots, [*map(len, texts)]))
        rows = torch.tensor([[*text, *[0] * (end - len(text))] for text in texts], device=device)

        def read(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self._keys[layer, where, :, :end], self._values[layer, where, :, :end] = k, v
            return causal(layer, q, k, v)

        _, states = self.model.decode(rows, slice(0, end), read, layers=self._layers, last=0)
        self._store(states, (where[:, None], torch.arange(end, device=device)))
        self._top_logs[where] = -torch.inf
        self.lengths[where] = ends
        return self._logits(where, ends - 1, states[-1][self._all_slots[: len(slots)], ends - 1])

    def step(self, last: Tensor) -> Tensor:
        """Read the token ``last [slots]`` of each text; returns the logits ``[slots, V]``."""
        slots, lengths = self._all_slots, self.lengths
        reach = min(self._keys.shape[3], -(-(int(lengths.max()) + 1) // 16) * 16)
        mask = (torch.arange(reach, device=slots.device) <= lengths[:, None])[:, None, None]

        def read(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = self._keys[layer], self._values[layer]
            keys[slots, :, lengths], values[slots, :, lengths] = k[:, :, 0], v[:, :, 0]
            return attend(q, keys[:, :, :reach], values[:, :, :reach], mask)

        positions = lengths[:, None]
        _, states = self.model.decode(last[:, None], positions, read, layers=self._layers, last=0)
        self._store(states, (slots[:, None], lengths[:, None]))
        self.lengths = lengths + 1
        return self._logits(slots, lengths, states[-1][:, 0])

    def _store(self, states: Sequence[Tensor], where: tuple[Tensor, Tensor]) -> None:
        """Store the outputs ``[n, L, W]`` of the requested layers."""
        if len(states) > 1:
            self._features[where] = torch.stack([*states[:-1]], 2).to(torch.bfloat16)

    def _logits(self, slots: Tensor, positions: Tensor, states: Tensor) -> Tensor:
        """The logits of ``states [n, W]``; stores the best."""
        logits = allowed(self.model.head(states), self.target)
        self._top_ids[slots, positions], self._top_logs[slots, positions] = _top(logits)
        return logits

    def take(self, slot: int, prompt: EncodedPrompt, temperature: float, ids: Sequence[int]) -> TrainingExample:
        """The answer in a slot, whose text is ``ids``."""
        stored = (tensor[slot, : len(ids)].cpu().clone() for tensor in (self._features, self._top_ids, self._top_logs))
        return TrainingExample(prompt, temperature, torch.tensor(list(ids), dtype=torch.int32), *stored)


class Writer:
    """Lets a target answer prompts.

    Args:
        generator: draws tokens.
        going: called before each pass; once it returns False, the current answers end.
    """

    def __init__(self, target: Target, writing: Writing, generator: torch.Generator, going: Callable[[], bool]) -> None:
        self.target, self.writing, self._generator, self._going = target, writing, generator, going

    def write(self, prompts: Sequence[tuple[EncodedPrompt, float]]) -> Iterator[TrainingExample]:
        """Answer each prompt at a temperature; yields answers as they end."""
        return (self._together if isinstance(self.target.model, CausalLM) else self._one_by_one)(prompts)

    def _one_by_one(self, prompts: Sequence[tuple[EncodedPrompt, float]]) -> Iterator[TrainingExample]:
        """Through the target's sessions: slow, for models that transformers runs."""
        target = self.target
        width = int(target.model.config.hidden_size)
        for prompt, temperature in prompts:
            if not self._going():
                return
            run, ids, first = target.start(), list(prompt.tokens), len(prompt.tokens)
            run.read(ids[:-1])
            while self._going() and (len(ids) == first or not self._over(ids, first, target.context)):
                logits = allowed(run.score(ids[-1:]).logits, target)
                ids.append(int(_draw(logits, torch.tensor([temperature], device=logits.device), self._generator)))
            if len(ids) < first + LEAST and not self._going():
                return
            logits, features = target.start(self.writing.layers).score(ids)
            top_ids, top_logs = (tensor.cpu() for tensor in _top(allowed(logits, target)))
            top_logs[: first - 1] = -torch.inf
            states = torch.zeros(len(ids), 0) if features is None else features
            states = states.view(len(ids), -1, width).to("cpu", torch.bfloat16)
            tokens = torch.tensor(ids, dtype=torch.int32)
            yield TrainingExample(prompt, temperature, tokens, states, top_ids, top_logs)

    @torch.inference_mode()
    def _together(self, prompts: Sequence[tuple[EncodedPrompt, float]]) -> Iterator[TrainingExample]:
        """By this lab's network, many at once; a free slot takes the next prompt."""
        if not prompts or not self._going():
            return
        target, writing = self.target, self.writing
        count, device = min(writing.slots, len(prompts)), target.model.device
        longest = max(len(prompt.tokens) for prompt, _ in prompts)
        room = min(target.context, longest + writing.new_tokens)
        pool = _Slots(target, writing.layers, count, room)
        waiting, texts = iter(prompts), dict[int, tuple[EncodedPrompt, float, list[int]]]()
        last, temperatures = torch.zeros(count, dtype=torch.long, device=device), torch.zeros(count, device=device)
        free = list(range(count))

        def begin() -> None:
            """Fill free slots with the next prompts."""
            begun, most = list(zip(free, waiting, strict=False)), TOGETHER[device.type]
            del free[: len(begun)]
            for group in (begun[i : i + most] for i in range(0, len(begun), most)):
                if not self._going():
                    return
                slots = [slot for slot, _ in group]
                logits = pool.read(slots, [prompt.tokens for _, (prompt, _) in group])
                temperatures[slots] = torch.tensor([temperature for _, (_, temperature) in group], device=device)
                last[slots] = drawn = _draw(logits, temperatures[slots], self._generator)
                for (slot, (prompt, temperature)), token in zip(group, drawn.tolist(), strict=True):
                    texts[slot] = prompt, temperature, [*prompt.tokens, token]

        begin()
        while texts and self._going():
            pool.lengths[free] = 0  # an empty slot's results are ignored
            last.copy_(_draw(pool.step(last), temperatures, self._generator))
            ended = [slot for slot, (prompt, _, ids) in texts.items() if self._over(ids, len(prompt.tokens), room)]
            for slot in ended:
                yield pool.take(slot, *texts.pop(slot))
            tokens = last.tolist()
            for slot, (_, _, ids) in texts.items():
                ids.append(tokens[slot])
            free += ended
            if len(free) >= FREE * count:
                begin()
        for slot, (prompt, temperature, ids) in texts.items():
            if len(ids) - 1 >= len(prompt.tokens) + LEAST:
                yield pool.take(slot, prompt, temperature, ids[:-1])

    def _over(self, ids: Sequence[int], prompt: int, room: int) -> bool:
        """Whether a text ends with ``ids``, whose first ``prompt`` are the prompt's."""
        answer = len(ids) - prompt
        full = answer >= self.writing.new_tokens or len(ids) >= room
        return full or ids[-1] in self.writing.ends or (answer % 8 == 0 and loops(ids[prompt:]))
