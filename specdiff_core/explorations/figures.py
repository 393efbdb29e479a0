"""Figures as Plotly JSON with roles for colours: ``"@draft"`` is blue on a light page, light blue on a dark one.

An exploration describes data, axes and labels; the page (``app/static/views/figure.js``) and
:func:`html_page` add a theme.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from specdiff_core.explorations.wording import Row, escaped
from specdiff_core.schema.methods import METHODS
from specdiff_core.schema.palette import ROLES


class Slider(msgspec.Struct):
    """A number that a visitor sets for a figure with a formula."""

    name: str
    label: str
    title: str
    low: float
    high: float
    step: float
    value: float


class Figure(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One panel. ``customdata`` of a mark: what a click opens (a race or None), then its text. The page computes the
    data of a figure with a ``formula`` (``app/static/state/formulas.js``) from the answer's numbers and ``sliders``."""

    key: str
    title: str
    hint: str = ""
    opens: str = ""  # describes what a click opens
    wide: bool = False  # takes a row of its own
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {}
    empty: str = ""  # shown instead while there is no data
    when: dict[str, str] = {}  # switch of the report -> the value at which this figure is shown
    formula: str = ""
    sliders: list[Slider] = []
    race: str = ""  # the run that the formula is about


class Style(msgspec.Struct, frozen=True):
    """How a method or a line is drawn: never distinguished by colour alone."""

    colour: str
    mark: str
    dash: str
    label: str


SYMBOLS = (
    "line-ns circle square triangle-up diamond triangle-down star cross hexagon2 pentagon star-diamond triangle-right "
    "triangle-left x hexagram"
)
GLYPHS = dict(zip(SYMBOLS.split(), "┆●■▲◆▼★✚⬢⬟✦▶◀✖✶", strict=True))
"""Plotly symbol -> the character that looks like it."""
USES = {
    "window": ("solid", ""),
    "tree": ("dash", "/"),
    "window/auto": ("dashdot", "-"),
    "tree/auto": ("15px,3px,2px,3px", "|"),
    "drafts/self": ("dot", "."),
    "drafts/trie": ("longdash", "x"),
    "drafts/multi_round": ("longdashdot", "\\"),
}
"""How a drafter is used (:attr:`BenchSetting.use`) -> dash of a line, hatch of a bar; the players draw the same."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
MARKS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "pentagon")
HATCHES = ("/", ".", "\\", "x", "-")
KNOWN = {method.name: method for method in METHODS}
LANES = sum(role.startswith("lane-") for role in ROLES)


def styles(names: Iterable[str]) -> dict[str, Style]:
    """A style for each name: a method's own colour and mark, otherwise the next free ones."""
    by_name = {}
    for i, name in enumerate(dict.fromkeys(names)):
        colour, mark, label = f"@lane-{i % LANES + 1}", MARKS[i % len(MARKS)], str(name)
        if method := KNOWN.get(name):
            colour, mark, label = f"@{method.colour}", method.mark, method.short
        by_name[name] = Style(colour, mark, DASHES[i % len(DASHES)], label)
    return by_name


def trace(
    name: str,
    x: Iterable[Any],
    y: Iterable[Any],
    colour: str,
    *,
    dash: str = "",
    mark: Any = "",
    words: Iterable[Any] | None = None,
    hover: str = "",
    size: float = 7,
    width: float = 1.8,
    **attrs: Any,
) -> dict[str, Any]:
    """A line if there is a ``dash``, and marks if there is a ``mark`` or a list of them. Without a
    name it is not in the legend.

    Args:
        words: for each mark, what a click opens, and its text.
        hover: the end of that text, as a Plotly template.
    """
    plot = {
        "type": "scatter",
        "mode": "+".join([*(["lines"] if dash else []), *(["markers"] if mark else [])]),
        "x": list(x),
        "y": list(y),
        **({"name": name} if name else {"showlegend": False}),
    }
    if dash:
        plot["line"] = {"color": colour, "width": width, "dash": dash}
    if mark:
        thin = isinstance(mark, str) and mark.startswith("line")
        outline = {"line": {"color": colour, "width": 2}} if thin else {}
        plot["marker"] = {"symbol": mark, "size": size, "color": colour, **outline}
    if words is not None:
        plot["customdata"], hover = list(words), "%{customdata[1]}" + hover
    return plot | ({"hovertemplate": f"{hover}<extra></extra>"} if hover else {"hoverinfo": "skip"}) | attrs


