"""The methods' cards: description, formulas, papers, and training cost from the history."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlencode

from latex2mathml.converter import convert

from app.content.html import element, escape
from specdiff_core.schema.errors import WeightsError
from specdiff_core.schema.history import HISTORY, read_history
from specdiff_core.schema.methods import BASELINE, Formula, Method, Paper, methods_of
from specdiff_core.schema.pairs import DrafterSpec, find_pair
from specdiff_core.schema.settings import DecodeConfig


def cost(spec: DrafterSpec) -> str:
    """The training cost of a drafter from the history beside its weights, including earlier runs
    that it started from."""
    if not spec.source:
        return "None: it has no weights." if spec.drafting == "copy" else "None: there is no drafter."
    path = Path(spec.source) / HISTORY
    try:
        runs = read_history(path)
    except WeightsError:
        return f"Unknown: the {HISTORY} beside the weights cannot be read."
    if not runs:
        return f"Unknown: there is no {HISTORY} beside the weights."
    steps, tokens, seconds = (sum(getattr(run, name) for run in runs) for name in ("steps", "tokens", "seconds"))
    machines = dict.fromkeys(re.sub(r"^1 threads", "1 thread", run.hardware.replace("(R)", "")) for run in runs)
    count = "one run" if len(runs) == 1 else f"{len(runs)} runs"
    lasted = f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
    return f"{steps:,} steps, {tokens / 1e6:.1f} M tokens, {lasted} in {count} on {' and '.join(machines)}."


def link(method: Method) -> str:
    """A link to the Live tab with this method's settings."""
    base = DecodeConfig()
    chosen = method.config(base).to_dict()
    return "?" + urlencode(
        {name: value for name, value in chosen.items() if name == "drafter" or value != base.to_dict()[name]}
    )


def formula(equation: Formula) -> str:
    """A formula as MathML, with a text alternative. Its parts, separated by ``quad`` in LaTeX, wrap
    on narrow screens. Two bars enclose what is between them, without a space."""
    latex = re.sub(r"\|([^|]+)\|", r"\\left|\1\\right|", equation.latex)
    parts = (convert(part, display="block") for part in re.split(r"\\q?quad", latex))
    inner = "".join(part[part.index(">") + 1 : -len("</math>")] for part in parts)
    return element("math", inner, alttext=equation.words, aria_label=equation.words, display="block")


def letters(words: str) -> str:
    """Words with letters of a formula as HTML; ``α_j`` gets a subscript, and ``α^(n)`` a superscript."""
    return re.sub(r"\^\(([^()]*)\)", r"<sup>\1</sup>", re.sub(r"_(\w)", r"<sub>\1</sub>", escape(words)))


def typeset(formulas: Iterable[Formula], meanings: str) -> str:
    """Formulas, and below them what their letters mean."""
    caption = element("figcaption", letters(meanings))
    return element("figure", *map(formula, formulas), caption, class_="sd-formula", tabindex="0")


def card(method: Method, pair: str) -> str:
    """One method of a pair."""
    spec = find_pair(pair).drafter_for(method.drafter)
    assert spec is not None, "the methods of a pair have its drafters"
    use = element("a", text="Use in Live", href=link(method), class_="sd-use", aria_label=f"Use {method.label} in Live")
    facts = element(
        "dl",
        *(element("dt", text="Why it is exact"), element("dd", text=method.exact)),
        *(element("dt", text=f"Training cost ({find_pair(pair).short})"), element("dd", text=cost(spec))),
    )
    return element(
        "article",
        element("header", element("h3", text=method.label), *([] if method.name == BASELINE else [use])),
        element("p", "; ".join(map(_paper, method.papers)), class_="sd-papers"),
        element("p", text=method.about),
        typeset(method.formulas, method.letters),
        facts,
        class_="sd-lesson sd-method",
        id=f"method-{method.name}",
    )


def _paper(paper: Paper) -> str:
    if not paper.arxiv:
        return element("span", text=paper.title)
    address = f"https://arxiv.org/abs/{paper.arxiv}"
    link = element("a", text=f"arXiv {paper.arxiv}", href=address, rel="noreferrer", target="_blank")
    return element("span", link, text=f"{paper.title}, ")


def section(pair: str = "embedded") -> str:
    """All methods of a pair."""
    lead = (
        "Every method is a setting of the same loop on the same target. E is the expected number "
        "of tokens per round; the passes of a round are its cost."
    )
    return element(
        "section",
        element("h2", text="Methods", id="sd-methods"),
        element("p", text=lead, class_="sd-lead"),
        element("div", *(card(method, pair) for method in methods_of(pair)), class_="sd-methods"),
        class_="sd-chapter",
        aria_labelledby="sd-methods",
    )
