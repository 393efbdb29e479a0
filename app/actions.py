"""What the players' buttons do on the server: race, stop, download a model, draft a block again, open a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import gradio as gr

from specdiff_core.schema.decoder import Decoder
from specdiff_core.schema.methods import BASELINE

from . import controls, host
from .controls import QUIET, UNLIMITED
from .links import LIVE
from .run import job
from .run.download import Download
from .run.engines import Engines
from .run.kept import open_trace
from .run.progress import Progress
from .run.race import LAST_FRAME, Race
from .run.record import Ask, Decode
from .scripts import when
from .tabs import live
from .tabs.player import PLANNED

JOBS = job.Jobs()
"""The races of this server, and the models that it downloads."""


def _job_name(request: gr.Request, tab: str) -> str:
    """The name of a visitor's job. A visitor's tabs are independent."""
    return f"{request.session_hash}/{tab}" if request.session_hash else ""


def wire_download(engines: Engines, tab: str, player: gr.HTML, form: gr.HTML) -> None:
    """Wire the events that download a model, a pair's or a visitor's own, and stop that. The form gets their frames."""
    name = f"{tab}/model"

    def fetch(asked: gr.EventData, request: gr.Request) -> Iterator[str]:
        pair, own = str(getattr(asked, "pair", "")), getattr(asked, "own", None)

        def load(progress: Progress) -> str:
            if isinstance(own, Mapping):
                return live.choose_own(own, progress)
            engines.warm_up(pair, progress)
            return pair

        yield from job.stream(lambda run: Download(load, run), JOBS, _job_name(request, name))

    def halt(request: gr.Request) -> None:
        JOBS.stop(_job_name(request, name), 0)

    when(player, "get_model")(fetch, None, form, trigger_mode="multiple", **UNLIMITED)
    when(player, "stop_model")(halt, None, None, **QUIET)


def wire_redraft(decode: Decode, player: gr.HTML) -> None:
    """Wire the event that drafts the block of the run on the stage again. Its frames have the source ``block``."""
    name = f"{LIVE}-block"

    def again(asked: gr.EventData, request: gr.Request) -> Iterator[str]:
        def make(run: str) -> Race:
            ask = Ask.again(getattr(asked, "file", ""), run, host.threads())
            return Race(decode, ask, request.session_hash or "")

        for words in job.stream(make, JOBS, _job_name(request, name)):
            yield json.dumps(json.loads(words) | {"source": "block"})

    def stop(request: gr.Request) -> None:
        JOBS.stop(_job_name(request, name), LAST_FRAME)

    asked = when(player, "redraft")(again, None, player, **UNLIMITED)
    asked.failure(None, None, None, js="() => window.specdiff?.tabs.live?.acts.redrafted()", **UNLIMITED)
    when(player, "stop_redraft")(stop, None, None, **QUIET)


def wire_race(decode: Decode, tab: str, player: gr.HTML, page: gr.Blocks, servers: Mapping[str, Decoder]) -> None:
    """Wire the events that start and stop a tab's race."""

    def run(asked: gr.EventData, request: gr.Request) -> Iterator[str]:
        def make(run: str) -> Race:
            values = controls.sent(getattr(asked, "request", None))
            prompt, threads = values.pop("prompt", None), values.pop("threads", None)
            plan = PLANNED[tab].plan(values)
            ask = Ask(
                prompt=controls.check_prompt(prompt),
                plan=plan | dict.fromkeys(servers, plan[BASELINE]),
                run=run,
                threads=1 if threads == 1 else host.threads(),
                servers=servers,
            )
            return Race(decode, ask, request.session_hash or "")

        yield from job.stream(make, JOBS, _job_name(request, tab))

    def stop(request: gr.Request) -> None:
        JOBS.stop(_job_name(request, tab), LAST_FRAME)

    controls.start_job(run, player, tab)
    when(player, "stop")(stop, None, None, **QUIET)
    page.unload(stop)  # a run that waits yields seldom, and Gradio closes it only then


def show_file(path: str | None, request: gr.Request) -> list[Any]:
    """Frames of a visitor's file for the players of Live and Race, and the tab to open; an error card goes to both."""
    frame, tab = open_trace(path, request.session_hash or "")
    if not tab:
        return [frame, frame, gr.skip()]
    return [*(frame if name == tab else gr.skip() for name in PLANNED), gr.Tabs(selected=tab)]