def lines(
    rows: Iterable[Row],
    by: str,
    x: str,
    y: str,
    words: Any,
    *,
    style: Mapping[str, Style] | None = None,
    name: str = "{}",
    whiskers: bool = False,
) -> list[dict[str, Any]]:
    """A line for each value of the field ``by``; ``words(row)`` is the text of a mark. Rows without
    ``y`` are skipped."""
    plotted = [row for row in rows if row.get(y) is not None]
    style = style or styles(str(row[by]) for row in plotted)
    traces = []
    for value in dict.fromkeys(row[by] for row in plotted):
        group, look = [row for row in plotted if row[by] == value], style[str(value)]
        errors: dict[str, Any] = {"error_y": whisker(group, y, look.colour)} if whiskers else {}
        points = ([row[x] for row in group], [row[y] for row in group])
        hovers = ([row.get("race"), words(row)] for row in group)
        label = name.format(escaped(look.label))
        traces.append(trace(label, *points, look.colour, dash=look.dash, mark=look.mark, words=hovers, **errors))
    return traces


def plane(rows: Sequence[Row], look: Callable[[Row], Style], words: Callable[[Row], str], **fields: Any) -> Figure:
    """τ against the cost of a round in vanilla tokens (``tau``, ``cost``), with lines of equal speed-up; ``fields``:
    fields of the figure."""
    right, top = (1.12 * max([least, *(row[field] for row in rows)]) for least, field in ((1.5, "cost"), (3, "tau")))
    data, labels = [], []
    for speed in (1, 1.5, 2, 3, 4, 6):
        if speed * 0.8 < top:
            x, y = min(right, top / speed), min(top, right * speed)
            colour, dash = ("@residual", "dash") if speed == 1 else ("@line", "solid")
            data.append(trace("", [0, x], [0, y], colour, dash=dash, width=1.6 if speed == 1 else 1))
            corner = {"x": x, "y": y, "xanchor": "right", "yanchor": "top", "showarrow": False}
            labels.append(corner | {"text": f"{speed:g}×", "font": {"size": 11, "color": "@muted"}})
    for row in rows:
        style, custom = look(row), [[row.get("race"), words(row)]]
        hover = "<br>τ = %{y:.2f}, cost %{x:.2f} vanilla tokens"
        at = ([row["cost"]], [row["tau"]])
        data.append(trace(style.label, *at, style.colour, mark=style.mark, size=10, words=custom, hover=hover))
    return Figure(
        title="What a round yields and what it costs",
        opens="a mark opens its race",
        data=data,
        layout=axes(
            "cost of a round, in vanilla tokens",
            "τ, tokens per round",
            xaxis={"range": [0, right]},
            yaxis={"range": [0, top]},
            annotations=labels,
            showlegend=True,
        ),
        **fields,
    )


def whisker(rows: Sequence[Row], y: str, colour: str = "@ink") -> dict[str, Any]:
    """Error bars from the fields ``low`` and ``high``, if a row has them."""
    ends = [(row[y], row.get("low"), row.get("high")) for row in rows]
    return {
        "type": "data",
        "symmetric": False,
        "array": [0 if high is None else high - value for value, _, high in ends],
        "arrayminus": [0 if low is None else value - low for value, low, _ in ends],
        "color": colour,
        "thickness": 1,
        "width": 2,
    }


def bars(x: Sequence[Any], y: Sequence[Any], name: str, colour: str, hatch: str = "", **attrs: Any) -> dict[str, Any]:
    """Bars of one colour and hatch."""
    pattern = {"shape": hatch, "fgcolor": colour, "bgcolor": "@card", "size": 5, "solidity": 0.55}
    look: dict[str, Any] = {"color": "@card" if hatch else colour, "line": {"color": colour, "width": 1}}
    look |= {"pattern": pattern} if hatch else {}
    hover = {"hovertemplate": "%{customdata[1]}<extra></extra>"} if "customdata" in attrs else {}
    return {"type": "bar", "name": name, "x": list(x), "y": list(y), "marker": look, **hover, **attrs}


