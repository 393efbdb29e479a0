"""What a link shows where it is shared: a title, a sentence and a picture of its run's staged round."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, quote

from PIL import Image, ImageDraw, ImageFont
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.schema.events import Event, TargetScored, pieces_of
from specdiff_core.schema.methods import BASELINE
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.palette import ROLES
from specdiff_core.schema.summary import header_of, race_summary, staged
from specdiff_core.schema.trace import read_trace

from .content.html import element
from .content.recordings import RECORDINGS, recordings
from .run.kept import KEPT_RUNS

LEAD = "A small model fills the blanks. A big one checks them all at once."
SIZE = (1200, 630)
LARGEST = 4 * 2**20
"""Bytes of a trace that gets a card: it is read while its page is made. A visitor's file may have far more."""
LINE = 300
"""Characters of the longest line of a card."""
FONT = Path(__file__).parent / "static" / "fonts" / "inter-latin.woff2"
_META = re.compile(rb'<meta\s+(?:property="og:|name="twitter:)[^>]*>')
_NAME = re.compile(r"[\w-]+\.jsonl(\.gz)?")


class Guess(NamedTuple):
    """A word of the staged round, and its mark: ``✓``, ``✕`` or none."""

    words: str
    mark: str


class Summary(NamedTuple):
    """What a link's picture and sentence say."""

    prompt: str
    speedup: float | None  # over vanilla, if its clock was undisturbed
    guesses: tuple[Guess, ...]
    own: str  # the target's word after them
    unit: str  # words, or tokens, if some are only parts of words
    passes: float | None  # what the check cost, in passes of vanilla
    model: str
    device: str

    @property
    def title(self) -> str:
        prompt = self.prompt if len(self.prompt) < 80 else f"{self.prompt[:78]}…"
        return f"{self.speedup:.2f}× · {prompt}" if self.speedup else prompt

    @property
    def sentence(self) -> str:
        right = sum(mark == "✓" for _, mark in self.guesses)
        words = f"The small model guessed {right} of {len(self.guesses)} {self.unit}; the big one checked them"
        if self.passes is None:
            return f"{words} in one pass."
        return f"{words} in the time of {'one' if self.passes < 1.25 else f'{self.passes:.1f}'}."


def fastest_summary(lanes: Mapping[str, Sequence[Event]]) -> Summary | None:
    """The summary of a race's fastest lane that drafted windows; None: it has none."""
    compared = race_summary({lane: [events] for lane, events in lanes.items() if events})["lanes"]
    speeds = {lane: compared[lane].get("speedup") for lane in compared if lane != BASELINE and staged(lanes[lane])}
    fastest = max(speeds, key=lambda lane: speeds[lane] or 0, default="")
    vanilla, drafted = lanes.get(BASELINE, []), lanes.get(fastest, [])
    header, round_ = header_of(drafted), staged(drafted)
    if round_ is None or header is None:
        return None
    (draft, verified), pieces = round_, pieces_of(drafted)
    marks = ["✓"] * verified.accepted + ["✕"] * (verified.accepted < len(verified.tests)) + [""] * len(draft.ids)
    texts = [pieces.get(token, "") for token in draft.ids]
    passes = [one.span.seconds for one in vanilla if isinstance(one, TargetScored)]
    check = next((one.span.seconds for one in drafted if isinstance(one, TargetScored) and one.round == draft.round), 0)
    quiet = not any(fold(events).crowded for events in lanes.values() if events)
    return Summary(
        prompt=" ".join(header.prompt.split()),
        speedup=speeds[fastest] if quiet else None,
        guesses=tuple(Guess(text.strip() or "·", mark) for text, mark in zip(texts, marks, strict=False)),
        own=pieces.get(verified.extra, "").strip(),
        unit="tokens" if any(text[:1].isalnum() for text in texts) else "words",
        passes=check / (sum(passes) / len(passes)) if passes else None,
        model=header.models.get("target", "").rsplit("/", 1)[-1].removesuffix(".gguf"),
        device=header.device,
    )


def _read(name: str) -> Summary | None:
    """The summary of a recording or a kept run; None: there is none to show."""
    path = KEPT_RUNS.find(name) or RECORDINGS / name
    try:
        size = path.stat().st_size if _NAME.fullmatch(name) else LARGEST + 1
        return _summary(path, size) if size <= LARGEST else None
    except OSError:
        return None


