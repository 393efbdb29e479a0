"""``train drafter``: a drafter for any causal model, from the model's own answers to prompts.

One loop for both kinds of drafter (``learners.py``): the target answers (``answers.py``), then the
drafter learns from what is stored, and now and then τ is measured by really decoding prompts that
it never saw. A run can be stopped at any time and resumed, with more hours too."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from safetensors import SafetensorError

from specdiff_core.decoding.clock import DeviceClock
from specdiff_core.decoding.loop import Ending, speculate
from specdiff_core.drafters import block_diffusion, eagle, masked_diffusion
from specdiff_core.drafters.base import Drafter
from specdiff_core.engine import Engine
from specdiff_core.measure import prompts as texts
from specdiff_core.models.causal import read_layers
from specdiff_core.models.dflash import DFlashDraftModel, from_folder, read_released
from specdiff_core.models.files import empty_folder
from specdiff_core.models.folders import is_local, read_config, resolve, shown
from specdiff_core.models.network import CausalLM, vocabulary
from specdiff_core.models.own_pairs import parse, register_pair
from specdiff_core.provenance import command, provenance
from specdiff_core.schema.errors import ConfigError, CorpusError, SpecDiffError
from specdiff_core.schema.events import Finished
from specdiff_core.schema.metrics import Metrics, fold
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.summary import loops
from specdiff_core.train.answers import (
    LEAST,
    Answers,
    Batch,
    EncodedPrompt,
    ShardRow,
    Writing,
    encode_prompts,
    read_states,
    write_answers,
)
from specdiff_core.train.cards import ModelCard, training_of, write_card
from specdiff_core.train.curve import last_scores, read_metrics
from specdiff_core.train.learners import (
    BlockLearner,
    DraftVocab,
    EagleLearner,
    Learner,
    MaskedLearner,
    block_config,
    default_taps,
    frequent_words,
    masked_config,
    new_block,
    new_eagle,
    new_masked,
)
from specdiff_core.train.settings import DrafterSettings
from specdiff_core.train.trainer import LogLine, Trainer, log, now, read_checkpoint

WARMUP = 60
"""Steps of rising learning rate."""
SAVE = 300.0
"""Seconds of computing between two checkpoints."""
HELD_OUT = 40
"""Prompts on which τ is measured, at most; spread over their flavours."""
MEASURED = 96
"""New tokens of each of them, at most."""
SCORE = "tokens_per_round/"
KINDS = {"block": "Block", "eagle": "EAGLE", "masked": "SpecDiff"}


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
        ConfigError: the settings don't fit the target.
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
        settings = begun(settings) if settings.start else settings
        self.engine, self.target, self.settings, self.out, self.stopped = engine, engine.target, settings, out, stopped
        self.run, self.folder, self.argv = out / "run", answers or out / "run" / "answers", argv
        self.device = engine.pair.placement.device
        self.total = 3600 * settings.hours  # seconds
        self._facts = provenance()  # now, because the repository may change during the training
        depth = int(engine.target.model.config.num_hidden_layers)
        self.taps = settings.taps or default_taps(depth)
        self._check(depth)
        self.layers = tuple(sorted({*self.taps, depth - 1}))  # for both kinds
        self.read = {"block": self.taps, "eagle": (depth - 1,), "masked": ()}[settings.kind]
        self._choose_prompts(prompts, valid)
        self._corpus = hashlib.sha256("\0".join(line.prompt for line in prompts).encode()).hexdigest()[:12]
        self._looping: set[str] = set()  # of the held-out prompts, those whose answers loop
        self.learner: Learner | None = None
        events = read_metrics(self.run)
        written = [event["seconds"] for event in events if event["kind"] == "answers"]
        self.answering, self.training = written[-1] if written else 0.0, 0.0  # seconds so far

    @property
    def _stores(self) -> bool:
        """Whether answers hold the target's states (4.6 kB a token of SmolLM2-135M). A GPU computes
        them again in each step instead."""
        return self.device.type == "cpu" or not isinstance(self.target.model, CausalLM)

    def _check(self, depth: int) -> None:
        settings, room = self.settings, self.target.context
        if settings.longest + settings.new_tokens > room:
            what = f"{settings.longest} tokens of a prompt and {settings.new_tokens} of its answer "
            hint = "Lower --longest and --new-tokens, or raise --context."
            raise ConfigError(f"{what}exceed the {room} of a run.", field="longest", hint=hint)
        if max(self.taps) >= depth or len(set(self.taps)) < len(self.taps):
            taps = " ".join(map(str, self.taps))
            what = f"--taps {taps} must be different layers of the target, 0 to {depth - 1}."
            raise ConfigError(what, field="taps", hint="Leave it out to take three of them.")
        if settings.only == "head" and not (settings.kind == "block" and settings.markov):
            what = "--only head trains a block drafter's Markov head, and there is none."
            raise ConfigError(what, field="only", hint="Give --markov a rank, or leave --only out.")
        if max(settings.cut, default=0) >= depth:
            what = f"--cut {' '.join(map(str, settings.cut))} must be layers of the target, 0 to {depth - 1}."
            raise ConfigError(what, field="cut", hint="Choose among those, or leave it out for new ones.")

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
        yield log(self.run, {"kind": "begun", "command": command(self.argv)})
        if self.settings.answering:
            yield from self._answer()
        if not self.stopped():
            yield from self._train()

    def _answer(self) -> Iterator[LogLine]:
        settings, until = self.settings, self.total * self.settings.answering
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
        batches, budget = self._batches(answers, trainer.step), max(0.0, self.total - self.answering)
        saved = measured = self.training = trainer.seconds
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(next, batches)
            while trainer.seconds < budget and not self.stopped():
                remaining = 1 - trainer.seconds / budget
                falling = settings.finish > remaining
                rate = min(1.0, (trainer.step + 1) / WARMUP) * (remaining / settings.finish if falling else 1.0)

                def loss(finishing: bool = falling) -> tuple[torch.Tensor, int]:
                    nonlocal coming
                    batch: Batch = coming.result().to(self.device)
                    coming = reader.submit(next, batches)
                    if not self._stores:
                        batch = batch._replace(features=read_states(self.target.model, batch.tokens, self.read))
                    generator = torch.Generator().manual_seed(settings.seed * 1_000_003 + trainer.step)
                    value = learner.loss(batch, generator, finishing=finishing)
                    return value, int((batch.lengths - batch.prompts).sum())

                yield trainer.learn(loss, rate)
                self.training = trainer.seconds
                if trainer.seconds - measured >= 60 * settings.minutes and trainer.seconds < budget:
                    measured = trainer.seconds
                    yield from self._measured(trainer)
                if trainer.seconds - saved >= SAVE:
                    saved = trainer.seconds
                    yield trainer.save(**extra)
        yield trainer.save(**extra)
        yield from self._measured(trainer)

    def _begin(self, answers: Answers, state: dict[str, Any] | None) -> Learner:
        """A new drafter, or one of the shape of a checkpoint's."""
        settings, model, table = self.settings, self.target.model, vocabulary(self.target.model)
        mask = choose_mask(self.engine, self.prompts)
        start = from_folder(Path(settings.start)) if settings.start and state is None else None
        if start is not None:
            mask = int(start.config.mask_token_id)
        texts, prompts = (answers.text(row) for row in answers.rows), (prompt.tokens for prompt in self.prompts)
        size, count = self.target.vocab_size, settings.words
        ids = state["words"] if state else frequent_words(texts, prompts, vocabulary=size, count=size, never=mask)
        if start is not None and start.draft_ids is not None:
            own = {*start.draft_ids.tolist()}
            ids = [token for token in ids if token in own]
        ids = ids[:count]
        shared: Any = (table, DraftVocab.of(ids, table), self.read, settings)
        if settings.kind == "eagle":
            return EagleLearner(new_eagle(model.config, seed=settings.seed).to(self.device), *shared)
        source = self.engine.pair.spec.target
        name = shown(source) if is_local(source) else source
        if settings.kind == "masked":
            fresh = masked_config(model.config, name, settings, mask=mask, words=len(ids))
            cut = read_layers(resolve(source, self.engine.pair.spec.revision), settings.cut) if settings.cut else {}
            network = new_masked(state["released"] if state else fresh, cut, seed=settings.seed)
            return MaskedLearner(network.to(self.device), *shared)
        fresh = block_config(model.config, name, settings, taps=self.taps, mask=mask, words=len(ids))
        block = new_block(state["released"] if state else fresh, seed=settings.seed)
        if start is not None:
            take_weights(block, start)
        if settings.only == "head":
            for name, parameter in block.named_parameters():
                parameter.requires_grad_(name.startswith("markov_head."))
        return BlockLearner(block.to(self.device), *shared)

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
        if scores := self._measure():
            yield trainer.log("measured", scores=scores)

    def _measure(self) -> dict[str, float]:
        """τ; nothing where all answers loop or the run was stopped."""
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
            what = f"The drafter can't be written to {shown(self.run)} ({error})."
            raise SpecDiffError(what, hint="Make room, and resume: the checkpoint is kept.") from error
        return self.run / "export"

    def _load(self, folder: Path) -> Drafter:
        """The drafter in a folder, loaded as any other would be."""
        pair = self.engine.pair
        fields = {"target": pair.spec.target, "target_revision": pair.spec.revision, "context": pair.spec.context}
        spec = register_pair(parse({**fields, "drafter": str(folder)}).name).drafters[0]
        modules: Any = {"block": block_diffusion, "eagle": eagle, "masked": masked_diffusion}
        drafter: Drafter = modules[self.settings.kind].build(spec, pair.placement, target=pair.model, pair=pair.spec)
        return drafter

    def _card(self, learner: Learner) -> ModelCard:
        settings, pair, answers = self.settings, self.engine.pair, Answers(self.folder, ())
        learnt = (
            f"Learnt from {len(answers.rows):,} answers of `{pair.name_of('target')}` "
            f"({answers.tokens:,} tokens) in {pair.placement.dtype_name}, at temperatures "
            f"{', '.join(f'{temperature:g}' for temperature in settings.temperatures)}."
        )
        facts: Any = {"corpus": self._corpus, "seed": settings.seed}
        parameters = sum(parameter.numel() for parameter in learner.model.parameters()) / 1e6
        return ModelCard(
            name=f"{KINDS[settings.kind]} drafter for {Path(pair.spec.target).name}",
            summary=f"{learner.about}\n\n{learnt}",
            licence="as-its-target",
            base_model="" if is_local(pair.spec.target) else pair.spec.target,
            shape=f"{parameters:.1f} M parameters; see config.json.",
            history=[training_of(self.run, self._facts, self.device, **facts)],
            scores=last_scores(self.run, SCORE),
            score_name=f"Greedy tokens per round, γ = {settings.block}, on {len(self.held_out)} held-out prompts",
        )