def heat(
    rows: Sequence[Row],
    x: tuple[str, str],
    y: tuple[str, str],
    field: str,
    words: Callable[[Row], str],
    *,
    star: Row | None = None,
    around_one: bool = True,
    **fields: Any,
) -> Figure:
    """A field of rows as a heat map with numbers, by a field for each axis, given with its title; empty while no cell
    has a number. ``around_one``: slower is orange, faster is blue; ``fields``: of the figure."""
    (across, x_title), (up, y_title) = x, y
    columns, levels = (sorted({row[side] for row in rows}) for side in (across, up))
    fields |= {"layout": axes(x_title, y_title, xaxis=CATEGORY, yaxis=CATEGORY)}
    at = {(row[across], row[up]): row for row in rows}

    def cell(row: Row | None) -> tuple[float | None, str, list[str | None]]:
        """The number, the text and the custom data of a row."""
        number = None if row is None else row.get(field)
        if row is None or number is None:
            why = escaped((row or {}).get("failed", ""))
            return None, "!" if why else "", [None, why]
        return number, f"{number:.2f}{' ★' if row is star else ''}", [row.get("race"), words(row)]

    cells = [[cell(at.get((column, level))) for column in columns] for level in levels]
    numbers = [number for line in cells for number, _, _ in line if number is not None]
    if not numbers:
        return Figure(**fields)
    least, most = min(numbers), max(numbers) + 1e-9
    scale: list[list[Any]] = [[0, "@draft-tint"], [1, "@map-good"]]
    if around_one:
        least, most = min(0.7, least), max(1.3, most)
        scale = [[0, "@map-bad"], [min(0.98, max(0.02, (1 - least) / (most - least))), "@card"], [1, "@map-good"]]
    z, text, custom = ([[entry[part] for entry in line] for line in cells] for part in range(3))
    names = [[f"{value:g}" for value in side] for side in (columns, levels)]
    look: dict[str, Any] = {"textfont": {"size": 12, "color": "@ink"}, "zmin": least, "zmax": most}
    look |= {"hoverongaps": False, "customdata": custom, "hovertemplate": "%{customdata[1]}<extra></extra>"}
    return Figure(data=[heatmap(names[0], names[1], z, text, scale, **look)], **fields)


def heatmap(x: Sequence[Any], y: Sequence[Any], z: Any, text: Any, scale: Any, **attrs: Any) -> dict[str, Any]:
    """Cells with a text; ``scale``: Plotly's colour scale of their numbers ``z``."""
    look = {"texttemplate": "%{text}", "colorscale": scale, "showscale": False, "xgap": 2, "ygap": 2}
    return {"type": "heatmap", "x": list(x), "y": list(y), "z": z, "text": text, **look, **attrs}


def by_position(curves: Iterable[tuple[Style, Sequence[float | None]]], **fields: Any) -> Figure:
    """α by position; None: it was seldom or never reached. ``fields``: of the figure."""
    data = []
    for look, alphas in curves:
        line: dict[str, Any] = {"dash": look.dash, "mark": look.mark, "hover": "α at %{x}: %{y:.2f}"}
        data.append(trace(escaped(look.label), range(1, len(alphas) + 1), alphas, look.colour, **line))
    layout = axes("position in the draft", "α<sub>j</sub>", xaxis={"dtick": 1}, yaxis={"range": [0, 1.04]})
    return Figure(
        key="positions", title="Acceptance by position", data=data, layout=layout | {"showlegend": True}, **fields
    )


ONE = {
    "type": "line",
    "xref": "paper",
    "x0": 0,
    "x1": 1,
    "y0": 1,
    "y1": 1,
    "line": {"color": "@target", "width": 1.2, "dash": "dot"},
}
"""Vanilla's line in a figure of speed-ups."""
CATEGORY = {"type": "category", "showgrid": False}


def axes(x: str, y: str, **layout: Any) -> dict[str, Any]:
    """A layout with axis titles; ``xaxis`` and ``yaxis`` add to an axis, everything else to the layout."""
    named = {"xaxis": {"title": x} | layout.pop("xaxis", {}), "yaxis": {"title": y} | layout.pop("yaxis", {})}
    return named | layout


FROM_ZERO = {"rangemode": "tozero"}


def speeds(x: str = "", **layout: Any) -> dict[str, Any]:
    """The layout of a figure of speed-ups, with vanilla's line."""
    return axes(x, "speed-up over vanilla, ×", yaxis=FROM_ZERO, shapes=[ONE], **layout)