@lru_cache(maxsize=32)
def _summary(path: Path, size: int) -> Summary | None:
    """The summary of a file; one that has grown has another ``size``."""
    try:
        return fastest_summary(read_trace(path).lanes)
    except SpecDiffError:
        return None


def linked_race(query: str) -> str:
    """The race that a link names; empty: none that is kept. Of several it is the first: each takes time to read."""
    values = parse_qs(query)
    names = [*values.get("run", [])[:1], *values.get("trace", [])[:1]]
    return next(filter(_read, names), "")


def with_tags(page: bytes, query: str, base: str) -> bytes:
    """A page of Gradio's at the address ``base``, with our meta tags for sites that show links."""
    own = linked_race(query)
    name = own or next((one["url"].rsplit("/", 1)[-1] for one in recordings(RECORDINGS)), "")
    race = _read(name)
    title, sentence = (race.title, race.sentence) if race and own else ("SpecDiff Lab", LEAD)
    values = {"og:type": "website", "og:site_name": "SpecDiff Lab", "og:title": title, "og:description": sentence}
    values |= {"og:image": f"{base}cards/{quote(name)}.png"} if race else {}
    tags = [element("meta", property=key, content=value) for key, value in values.items()]
    tags.append(element("meta", name="twitter:card", content="summary_large_image"))
    return _META.sub(b"", page).replace(b"<head>", "".join(["<head>", *tags]).encode(), 1)


def card(request: Request) -> Response:
    """The handler of ``/cards/NAME.png``: the picture of a run or a recording."""
    summary = _read(request.path_params["name"])
    if summary is None:
        return PlainTextResponse("There is no such run.", 404)
    return Response(picture(summary), media_type="image/png", headers={"Cache-Control": "max-age=86400"})


def _font(size: int, weight: int = 400) -> ImageFont.FreeTypeFont:
    font = ImageFont.truetype(FONT, size)
    font.set_variation_by_axes([weight])
    return font


@lru_cache(maxsize=64)
def picture(summary: Summary) -> bytes:
    """The staged round as a PNG: the prompt, the guesses with their marks, and the number."""
    colours = {role: light for role, (light, _) in ROLES.items()}
    image = Image.new("RGB", SIZE, colours["card"])
    draw = ImageDraw.Draw(image)

    def line(top: int, text: str, size: int, role: str = "muted", weight: int = 400) -> None:
        font = _font(size, weight)
        draw.text((64, top), _cut(draw, text, font, 1072), colours[role], font)

    line(52, LEAD, 33, "ink", 640)
    line(122, summary.prompt, 28)
    shown = summary.guesses[:8]
    width = min(170, (1072 - 14 * (len(shown) - 1)) // len(shown))
    for i, (words, mark) in enumerate(shown):
        left, top, own = 64 + i * (width + 14), 200, mark == "✕"
        role = "residual" if own else "draft" if mark else "edge"
        fill = colours[f"{role}-tint" if mark else "card"]
        draw.rounded_rectangle((left, top, left + width, top + 112), 16, fill, colours[role], 4 if mark else 2)
        text, font = summary.own if own else words, _font(27, 620)
        text, ink = _cut(draw, text, font, width - 20), colours["ink" if mark else "muted"]
        draw.text((left + width / 2, top + 42), text, ink, font, anchor="ma")
        _mark(draw, mark, (left + width - 30, top + 12), colours[role])
    line(340, summary.sentence, 25, "ink")
    if summary.speedup:
        draw.text((60, 400), f"{summary.speedup:.2f}×", colours["draft"], _font(120, 660))
        line(545, "the big model’s own speed", 24)
    line(584, f"SpecDiff Lab · {summary.model} · {summary.device}", 20)
    out = BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


def _cut(draw: ImageDraw.ImageDraw, text: str, font: ImageFont.FreeTypeFont, width: float) -> str:
    """The beginning of a text on one line; no more of a long one is measured than could fit."""
    text = " ".join(text.split())[:LINE]
    while text and draw.textlength(text, font) > width:
        text = text.removesuffix("…")[:-1] + "…" if len(text) > 1 else ""
    return text


def _mark(draw: ImageDraw.ImageDraw, mark: str, place: tuple[int, int], colour: str) -> None:
    """A tick or a cross, which the typeface lacks."""
    x, y = place
    if mark == "✓":
        draw.line([(x, y + 9), (x + 6, y + 15), (x + 17, y + 2)], colour, 4)
    elif mark:
        draw.line([(x, y + 2), (x + 14, y + 16)], colour, 4)
        draw.line([(x, y + 16), (x + 14, y + 2)], colour, 4)
