"""``python -m app.export --out FOLDER``: the player with recordings, explorations, the comparison and the lessons as
files that open from disk without a server; a name that ends in ``.html`` gives a single file.

Files that the page would fetch are included by their addresses (``static/files.js: fetchFile``).
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from specdiff_core.schema.errors import SpecDiffError, TraceError
from specdiff_core.schema.trace import dump_trace

from . import scripts
from .content import workshop
from .content.html import element, json_for_script
from .content.recordings import RECORDINGS, recordings
from .content.symbols import glossary
from .first_load import PLOTLY, import_map
from .links import API, COMPARE, EXPLORE, LEARN, LIVE, RACE, TABS
from .looks import brand, head
from .page import STAGE
from .run import exploration
from .run.kept import read_race
from .tabs import explore
from .tabs.player import player_options

MARK = '<meta name="generator" content="SpecDiff Lab export">'
"""Marks an export, which may be overwritten."""
MANY = (EXPLORE, "window-map"), (COMPARE, "compare")
"""Questions with many races."""
NOTE = "This is an export: it plays recordings, trace files and lessons. To run something, start the lab."
EMPTY = {
    LIVE: "This export has no recording of vanilla and one drafter.",
    RACE: "This export has no race of several methods. Click a cell of a chart in Explore to open its races.",
}
EXPORTED = tuple(tab for tab in TABS if tab != API)
REGIONS = {tab: ("sd sd-explored", name) for tab, name in explore.NAMES.items()}


class Chosen(NamedTuple):
    """The content of an export: the recordings of Live and Race, and the file behind every address,
    compressed, as base64."""

    recorded: dict[str, list[dict[str, Any]]]
    files: dict[str, str]
    lessons: Sequence[workshop.Lesson]


def choose(traces: Sequence[Path] = (), names: Sequence[str] | None = None) -> Chosen:
    """Read the content of an export.

    Args:
        traces: trace files; none means all that ship with the lab. Traces of the chosen lessons are added.
        names: of lessons; None means all.

    Raises:
        SpecDiffError: a file is missing or not a trace, or there is no such lesson.
    """
    by_name = {lesson.name: lesson for lesson in workshop.WORKSHOP}
    if unknown := [name for name in names or () if name not in by_name]:
        raise SpecDiffError(f"There is no lesson {unknown[0]!r}.", hint=f"Lessons: {', '.join(by_name)}.")
    chosen = workshop.WORKSHOP if names is None else tuple(one for one in workshop.WORKSHOP if one.name in names)
    added = {(RECORDINGS / name).resolve(): name for one in chosen if (name := one.watch.trace)}
    recorded: dict[str, list[dict[str, Any]]] = {LIVE: [], RACE: []}
    files = dict(_answers())
    if traces:
        for path in dict.fromkeys(path.resolve() for path in (*traces, *added)):
            try:
                trace, tab = read_race(path)
            except TraceError as error:
                raise TraceError(f"{path}: {error.message}", hint=error.hint) from error
            name = added.get(path) or f"{len(files)}-{quote(path.name, errors='replace')}"  # two files may share a name
            url = f"traces/{tab}/{name}"
            files[url] = _base64(gzip.compress(dump_trace(trace.lanes, title=trace.title), 6, mtime=0))
            recorded[tab].append({"title": trace.title or path.name, "url": url, "settings": {}})
    else:
        for tab, folder in ((LIVE, RECORDINGS), (RACE, RECORDINGS / RACE)):
            recorded[tab] = recordings(folder, partial("traces/{}/{.name}".format, tab))
            for recording in recorded[tab]:
                files[recording["url"]] = _base64((folder / recording["url"].rsplit("/", 1)[-1]).read_bytes())
    return Chosen(recorded, files, chosen)


def _answers() -> Iterator[tuple[str, str]]:
    """The recorded answers of Explore and Compare. The γ × T maps but the first, and the
    comparisons, come without their races, which are the largest."""
    maps, compared = (explore.labelled(explore.RECORDED[tab], name) for tab, name in MANY)
    without = [*[*maps][1:], *compared]
    for tab, folder in explore.RECORDED.items():
        for stem in (stem for name in exploration.forms(tab) for stem in explore.labelled(folder, name)):
            answer = json.loads((folder / f"{stem}.json").read_text(encoding="utf-8"))
            if stem in without:
                answer["files"] = {}
            for file in answer["files"].values():
                yield f"{tab}/{file}", _base64((folder / file).read_bytes())
            text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
            yield f"{tab}/{stem}.json", _base64(gzip.compress(text.encode(), 9, mtime=0))


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _inline(font: Path) -> str:
    """A font as a ``data:`` address, because a page from disk cannot fetch one."""
    return f"data:font/woff2;base64,{_base64(font.read_bytes())}"


def script_data(chosen: Chosen, plotly: str) -> dict[str, Any]:
    """The data for the page's script: every tab's options, as from the server, and the files."""
    options: dict[str, dict[str, Any]] = {
        **{tab: {**player_options(tab, chosen.recorded[tab]), "empty": EMPTY[tab]} for tab in EMPTY},
        **{tab: explore.explore_options(tab, at, lambda path: path.name) for tab, at in explore.RECORDED.items()},
        LEARN: {"lessons": workshop.lessons(chosen.lessons)},
    }
    tabs = {tab: {**options[tab], "symbols": glossary()} for tab in EXPORTED}
    return {"tabs": tabs, "files": chosen.files, "plotly": plotly}


def page(chosen: Chosen, plotly: str = "") -> str:
    """The whole page as one HTML document.

    Args:
        plotly: path of the chart library beside the page; empty: include it.
    """
    library = "" if plotly else _base64(gzip.compress(PLOTLY.read_bytes(), 9, mtime=0))
    names = [tab for tab in EXPORTED if tab != LEARN or chosen.lessons]
    common = {"type": "button", "role": "tab"}
    buttons = [
        element("button", text=tab.capitalize(), **common, id=f"tab-{tab}", aria_controls=tab, data_tab_id=tab)
        for tab in names
    ]
    hidden = {"class_": "tabitem sd-tab", "hidden": "hidden"}  # until its tab is chosen
    panels = [
        element("div", panel(tab, chosen), role="tabpanel", id=tab, aria_labelledby=f"tab-{tab}", **hidden)
        for tab in names
    ]
    tabs = element("div", *buttons, class_="tab-container", role="tablist", aria_label="Parts of the lab")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{MARK}
<title>SpecDiff Lab</title>
{head(_inline)}
<script type="importmap">{import_map()}</script>
<script type="application/json" id="sd-data">{json_for_script(script_data(chosen, plotly))}</script>
<script type="text/plain" id="sd-plotly">{library}</script>
</head>
<body class="sd-exported">
<div class="gradio-container"><div class="main">
<div id="sd-top"><div>{brand()}</div>
<button type="button" id="sd-open">Open trace</button><input type="file" id="sd-file" hidden>
<button type="button" id="sd-share">Share link</button>
<button type="button" id="sd-theme">Theme</button></div>
<div id="sd-tabs" class="tabs">
<div class="tab-wrapper">{tabs}</div>
<p class="sd-export-note" data-hide="presenting">{NOTE}</p>
{"".join(panels)}
</div>
</div></div>
<script>
document.body.classList.toggle('dark', matchMedia('(prefers-color-scheme: dark)').matches);
document.getElementById('sd-theme').addEventListener('click', {scripts.THEME});
</script>
<script type="module">import {{ open }} from 'sd/export.js'; open();</script>
</body>
</html>
"""


