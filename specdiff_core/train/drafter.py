"""``train drafter``: a drafter for any causal model, from the model's own answers to prompts.

One loop for every kind of drafter (``learners/``): the target answers (``writing.py``), then the
drafter learns from what is stored, and now and then τ is measured by really decoding prompts that
it never saw. A run can be stopped at any time and resumed, with more hours too."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from safetensors import SafetensorError

from specdiff_core.checkpoints.folders import short_path
from specdiff_core.checkpoints.own_pairs import parse, register_pair
from specdiff_core.checkpoints.sources import is_local
from specdiff_core.checkpoints.writing import empty_folder
from specdiff_core.decoding.clock import DeviceClock
from specdiff_core.decoding.loop import Ending, speculate
from specdiff_core.drafters.base import Drafter
from specdiff_core.engine import Engine
from specdiff_core.measure import prompts as texts
from specdiff_core.measure.statistics import Interval, costs, ratios
from specdiff_core.models.network import CausalLM, vocabulary
from specdiff_core.provenance import command, provenance
from specdiff_core.schema.errors import ConfigError, CorpusError, SpecDiffError
from specdiff_core.schema.events import Finished
from specdiff_core.schema.history import HISTORY, read_history, write_history
from specdiff_core.schema.metrics import Metrics, fold
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.summary import loops
from specdiff_core.train.answers import Answers, Batch, EncodedPrompt, ShardRow, encode_prompts, read_states
from specdiff_core.train.cards import ModelCard, training_record, write_card
from specdiff_core.train.curve import last_scores, read_metrics
from specdiff_core.train.learners import LEARNERS, exported
from specdiff_core.train.learners.base import DraftVocab, Learner, Plan, frequent_words
from specdiff_core.train.settings import DrafterSettings
from specdiff_core.train.trainer import LogLine, Trainer, log, now, read_checkpoint
from specdiff_core.train.writing import LEAST, Writing, write_answers

WARMUP = 60
"""Steps of rising learning rate."""
SAVE = 300.0
"""Seconds of computing between two checkpoints."""
HELD_OUT = 40
"""Prompts on which τ is measured, at most; spread over their flavours."""
MEASURED = 96
"""New tokens of each of them, at most."""
SCORE = "tokens_per_round/"
BEFORE = "before.json"
"""In a run's folder: the history of the drafter that it began with."""


