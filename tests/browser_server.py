"""Serves the real page with a scripted decoder, for the browser tests: ``browser_server.py PORT FOLDER``.

The prompt chooses the pace: "slow" runs take seconds, "very slow" ones half a minute.
Decodes that saw their stop event append to FOLDER/stopped. While FOLDER/occupy exists, both turns of the explorations
are taken; then FOLDER/occupied exists.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

gc.disable()  # until all is built: a fifth of the time
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from app_fakes import FakeDecoder

from app.content import examples
from app.gradio_patches import skip_stubs

skip_stubs()
# These tests watch denoising, so their page opens on the embedded pair.
examples.OPENING = next(one.config for one in examples.PRESETS if one.config.pair == "embedded")
examples.EXAMPLES = dict(reversed(examples.EXAMPLES.items()))

from app.launch import serve
from app.page import build
from app.run import runner
from app.run.engines import Engines
from app.run.turns import TURNS
from benchmarks.recordings import Recording, record
from specdiff_core.explorations.run import Snapshot
from specdiff_core.schema.errors import ContextOverflow, OutOfMemory, WeightsError
from specdiff_core.schema.events import DenoiseStep, Event, PiecesSeen
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import write_trace

MEASURED = 0.005
"""Seconds for a pass of a comparison's run, so that a person could press Stop."""


class Scripted(FakeDecoder):
    """A decoder that takes its pace and its failures from the prompt and the settings."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def decode(self, prompt: str, config: DecodeConfig, **options: Any) -> Iterator[Event]:
        """Pace or fail as the prompt asks."""
        fail = OutOfMemory("The device ran out of memory.", hint="Use a smaller γ.") if "memory" in prompt else None
        if "too long" in prompt:
            raise ContextOverflow("The prompt has 600 tokens; the context holds 512.", hint="Shorten it.")
        fail = RuntimeError("internal secret") if "unexpected" in prompt else fail
        if "broken lane" in prompt and config.drafter == "masked":
            raise WeightsError("assets/embedded/masked/model.safetensors is missing.", hint="Restore the folder.")
        compared = config.ignore_eos  # only the runs of a comparison ask for it here
        if compared and config.num_drafts > 1:
            raise OutOfMemory("The device ran out of memory.", hint="Draw fewer drafts.")
        waiting = 0.9 if "crowded" in prompt and options.get("threads") != 1 else 0.02
        pace = 0.25 if "very slow" in prompt else 0.05 if "slow" in prompt else MEASURED if compared else 0.0
        inner = FakeDecoder(pace=pace, fail=fail, waiting=waiting)
        yield from inner.decode(prompt, config, **options)
        if inner.stopped.is_set():
            with (self.folder / "stopped").open("a", encoding="utf-8") as log:
                log.write(f"{prompt}\n")


class Pretended(Engines):
    """Load for a moment, before every run, and download nothing."""

    def runner(self, pair: str, drafter: str, progress: Any) -> Any:
        progress("Loading a pretend model")
        time.sleep(0.05)
        return self._load(pair, progress)

    def download(self, pair: str, progress: Any) -> None:
        """It is there."""


class Leisurely(runner.ExplorationRun):
    """A long measurement rests between its parts, so that it occupies its place and no processor."""

    def advance(self, seconds: float, *more: Any) -> Snapshot:
        """Run the next part."""
        if getattr(self._exploration, "runs", 0) >= 100_000:
            time.sleep(2 * seconds)
            seconds /= 20
        return super().advance(seconds, *more)


def occupy(folder: Path) -> None:
    """Take both turns of the explorations while a test asks for it."""
    asked, occupied = folder / "occupy", folder / "occupied"
    while True:
        time.sleep(0.1)
        if asked.exists():
            with TURNS.explorations.turn(), TURNS.explorations.turn():
                occupied.touch()
                while asked.exists():
                    time.sleep(0.02)
            occupied.unlink()


def scripted(recording: Recording) -> dict[str, list[Event]]:
    """What a recording holds."""
    prompt = recording.values["prompt"]
    return {lane: list(FakeDecoder().decode(prompt, config)) for lane, config in recording.plan().items()}


def main() -> None:
    """Serve until killed."""
    port, folder = int(sys.argv[1]), Path(sys.argv[2])
    runner.SLICE = 0.2  # less waiting than for real models
    runner.ExplorationRun = Leisurely
    traces = folder / "traces"
    if not traces.exists():  # a server that comes back finds them
        record(traces, scripted)
    run = list(FakeDecoder().decode("Once", DecodeConfig(gamma=6, steps=3, max_new_tokens=40)))
    vanilla = list(FakeDecoder().decode("Once", DecodeConfig(drafter="none", max_new_tokens=40)))
    silent = [event for event in run if not isinstance(event, (DenoiseStep, PiecesSeen))]
    bench = {"vanilla": vanilla, "masked/4/1": run, "block/9/1": silent}
    write_trace(traces / "bench" / "race.jsonl.gz", bench, title="A race of the bench")

    threading.Thread(target=occupy, args=(folder,), daemon=True).start()
    page = build(Pretended(lambda pair, progress: Scripted(folder)), traces)
    gc.freeze()
    gc.enable()
    serve(page, server_name="127.0.0.1", server_port=port, quiet=True)


if __name__ == "__main__":
    main()
