"""Serves the real page with a scripted decoder, for the browser tests: ``browser_server.py PORT FOLDER``.

The prompt chooses the pace: "slow" runs take seconds. Decodes that saw their stop event append to FOLDER/stopped.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from app_fakes import FakeDecoder  # noqa: E402 - the paths above make these importable

from app.build import build  # noqa: E402
from app.launch import serve  # noqa: E402
from specdiff_core.schema.errors import OutOfMemory, WeightsError  # noqa: E402
from specdiff_core.schema.events import DenoiseStep, Event, PiecesSeen  # noqa: E402
from specdiff_core.schema.settings import DecodeConfig  # noqa: E402
from specdiff_core.schema.trace import write_trace  # noqa: E402


class Scripted(FakeDecoder):
    """A decoder that takes its pace and its failures from the prompt."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def decode(self, prompt: str, config: DecodeConfig, **options: Any) -> Iterator[Event]:
        """Pace or fail as the prompt asks."""
        fail = OutOfMemory("The device ran out of memory.", hint="Use a smaller γ.") if "memory" in prompt else None
        fail = RuntimeError("internal secret") if "unexpected" in prompt else fail
        if "broken lane" in prompt and config.drafter == "mdlm":
            raise WeightsError("assets/embedded/mdlm/model.safetensors is missing.", hint="Restore the folder.")
        waiting = 0.9 if "crowded" in prompt else 0.02
        inner = FakeDecoder(pace=0.05 if "slow" in prompt else 0.0, fail=fail, waiting=waiting)
        yield from inner.decode(prompt, config, **options)
        if inner.stopped.is_set():
            with (self.folder / "stopped").open("a", encoding="utf-8") as log:
                log.write(f"{prompt}\n")


def main() -> None:
    """Serve until killed."""
    port, folder = int(sys.argv[1]), Path(sys.argv[2])
    config = DecodeConfig(gamma=6, steps=3, temperature=0.8, max_new_tokens=40)
    vanilla = DecodeConfig(**{**config.to_dict(), "drafter": "none"})
    lanes = {
        "vanilla": list(FakeDecoder().decode("Once", vanilla)),
        "drafted": list(FakeDecoder().decode("Once", config)),
    }
    write_trace(folder / "opening.jsonl.gz", lanes, title="A test recording")
    second = {"drafted": list(FakeDecoder().decode("Twice", config))}
    write_trace(folder / "another.jsonl.gz", second, title="A second recording")

    silent = [event for event in lanes["drafted"] if not isinstance(event, (DenoiseStep, PiecesSeen))]
    bench = {"vanilla": lanes["vanilla"], "mdlm/4/1": lanes["drafted"], "block/9/1": silent}
    write_trace(folder / "bench" / "race.jsonl.gz", bench, title="A race of the bench")

    def factory(pair: str, drafter: str, progress: Any) -> Scripted:
        progress("Loading a pretend model")
        time.sleep(0.3)
        return Scripted(folder)

    serve(build(factory, folder), server_name="127.0.0.1", server_port=port, quiet=True)


if __name__ == "__main__":
    main()