class DrafterTraining:
    """Makes a drafter for ``engine``'s target: consume :meth:`events`, then call :meth:`finish`.

    Args:
        prompts: what the target answers.
        out: the drafter's folder; ``out/run`` holds the run.
        answers: folder of the target's answers, by default in ``out/run``; others may add to it.
        valid: prompts on which τ is measured; by default some of ``prompts``, not learnt from.
        stopped: called before each pass and each step; once it returns True, the events end soon.
        argv: the words of the command, for the card.

    Raises:
        ConfigError: the settings don't fit the target, or the drafter to begin with.
        PairUnavailable: that drafter was made for another target.
        CorpusError: no prompt can be used.
    """

    def __init__(
        self,
        engine: Engine,
        prompts: Sequence[texts.Prompt],
        out: Path,
        settings: DrafterSettings,
        *,
        answers: Path | None = None,
        valid: Sequence[texts.Prompt] = (),
        stopped: Callable[[], bool] = lambda: False,
        argv: Sequence[str] = (),
    ) -> None:
        self.engine, self.target, self.out, self.stopped = engine, engine.target, out, stopped
        self.run, self.folder, self.argv = out / "run", answers or out / "run" / "answers", argv
        self.device = engine.pair.placement.device
        self._begun: Any = None  # the drafter to begin with
        if settings.start and not (self.run / "checkpoint.pt").exists():
            self._begun, shape = exported(Path(settings.start))
            settings = msgspec.structs.replace(settings, **shape)
            self._load(Path(settings.start))  # checks that it fits the target
        self.settings, self.seconds = settings, 3600 * settings.hours
        self.total = settings.tokens or self.seconds
        self._facts = provenance()  # now, because the repository may change during the training
        self._check_room()
        depth = int(engine.target.model.config.num_hidden_layers)
        reads = {kind: learner.reads(settings, depth) for kind, learner in LEARNERS.items()}
        self.kind, self.read = LEARNERS[settings.kind], reads[settings.kind]
        self.layers = tuple(sorted({*itertools.chain(*reads.values())}))  # answers serve all kinds
        self.kind.check(settings, depth)
        self._choose_prompts(prompts, valid)
        self._corpus = hashlib.sha256("\0".join(line.prompt for line in prompts).encode()).hexdigest()[:12]
        self._looping: set[str] = set()  # of the held-out prompts, those whose answers loop
        self.learner: Learner | None = None
        events = read_metrics(self.run)
        written = [event["seconds"] for event in events if event["kind"] == "answers"]
        self.answering, self.training = written[-1] if written else 0.0, 0.0  # seconds so far
        self.learnt = 0  # tokens so far

    @property
    def done(self) -> float:
        """How much of ``total`` is done: seconds, or tokens if their number is given."""
        return self.learnt if self.settings.tokens else self.answering + self.training

    @property
    def _stores(self) -> bool:
        """Whether answers hold the target's states (4.6 kB a token of SmolLM2-135M). A GPU computes
        them again in each step instead."""
        return self.device.type == "cpu" or not isinstance(self.target.model, CausalLM)

    def _check_room(self) -> None:
        settings, room = self.settings, self.target.context
        if settings.longest + settings.new_tokens > room:
            what = f"{settings.longest} tokens of a prompt and {settings.new_tokens} of its answer "
            hint = "Lower --longest and --new-tokens, or raise --context."
            raise ConfigError(f"{what}exceed the {room} of a run.", field="longest", hint=hint)

    def _choose_prompts(self, prompts: Sequence[texts.Prompt], valid: Sequence[texts.Prompt]) -> None:
        """Those to learn from, in random order, and others on which τ is measured."""
        config, saved = DecodeConfig(max_new_tokens=1), self.run / "held_out.json"

        def read(lines: Sequence[texts.Prompt]) -> list[EncodedPrompt]:
            return encode_prompts(lines, lambda text: self.engine.encode(text, config), longest=self.settings.longest)

        encoded = read(prompts)
        if valid:
            chosen = spread(read(valid), HELD_OUT)
        elif saved.exists():
            chosen = msgspec.json.decode(saved.read_bytes(), type=list[EncodedPrompt])
        else:
            chosen = spread(encoded, min(HELD_OUT, len(encoded) // 8))
        self._never = {prompt.id for prompt in chosen}
        order = np.random.default_rng(self.settings.seed).permutation(len(encoded))
        self.prompts = [encoded[i] for i in order if encoded[i].id not in self._never]
        self.held_out = chosen or encoded[:1]

    def events(self) -> Iterator[LogLine]:
        """Write answers, then train; every event is in the run's log, too.

        Raises:
            CorpusError: there are no answers to learn from, or another target wrote them.
            SpecDiffError: a file can't be written, or the loss became NaN.
        """
        self.run.mkdir(parents=True, exist_ok=True)
        for name, content in (("settings", self.settings), ("held_out", self.held_out)):
            encoded = msgspec.json.format(msgspec.json.encode(content), indent=2)
            (self.run / f"{name}.json").write_bytes(encoded + b"\n")
        if self._begun is not None:
            write_history(self.run / BEFORE, read_history(Path(self.settings.start) / HISTORY))
        yield log(self.run, {"kind": "begun", "command": command(self.argv)})
        if self.settings.answering:
            yield from self._answer()
        if not self.stopped():
            yield from self._train()

    def _answer(self) -> Iterator[LogLine]:
        settings, until = self.settings, self.seconds * self.settings.answering
        before, began = self.answering, now(self.device)
        layers = self.layers if self._stores else ()
        if (stored := Answers(self.folder, layers)).rows:
            stored.check(self.target)
        writing = Writing(
            layers=layers,
            ends=self.engine.ends,
            new_tokens=settings.new_tokens,
            temperatures=settings.temperatures,
            slots=settings.slots,
            seed=settings.seed,
        )

        def clock() -> float:
            self.answering = before + now(self.device) - began
            return self.answering

        def going() -> bool:
            return not self.stopped() and clock() < until

        for facts in write_answers(self.target, self.prompts, self.folder, writing, going=going, clock=clock):
            yield log(self.run, {"kind": "answers", **facts})

    def _train(self) -> Iterator[LogLine]:
        settings, answers = self.settings, Answers(self.folder, self.read if self._stores else ())
        answers.check(self.target)
        state = read_checkpoint(self.run)
        self.learner = learner = self._begin(answers, state)
        trainer = Trainer(learner.model, self.run, rate=settings.rate)
        if state is not None:
            trainer.restore(state)
        extra = {"words": learner.words.ids.tolist(), "released": getattr(learner.model, "released", {})}
        batches, budget = self._batches(answers, trainer.step), self.seconds - self.answering
        saved = measured = trainer.seconds

        def remaining() -> float:
            """The share of the training that is left."""
            self.training, self.learnt = trainer.seconds, trainer.tokens
            left = self.total - trainer.tokens if settings.tokens else budget - trainer.seconds
            return left / (self.total if settings.tokens else budget) if left > 0 else 0.0

        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(next, batches)
            while (left := remaining()) and not self.stopped():
                falling = settings.finish > left
                rate = min(1.0, (trainer.step + 1) / WARMUP) * (left / settings.finish if falling else 1.0)

                def loss(finishing: bool = falling) -> tuple[torch.Tensor, int]:
                    nonlocal coming
                    batch: Batch = coming.result().to(self.device)
                    coming = reader.submit(next, batches)
                    if self.read and not self._stores:
                        batch = batch._replace(features=read_states(self.target.model, batch.tokens, self.read))
                    generator = torch.Generator().manual_seed(settings.seed * 1_000_003 + trainer.step)
                    value = learner.loss(batch, generator, finishing=finishing)
                    return value, int((batch.lengths - batch.prompts).sum())

                yield trainer.learn(loss, rate)
                if trainer.seconds - measured >= 60 * settings.minutes and remaining():
                    measured = trainer.seconds
                    yield from self._measured(trainer)
                if trainer.seconds - saved >= SAVE:
                    saved = trainer.seconds
                    yield trainer.save(**extra)
        yield trainer.save(**extra)
        yield from self._measured(trainer)

    def _begin(self, answers: Answers, state: dict[str, Any] | None) -> Learner:
        """A new drafter, that to begin with, or one of the shape of a checkpoint's."""
        settings, model, start = self.settings, self.target.model, self._begun
        mask = choose_mask(self.engine, self.prompts)
        among, count = self.kind.candidates(self.target.vocab_size, mask, start, settings.words)
        texts, prompts = (answers.text(row) for row in answers.rows), (prompt.tokens for prompt in self.prompts)
        ids = state["words"] if state else frequent_words(texts, prompts, among=among, count=count)
        plan = Plan(
            spec=self.engine.pair.spec,
            target=model.config,
            settings=settings,
            mask=mask,
            words=len(ids),
            start=start,
            released=state["released"] if state else {},
        )
        network, table = self.kind.new(plan).to(self.device), vocabulary(model)
        return self.kind(network, table, DraftVocab.of(ids, table), self.read, settings)

    def _batches(self, answers: Answers, step: int) -> Iterator[Batch]:
        """Answers in random order, each once before any comes again; new ones join a pass later."""
        rng, order = np.random.default_rng([self.settings.seed, step]), list[ShardRow]()
        while True:
            while len(order) < self.settings.rows:
                answers.refresh()
                usable = [row for row in answers.rows if self._is_usable(row)]
                if not usable:
                    what = f"None of the {len(answers.rows)} answers can be learnt from: each is too short or loops."
                    raise CorpusError(what, hint="Write more of them, to other prompts.")
                order += [usable[i] for i in rng.permutation(len(usable))]
            chosen, order = order[: self.settings.rows], order[self.settings.rows :]
            yield answers.batch(chosen)

    def _is_usable(self, row: ShardRow) -> bool:
        return not row.looped and row.end - row.first - row.prompt >= LEAST and row.prompt_id not in self._never

    def _measured(self, trainer: Trainer) -> Iterator[LogLine]:
        if taus := self._measure():
            scores = {SCORE + name: tau.value for name, tau in taus.items()}
            bounds = {SCORE + name: (tau.low, tau.high) for name, tau in taus.items()}
            yield trainer.log("measured", scores=scores, bounds=bounds)

    def _measure(self) -> dict[str, Interval]:
        """τ by flavour, and their mean; nothing where all answers loop or the run was stopped."""
        if self.stopped():
            return {}
        drafter = self._load(self._export())
        prompts = [prompt for prompt in self.held_out if prompt.id not in self._looping]
        gamma, new = self.settings.block, min(MEASURED, self.settings.new_tokens)
        runs = list(decode_greedily(self.engine, drafter, prompts, gamma, new, self.stopped))
        self._looping |= {prompt.id for prompt, _, looping in runs if looping}
        return {} if self.stopped() else tau_by_flavour((prompt, run) for prompt, run, looping in runs if not looping)

    def finish(self) -> Path | None:
        """Export the drafter and its card; returns the card's path, or None if nothing was trained.

        Raises:
            SpecDiffError: a file can't be written.
        """
        if self.learner is None:
            return None
        fresh = self._export()
        empty_folder(self.out)
        for file in fresh.iterdir():
            file.replace(self.out / file.name)
        fresh.rmdir()
        return write_card(self._card(self.learner), self.out)

    def _export(self) -> Path:
        """Write the drafter as it is now into the run's folder."""
        assert self.learner is not None
        try:
            self.learner.export(self.run / "export")
        except (OSError, SafetensorError) as error:
            what = f"The drafter can't be written to {short_path(self.run)} ({error})."
            raise SpecDiffError(what, hint="Make room, and resume: the checkpoint is kept.") from error
        return self.run / "export"

    def _load(self, folder: Path) -> Drafter:
        """The drafter in a folder, loaded as any other would be."""
        pair = self.engine.pair
        fields = {"target": pair.spec.target, "target_revision": pair.spec.revision, "context": pair.spec.context}
        return pair.build(register_pair(parse({**fields, "drafter": str(folder.absolute())}).name).drafters[0])

    def _card(self, learner: Learner) -> ModelCard:
        settings, pair, answers = self.settings, self.engine.pair, Answers(self.folder, ())
        learnt = (
            f"Learnt from {len(answers.rows):,} answers of `{pair.source_name('target')}` "
            f"({answers.tokens:,} tokens) in {pair.placement.dtype_name}, at temperatures "
            f"{', '.join(f'{temperature:g}' for temperature in settings.temperatures)}."
        )
        if settings.start:
            learnt += f" It began with the weights of `{short_path(settings.start)}`."
        if settings.align == "streak":
            learnt += " Slots weighed as in streak-distillation (SpecDiff-2, arXiv 2511.00606)."
        facts: Any = {"corpus": self._corpus, "seed": settings.seed}
        parameters = sum(parameter.numel() for parameter in learner.model.parameters()) / 1e6
        return ModelCard(
            name=f"{learner.title} drafter for {Path(pair.spec.target).name}",
            summary=f"{learner.about}\n\n{learnt}",
            licence="as-its-target",
            base_model="" if is_local(pair.spec.target) else pair.spec.target,
            shape=f"{parameters:.1f} M parameters; see config.json.",
            history=[*read_history(self.run / BEFORE), training_record(self.run, self._facts, self.device, **facts)],
            scores=last_scores(self.run, SCORE),
            bounds=last_scores(self.run, SCORE, "bounds"),
            score_name=f"Greedy tokens per round, γ = {settings.block}, on {len(self.held_out)} held-out prompts",
        )


def decode_greedily(
    engine: Engine,
    drafter: Drafter,
    prompts: Sequence[EncodedPrompt],
    gamma: int,
    new_tokens: int,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[EncodedPrompt, Metrics, bool]]:
    """Decode with drafts of γ tokens in one pass, until ``stopped`` returns True; yields each
    prompt, the metrics of its run, and whether its answer loops, which flatters them."""
    config = DecodeConfig(gamma=gamma, max_new_tokens=new_tokens)
    clock = DeviceClock(engine.pair.placement.device, "total")
    for prompt in prompts:
        ending = Ending(engine.ends, stopped=stopped)
        events = list(speculate(prompt.tokens, config, engine.target, drafter, clock, ending=ending, detail=False))
        last = events[-1]
        if stopped():
            return
        yield prompt, fold(events), isinstance(last, Finished) and loops(last.ids)


def tau_by_flavour(runs: Iterable[tuple[EncodedPrompt, Metrics]]) -> dict[str, Interval]:
    """τ by flavour and its mean over flavours, with intervals over the prompts."""
    decoded = [(prompt, metrics) for prompt, metrics in runs if metrics.rounds]
    flavours = dict[str, list[str]]()
    for prompt, _ in sorted(decoded, key=lambda run: run[0].flavour):
        flavours.setdefault(prompt.flavour, []).append(prompt.id)
    return ratios(costs((prompt.id, one.rounds, one.committed) for prompt, one in decoded), flavours)


def spread(prompts: Sequence[EncodedPrompt], most: int) -> list[EncodedPrompt]:
    """At most ``most`` prompts, as many of each flavour, evenly spaced in their order."""
    flavours: dict[str, list[EncodedPrompt]] = {}
    for prompt in prompts:
        flavours.setdefault(prompt.flavour, []).append(prompt)
    chosen = []
    for group in flavours.values():
        count = min(len(group), max(1, most // len(flavours)))
        chosen += [group[i * len(group) // count] for i in range(count)]
    return chosen[:most]


def choose_mask(engine: Engine, prompts: Sequence[EncodedPrompt]) -> int:
    """An id that can stand for a mask because no text holds it: the tokenizer's mask, or the first
    special token without a role, or else the last id that is in no prompt. Not one with an
    embedding of zeros, as padding rows have: attention couldn't distinguish such slots."""
    tokenizer, norms = engine.pair.tokenizer, vocabulary(engine.target.model).read_embedding().float().norm(dim=-1)
    used = {*engine.ends, *(token for prompt in prompts for token in prompt.tokens)}
    used |= set((norms <= 0.01 * norms.median()).nonzero()[:, 0].tolist())
    roles, added = {*tokenizer.all_special_ids}, sorted(tokenizer.added_tokens_decoder.items())
    special = [token for token, entry in added if entry.special and token not in roles]
    candidates = [tokenizer.mask_token_id, *special, *range(len(norms) - 1, -1, -1)]
    return next(int(word) for word in candidates if word in range(len(norms)) and word not in used)