def begun(settings: DrafterSettings) -> DrafterSettings:
    """``settings`` with the shape of the drafter in ``settings.start``.

    Raises:
        ConfigError: it is no block drafter whose anchor predicts nothing.
        WeightsError: its config.json is missing or damaged.
    """
    values = read_config(Path(settings.start))
    config = read_released(values)
    if settings.kind != "block" or config.anchor_predicts:
        hint = "Begin with one that `train drafter` made."
        raise ConfigError(f"--start {shown(settings.start)} is no such block drafter.", field="start", hint=hint)
    shape = {"block": config.block_size - 1, "layers": config.num_hidden_layers, "taps": tuple(config.target_layer_ids)}
    return msgspec.structs.replace(settings, **shape, words=config.draft_vocab_size or config.vocab_size)


def take_weights(model: DFlashDraftModel, start: DFlashDraftModel) -> None:
    """Begin ``model`` with the weights of ``start``; a Markov head of another kind or rank stays new.

    Raises:
        ConfigError: ``start`` was made for another target.
    """
    own, theirs = model.state_dict(), start.state_dict()
    fitting = {name: theirs[name] for name in own if name in theirs and theirs[name].shape == own[name].shape}
    if missing := [name for name in own if name not in fitting and not name.startswith("markov_head.")]:
        what = f"The drafter in --start doesn't fit this target: {missing[0]} has another shape."
        raise ConfigError(what, field="start", hint="Name the target that it was trained for.")
    model.load_state_dict(fitting, strict=False)


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


def tau_by_flavour(runs: Iterable[tuple[EncodedPrompt, Metrics]]) -> dict[str, float]:
    """τ by flavour and its mean over flavours, as :data:`SCORE` names them."""
    totals = dict[str, Metrics]()
    for prompt, metrics in runs:
        totals[prompt.flavour] = totals.get(prompt.flavour, Metrics()) + metrics
    scores = {flavour: metrics.tau for flavour, metrics in sorted(totals.items()) if metrics.tau}
    return {SCORE + name: value for name, value in with_mean(scores).items()} if scores else {}


def with_mean(scores: Mapping[str, float]) -> dict[str, float]:
    return {**scores, "mean": sum(scores.values()) / len(scores)}


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
