"""The whole page: which element is where, and what each does. Imports no torch before a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gradio as gr

from specdiff_core.schema.decoder import Decoder
from specdiff_core.schema.settings import DecodeConfig

from . import actions, controls, endpoints, scripts
from .content import api, workshop
from .content.html import served
from .content.recordings import RECORDINGS, recordings
from .controls import QUIET, UNLIMITED, part
from .first_load import STATIC
from .links import API, LEARN, LIVE, RACE, linked_tab
from .looks import brand
from .run.engines import Engines
from .run.exploration import exploring
from .run.record import decoding
from .tabs import explore, race
from .tabs.player import PLANNED, player_options

STAGE = "live-stage"
"""The element above Live's controls that its player draws the stage into."""


def build(
    engines: Engines,
    traces: Path = RECORDINGS,
    recorded: Mapping[str, Path] = explore.RECORDED,
    servers: Mapping[str, Decoder] | None = None,
) -> gr.Blocks:
    """The whole page.

    Args:
        engines: loads pairs and downloads models.
        traces: folder of recorded traces; Live opens with the first, Race with the first in its subfolder ``race``.
        recorded: folders of recorded answers, by tab.
        servers: running servers that race beside the methods of Race, by lane (``--attach``).
    """
    decode, measure = decoding(engines.runner), exploring(engines.runner)
    gr.set_static_paths([STATIC, traces, *recorded.values()])

    page: gr.Blocks
    with gr.Blocks(title="SpecDiff Lab", analytics_enabled=False, fill_width=True) as page:
        endpoints.add(decode, measure)  # first: a later function of the same name gets a number
        with gr.Row(elem_id="sd-top"):
            gr.HTML(brand(), elem_id="sd-brand", apply_default_css=False)
            upload = gr.UploadButton("Open trace", size="sm", scale=0, min_width=96, elem_id="sd-open")
            share = gr.Button("Share link", size="sm", scale=0, min_width=96, elem_id="sd-share")
            theme = gr.Button("Theme", size="sm", scale=0, min_width=72, elem_id="sd-theme")
        players: dict[str, Any] = {}
        forms: dict[str, Any] = {}

        with gr.Tabs(elem_id="sd-tabs") as tabs:
            for tab, folder in ((LIVE, traces), (RACE, traces / RACE)):
                with gr.Tab(tab.capitalize(), id=tab, elem_classes=["sd-tab"]):
                    if tab == LIVE:
                        part("Stage", STAGE)
                    script = scripts.MODEL.replace("TAB", json.dumps(tab))
                    forms[tab] = part(
                        "Prompt and settings", f"{tab}-controls", js_on_load=script, elem_classes=["sd-player"]
                    )
                    options = player_options(tab, recordings(folder)) | {"form": PLANNED[tab].form()}
                    players[tab] = part(
                        "Race player",
                        f"{tab}-player",
                        js_on_load=scripts.mount("player_tab.js", options),
                        elem_classes=["sd-player"],
                        server_functions=[controls.checking(PLANNED[tab].plan), controls.offered],
                    )
            for tab, folder in recorded.items():
                with gr.Tab(tab.capitalize(), id=tab):
                    script = scripts.mount("explore.js", explore.explore_options(tab, folder, served))
                    explore.explore_tab(tab, measure, script)
            with gr.Tab("Learn", id=LEARN):
                options = {"lessons": workshop.lessons(), "defaults": DecodeConfig().to_dict()}
                script = scripts.mount("learn.js", options)
                gr.HTML(workshop.section(), apply_default_css=False, js_on_load=script)
            with gr.Tab("API & MCP", id=API):
                gr.HTML(api.section(race.SETTINGS), apply_default_css=False, js_on_load=scripts.OWN_ADDRESS)

        for tab, player in players.items():
            actions.wire_race(decode, tab, player, page, (servers or {}) if tab == RACE else {})
            actions.wire_download(engines, tab, player, forms[tab])
        actions.wire_redraft(decode, players[LIVE])

        def doing() -> Iterator[list[str]]:
            """Messages about background loading, for the tabs with models."""
            for message in engines.doing():
                yield [json.dumps({"message": f"In the background: {message}"})] * len(PLANNED)
            yield [json.dumps({"finished": True})] * len(PLANNED)

        page.load(doing, None, [*forms.values()], **UNLIMITED)
        upload.upload(
            actions.show_file,
            upload,
            [*players.values(), tabs],
            show_progress="hidden",
            concurrency_limit=1,  # a large file takes seconds of a core
            api_visibility="private",
        )
        share.click(None, None, None, js=scripts.SHARE)
        theme.click(None, None, None, js=scripts.THEME)

        page.load(opened, None, tabs, **QUIET)
    return page


def opened(request: gr.Request) -> Any:
    """The update that opens the tab of a link. The tab's script reads the rest."""
    tab = linked_tab(request.query_params)
    return gr.Tabs(selected=tab) if tab != LIVE else gr.skip()
