"""Serves the page with a recorded comparison of scripted runs: ``compare_server.py PORT FOLDER [bare]``.

``bare``: without a recording. Runs of a measurement take a while each, so that a person could press Stop.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from app_fakes import FakeDecoder  # noqa: E402 - the paths above make these importable
from compare_fakes import store_sweep  # noqa: E402

from app.build import build  # noqa: E402
from app.launch import serve  # noqa: E402
from specdiff_core.bench.showcase import build_showcase, open_stored, write_showcase  # noqa: E402
from specdiff_core.schema.errors import OutOfMemory  # noqa: E402
from specdiff_core.schema.events import Event  # noqa: E402
from specdiff_core.schema.settings import DecodeConfig  # noqa: E402
from specdiff_core.schema.trace import write_trace  # noqa: E402


class Slow(FakeDecoder):
    """Takes its time, and has no memory for several drafts."""

    def decode(self, prompt: str, config: DecodeConfig, **options: Any) -> Iterator[Event]:
        """Pace or fail as the settings ask."""
        if config.num_drafts > 1:
            raise OutOfMemory("The device ran out of memory.", hint="Draw fewer drafts.")
        yield from super().decode(prompt, config, **options)


def main() -> None:
    """Serve until killed."""
    port, folder = int(sys.argv[1]), Path(sys.argv[2])
    lanes = {"vanilla": list(FakeDecoder().decode("Once", DecodeConfig(drafter="none")))}
    write_trace(folder / "traces" / "opening.jsonl.gz", lanes, title="A test recording")
    compared = folder / "compare"
    if "bare" not in sys.argv:
        stored = [open_stored(store_sweep(folder, temperature)) for temperature in (0.0, 1.0)]
        write_showcase(compared, build_showcase(stored))
    page = build(lambda pair, drafter, progress: Slow(pace=0.012), folder / "traces", compared)
    serve(page, server_name="127.0.0.1", server_port=port, quiet=True)


if __name__ == "__main__":
    main()
