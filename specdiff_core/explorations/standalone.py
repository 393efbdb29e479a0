"""An answer as files that need no page: its table as CSV, and all of it as HTML, whose charts can be saved as pictures
in the browser."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from specdiff_core.explorations.base import Board, Report
from specdiff_core.explorations.figures import Figure
from specdiff_core.explorations.wording import escaped, speedup
from specdiff_core.schema.palette import ROLES


def as_csv(rows: list[dict[str, Any]]) -> str:
    """``rows`` as a CSV file. A list of numbers is one cell, separated by spaces; text that a
    spreadsheet would run as a formula gets an apostrophe in front."""
    file = io.StringIO()
    writer = csv.DictWriter(file, dict.fromkeys(name for row in rows for name in row))
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return file.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def painted(value: Any) -> Any:
    """Plotly JSON with colours of a light page in place of roles."""
    if isinstance(value, str) and value.startswith("@") and value[1:] in ROLES:
        return ROLES[value[1:]][0]
    if isinstance(value, Mapping):
        return {name: painted(item) for name, item in value.items()}
    return [painted(item) for item in value] if isinstance(value, list | tuple) else value


def themed(figure: Figure) -> Any:
    """A figure as Plotly draws it alone, on white."""
    import plotly.graph_objects as graphs  # type: ignore[import-untyped]  # Plotly has no types

    grid = {"gridcolor": ROLES["line"][0], "zeroline": False, "automargin": True}
    look = {"xaxis": grid, "yaxis": grid, "paper_bgcolor": "#fff", "plot_bgcolor": "#fff", "margin": {"t": 60}}
    look |= {"legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}}
    layout = painted(figure.layout) | {"title": figure.title, "template": {"layout": look}}
    return graphs.Figure({"data": painted(figure.data), "layout": layout}, skip_invalid=True)


def html_page(title: str, report: Report) -> str:
    """An answer with its tables and figures as one HTML file that opens from disk."""
    drawn, sliders = ([figure for figure in report.figures if getattr(figure, name)] for name in ("data", "formula"))
    notes = [*report.notes, *(f"“{figure.title}” has sliders, so only the page can show it." for figure in sliders)]
    words = "".join(f"<p>{escaped(note)}</p>" for note in notes)
    tables = "".join(map(_table, report.boards))
    form: dict[str, Any] = {"full_html": False, "config": {"responsive": True}, "default_height": 450}
    sections = "".join(
        f"<section><p>{escaped(_caption(figure.hint, figure.when))}</p>"
        f"{themed(figure).to_html(include_plotlyjs=figure is drawn[0], **form)}</section>"
        for figure in drawn
    )
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>{escaped(title)}</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}}
section p{{margin:0}} table{{margin:1rem 0}} caption,td{{text-align:left;padding-right:1rem}}</style>
<h1>{escaped(title)}</h1><p><strong>{escaped(report.answer)}</strong></p>{words}{tables}{sections}</html>
"""


def _table(board: Board) -> str:
    lines = [["method", "speed-up", *(head for head, *_ in board.columns)]]
    for row in board.rows:
        speed = f"{speedup(row['value'])}, {row['said']}"
        lines.append([f"{row['label']}, {row['words']}", speed, *(words for words, _ in row["cells"])])
    body = "".join(f"<tr>{''.join(f'<td>{escaped(cell)}</td>' for cell in line)}</tr>" for line in lines)
    return f"<table><caption>{escaped(_caption(board.title, board.when))}</caption>{body}</table>"


def _caption(words: str, when: Mapping[str, str]) -> str:
    """What is shown, and for which values of the page's switches."""
    return "; ".join(filter(None, (words, *(f"{name} {value}" for name, value in when.items()))))