def panel(tab: str, chosen: Chosen) -> str:
    """The HTML of a tab, as in the lab."""
    if tab == LEARN:
        return workshop.section(chosen.lessons)
    classes, label = REGIONS.get(tab, ("sd", "Race player"))
    region = element("div", class_=classes, role="region", aria_label=label)
    player = element("div", region, id=f"{tab}-player", class_="sd-player" if tab in EMPTY else "")
    stage = element("div", element("div", class_="sd", role="region", aria_label="Stage"), id=STAGE)
    return element("div", stage if tab == LIVE else "", player, class_="column")


def write(out: Path, chosen: Chosen) -> list[Path]:
    """Write the page, and the chart library if it is separate.

    Returns:
        the written files, the page first.

    Raises:
        SpecDiffError: something else is there, or writing failed.
    """
    single = out.suffix.lower() in {".html", ".htm"}
    file = out if single else out / "index.html"
    try:
        if _is_taken(out, file):
            raise SpecDiffError(f"{out} exists and is not an export.", hint="Choose another name, or remove it.")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page(chosen, "" if single else PLOTLY.name), encoding="utf-8")
        if single:
            return [file]
        library = out / PLOTLY.name
        library.write_bytes(PLOTLY.read_bytes())
        return [file, library]
    except OSError as error:
        raise SpecDiffError(
            f"{error.filename or out} cannot be written: {error.strerror or error}.",
            hint="Choose a writable folder with enough space.",
        ) from error


def _is_taken(out: Path, page: Path) -> bool:
    """Whether something other than an earlier export or an empty folder is there."""
    if not out.exists() or (out != page and out.is_dir() and not any(out.iterdir())):
        return False
    if not page.is_file():
        return True
    with page.open("rb") as file:
        return MARK.encode() not in file.read(1024)


def main(argv: Sequence[str] | None = None) -> int:
    about = "Write the player, recordings and lessons as files that open from disk, without a server."
    prog = "python -m app.export" if __package__ in ("", "app") else "specdiff export"
    parser = argparse.ArgumentParser(prog=prog, description=about)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="OUT", help="a folder, or one file that ends in .html"
    )
    parser.add_argument(
        "--trace", type=Path, nargs="+", default=[], metavar="FILE", help="traces to play [default: all that ship]"
    )
    parser.add_argument("--lessons", default="all", metavar="NAMES", help="all, none, or names separated by commas")
    args = parser.parse_args(argv)
    names = {"all": None, "none": []}.get(args.lessons, [name.strip() for name in args.lessons.split(",")])
    try:
        written = write(args.out, choose(args.trace, names))
    except SpecDiffError as error:
        parser.exit(2, f"{error.message}\n{error.hint}\n")
    for path in written:
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
