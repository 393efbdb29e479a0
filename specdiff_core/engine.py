"""A loaded pair that decodes text: prompt in, events out."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import logging
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch

from specdiff_core.chat import as_chat, chat_ids, typed_controls
from specdiff_core.checkpoints import own_pairs
from specdiff_core.checkpoints.availability import loaded_at_once
from specdiff_core.decoding.clock import DeviceClock, Usage
from specdiff_core.decoding.controller import Auto, Fixed
from specdiff_core.decoding.loop import Ending, speculate
from specdiff_core.decoding.pieces import with_pieces
from specdiff_core.drafters.base import Drafter
from specdiff_core.loading import LoadedPair, as_source, load_pair
from specdiff_core.models.device import DTYPES, choose_placement, cpu_threads, device_name, versions
from specdiff_core.models.target import Target
from specdiff_core.schema.decoder import WARM_PROMPT, WARM_TOKENS, Stop
from specdiff_core.schema.errors import (
    ConfigError,
    ContextOverflow,
    DraftContractError,
    OutOfMemory,
    SpecDiffError,
    is_memory,
)
from specdiff_core.schema.events import Event, Finished, RunStarted
from specdiff_core.schema.metrics import CROWDED
from specdiff_core.schema.pairs import NONE, DrafterSpec
from specdiff_core.schema.settings import DecodeConfig, check_prompt
from specdiff_core.stops import StopStrings, text_before
from specdiff_core.warm_up import quickest_threads, warm_drafter, warm_target

logger = logging.getLogger("specdiff.engine")


class Engine:
    """Decodes with one loaded pair. Concurrent runs share its weights.

    Args:
        progress: called with a line for each drafter that is loaded later.
        threads: CPU threads of its passes; None: whichever number is fastest when it is first needed.

    ``first`` is the drafter of a run that names none.
    """

    def __init__(
        self,
        pair: LoadedPair,
        progress: Callable[[str], None] | None = None,
        threads: int | None = None,
    ) -> None:
        self.pair, self.first = pair, pair.spec.drafters[0].name
        self._progress = progress or logger.info
        self.target = Target(pair.model, context=pair.spec.context, suppress=pair.spec.suppress)
        most, self._fixed = torch.get_num_threads(), threads is not None or pair.placement.device.type != "cpu"
        self._threads = (threads or most) if self._fixed else None
        self._choices = (self._threads,) if self._threads else tuple(dict.fromkeys((most, 1)))  # numbers of threads
        self._warm, self._warming = set[str | int](), threading.Lock()  # drafters, numbers of threads

    @classmethod
    def load(
        cls,
        pair: str = "embedded",
        *,
        device: str = "auto",
        dtype: str = "auto",
        context: int | None = None,
        drafters: Sequence[str] | None = None,
        progress: Callable[[str], None] | None = None,
        threads: int | None = None,
    ) -> Engine:
        """An engine with the target of ``pair`` and some of its drafters.

        Args:
            pair: one of ``PAIRS``, or a pair of your own (:mod:`specdiff_core.checkpoints.own_pairs`).
            device: auto, cpu or cuda.
            dtype: auto, fp32 or bf16; on a CPU auto is fp32 unless pair and processor prefer bf16.
            context: most tokens of a run, up to the target's limit; by default the pair's.
            drafters: by default all that ship with the project; others are loaded when needed.
            progress: called with a line for each part that is loaded.
            threads: CPU threads of its passes; by default whichever number is fastest.

        Raises:
            SpecDiffError: the pair, a drafter's name, the device, a file or the memory is missing.
        """
        spec = own_pairs.find(pair, context)
        drafters = loaded_at_once(spec) if drafters is None else drafters
        placement = choose_placement(device, dtype, bf16=spec.bf16)
        return cls(load_pair(spec, placement, drafters=drafters, progress=progress), progress, threads)

    @classmethod
    def own(
        cls,
        target: Any,
        drafters: Sequence[Any] = (),
        *,
        tokenizer: Any = None,
        kind: str = "",
        shift: int | None = None,
        mask_id: int | None = None,
        context: int | None = None,
        **options: Any,
    ) -> Engine:
        """An engine with a target and drafters of your own; see :func:`specdiff_core.load`. Loaded models are
        written to a temporary folder, from which this lab's network reads them.

        Raises:
            SpecDiffError: as :meth:`load`; what was given is no model; or a drafter can't be loaded.
        """
        made = Path(tempfile.mkdtemp(prefix="specdiff-"))
        try:
            sources = [
                as_source(one, tokenizer, made / f"{index}-{type(one).__name__}")
                for index, one in enumerate((target, *drafters))
            ]
            fields = {"kind": kind, "shift": shift, "mask_id": mask_id, "context": context}
            spec, names = own_pairs.register(
                {**fields, "target": sources[0], "drafter": list(filter(None, sources[1:]))}
            )
            if not isinstance(target, str | Path):
                dtype = next((name for name, dtype in DTYPES.items() if dtype is target.dtype), "auto")
                options = {"device": target.device.type, "dtype": dtype, **options}
            engine = cls.load(spec.name, drafters=(*names, NONE.name), **options)
            for name in names:
                engine.drafter(name)  # raises if it is missing
            engine.first = names[0]
        except BaseException:
            shutil.rmtree(made)
            raise
        weakref.finalize(engine, shutil.rmtree, made)
        return engine

    def __repr__(self) -> str:
        spec, placement = self.pair.spec, self.pair.placement
        drafters = ", ".join(name for name in self.pair.drafters if name != NONE.name) or "none"
        where = f"{device_name(placement.device)}, {placement.dtype_name}"
        return f"<Engine: {spec.label}; drafters: {drafters}; {where}; {self.target.context:,} tokens>"

    @property
    def ends(self) -> tuple[int, ...]:
        """Ids that end a text; by default the tokenizer's."""
        end = self.pair.tokenizer.eos_token_id
        return self.pair.ends or (() if end is None else (end,))

    def encode(self, prompt: str, config: DecodeConfig | None = None) -> tuple[int, ...]:
        """Prompt ids in the format of the target's training; with ``config``, possibly as a chat.

        Raises:
            ConfigError: the prompt is empty or not text, or the target lacks the template or one of its tokens.
            ContextOverflow: the prompt leaves no room for a token.
        """
        tokenizer, spec = self.pair.tokenizer, self.pair.spec
        check_prompt(prompt)
        if len(prompt) > 64 * spec.context:  # far too long: don't encode it
            what = f"The prompt has {len(prompt):,} characters, the context {spec.context} tokens."
            raise ContextOverflow(what, hint=f"Shorten it to about {3 * spec.context:,} characters.")
        if config is not None and (chat := chat_ids(tokenizer, prompt, config)) is not None:
            return self._fitting(chat)
        # A typed "<|mask|>" is text, not the mask token.
        begun = not spec.prepend_end  # by the tokenizer's rule: Llama's begins with <s>
        ids = tokenizer(prompt, add_special_tokens=begun, split_special_tokens=True, verbose=False)["input_ids"]
        return self._fitting([tokenizer.eos_token_id, *ids] if spec.prepend_end else ids)

    def rendered(self, prompt: str, config: DecodeConfig) -> str:
        """The text that another program's tokenizer turns into the ids of :meth:`encode`: a chat message as its
        template writes it, without a first token that tokenizers add themselves.

        Raises:
            ConfigError: as :meth:`encode`.
        """
        tokenizer = self.pair.tokenizer
        if (chat := as_chat(tokenizer, prompt, config)) is None:
            return prompt
        if typed := typed_controls(tokenizer, prompt, config):
            what = f"{typed[0]} in a message is a control token to another program."
            raise ConfigError(what, field="prompt", hint="Remove it.")
        added = tokenizer("", verbose=False)["input_ids"][:1] == [tokenizer.bos_token_id]
        return str(chat.removeprefix(tokenizer.bos_token) if added else chat)

    def _fitting(self, ids: Sequence[int]) -> tuple[int, ...]:
        """``ids``, if the target has all of them, and there is room for another token."""
        if not ids:
            hint = "Write another prompt, or check the tokenizer and its chat template."
            raise ConfigError("The tokenizer makes no tokens of this prompt.", field="prompt", hint=hint)
        context = self.pair.spec.context
        if foreign := [token for token in ids if token >= self.target.vocab_size]:
            name = self.pair.tokenizer.convert_ids_to_tokens(foreign[0])
            what = f"The target has no token {name!r}: it was added to the tokenizer only."
            raise ConfigError(what, field="template", hint="Let the prompt be the beginning of a text.")
        if len(ids) >= context:
            hint = f"Shorten it by about {len(ids) - context + 33} tokens, for an answer."
            raise ContextOverflow(f"The prompt has {len(ids)} tokens; the context holds {context}.", hint=hint)
        return tuple(ids)

    def drafter(self, name: str) -> Drafter:
        """A drafter of this pair.

        Raises:
            ConfigError: there is none of that name, or it is not available; the message says why.
        """
        if name not in self.pair.missing:
            self.load_drafter(name, self._progress)
        spec = self.pair.spec.drafter(name)
        if spec.name not in self.pair.drafters:
            what = f"The drafter {spec.name!r} is not available: {self.pair.missing[spec.name]}"
            raise ConfigError(what, field="drafter", hint="Choose another drafter.")
        return self.pair.drafters[spec.name]

    def load_drafter(self, drafter: str, progress: Callable[[str], None]) -> None:
        """Load a drafter of this pair if it isn't loaded. On failure :meth:`drafter` gives the
        reason. An exception from ``progress`` ends a download.

        Raises:
            ConfigError: there is none of that name.
        """
        spec = self.pair.spec.drafter(drafter)
        if spec.name not in self.pair.drafters:
            self.pair.add(spec, progress)

    def warm_up(
        self, config: DecodeConfig, progress: Callable[[str], None] = lambda message: None, threads: int = 0
    ) -> None:
        """Pay once what first passes cost: kernels for each width that a run can use, buffers, the
        number of threads, the test of exactness. Later calls with the same drafter return at once.

        Args:
            progress: called now and then; an exception from it ends the warm-up.
            threads: as of a decode.

        Raises:
            SpecDiffError: as :meth:`drafter`, a drafter of somebody else's failed, or memory ran out.
        """
        drafting, spec = self.drafter(config.drafter), self.pair.spec.drafter(config.drafter)
        config = DecodeConfig(pair=config.pair, drafter=spec.name, gamma=4, max_new_tokens=WARM_TOKENS)
        with self._warming, cpu_threads(count := self._count(threads)):
            parts: list[Iterator[object]] = []
            if count not in self._warm:
                parts.append(warm_target(self.target, count))
            if spec.name not in self._warm:
                ids = self.encode(WARM_PROMPT, config)
                parts += [
                    warm_drafter(self.target, drafting, spec, ids),
                    self.decode(WARM_PROMPT, config, threads=count),
                ]
            with _worded(spec):
                for _ in itertools.chain(*parts):
                    progress("Warming up: first passes are slower, so they are not measured")
            self._warm |= {count, spec.name}

    def decode(
        self,
        prompt: str,
        config: DecodeConfig,
        *,
        detail: bool = True,
        grain: str = "step",
        stop: Stop | None = None,
        threads: int | None = None,
        clock: DeviceClock | None = None,
        after: Sequence[int] = (),
    ) -> Iterator[Event]:
        """Decode ``prompt``: yields RunStarted, the loop's events with the text of their ids,
        Finished. See :class:`~specdiff_core.schema.decoder.Decoder` for the arguments.

        Args:
            clock: replaces the device clock.

        Raises:
            SpecDiffError: invalid settings, a prompt that does not fit, or no memory left.
        """
        ids = self._fitting([*self.encode(prompt, config), *after])
        prompt += str(self.pair.tokenizer.decode(list(after))) if after else ""
        drafter = self.drafter(config.drafter)
        spec = self.pair.spec.drafter(config.drafter)
        config = spec.clamp(config)  # the header has the effective settings
        # A controller learns from the seconds of each pass: on CUDA they are known only if it waits.
        clock = clock or DeviceClock(self.pair.placement.device, "step" if config.auto else grain)
        cut = StopStrings(self.pair.tokenizer, config.stops) if config.stops else None
        stopped = stop.is_set if stop is not None else lambda: False
        ending = Ending(() if config.ignore_eos else self.ends, cut, stopped)
        controller = Auto(config, spec.passes) if config.auto else Fixed(config)
        loop = speculate(
            ids,
            config,
            self.target,
            drafter,
            clock,
            after=len(after),
            controller=controller,
            ending=ending,
            detail=detail,
        )
        with cpu_threads(self._count(threads or 0)), _worded(spec):
            probed = not self._fixed and (threads or 0) < 1
            header = self._header(prompt, ids, config, clock, probed=probed, stopped=stopped)
            events = self._finished(header, loop, config.stops)
            yield from with_pieces(events, self.pair.tokenizer, self.ends) if detail else events

    @property
    def threads(self) -> int:
        """CPU threads of its passes: whichever number was quickest when it was first needed, or since
        threads were last seen waiting for a processor."""
        if self._threads is None:
            self._threads = quickest_threads(self.target, self.pair.placement.device, self._choices)
        return self._threads

    def _count(self, threads: int) -> int:
        """The number of CPU threads for ``threads``; see :class:`~specdiff_core.schema.decoder.Decoder`."""
        return threads if threads > 0 else max(1, self.threads + threads)

    def _header(
        self,
        prompt: str,
        ids: tuple[int, ...],
        config: DecodeConfig,
        clock: DeviceClock,
        *,
        probed: bool,
        stopped: Callable[[], bool],
    ) -> RunStarted:
        spec, placement = self.pair.spec, self.pair.placement
        draft = spec.drafter(config.drafter)
        tree = config.tree_nodes or config.num_drafts > 1  # in another order sums round differently
        exact = "biased" if not config.lossless else "rounding" if tree else self.target.exactness(stopped)
        return RunStarted(
            config=config.to_dict(),
            prompt=prompt,
            prompt_ids=ids,
            models={"target": self.pair.source_name("target"), "drafter": self.pair.source_name(draft.name)},
            device=device_name(placement.device),
            dtype=placement.dtype_name,
            reason=placement.reason + ("; a probe chose the number of threads" if probed else ""),
            threads=torch.get_num_threads(),
            versions=versions("torch", "transformers", "tokenizers"),
            grain=clock.grain,
            lossless=config.lossless,
            exactness=exact,
            network="; ".join(filter(None, (self.pair.network, self.pair.mismatch(draft.name)))),
            started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        )

    def _finished(self, header: RunStarted, loop: Iterator[Event], stops: Sequence[str]) -> Iterator[Event]:
        """The loop's events behind the header; the last with text, memory and waits. Both are those
        of this run alone, whatever other runs do between two of its events."""
        yield header
        use = Usage(self.pair.placement.device)
        for event in use.during(loop):
            if isinstance(event, Finished):
                ids = event.ids[:-1] if event.reason == "end_of_text" else event.ids
                text = text_before(str(self.pair.tokenizer.decode(list(ids), skip_special_tokens=True)), stops)
                peak, waited = use.peak_bytes, use.waited_seconds
                event = msgspec.structs.replace(event, text=text, peak_bytes=peak, waited_seconds=waited)
                if not self._fixed and header.threads > 1 and (waited or 0.0) > CROWDED * event.seconds:
                    self._threads = None  # fewer may be quicker now
            yield event


@contextlib.contextmanager
def _worded(drafter: DrafterSpec) -> Iterator[None]:
    """Says what failed: memory, or a drafter of somebody else's."""
    try:
        yield
    except Exception as error:
        if is_memory(error):
            raise OutOfMemory() from error
        if isinstance(error, SpecDiffError) or not drafter.is_foreign:
            raise
        logger.warning("the drafter %s failed", drafter.name, exc_info=error)
        what = f"The drafter {drafter.name!r} failed: {type(error).__name__}: {error}"
        raise DraftContractError(what[:300], hint="Its code comes from an installed package.") from error
