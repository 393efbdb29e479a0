"""Writes a model's card: what it is, its training, its scores and the commands that made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from specdiff_core.provenance import Provenance
from specdiff_core.schema.history import HISTORY, Training, write_history
from specdiff_core.train.curve import read_curve, run_commands, totals

OTHER_CREDITS = "Trained on a corpus of your own. Name its sources and licences before sharing."


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    name: str
    summary: str
    shape: str
    history: Sequence[Training]  # every run since the first weights, in order
    scores: Mapping[str, float]
    score_name: str
    bounds: Mapping[str, Sequence[float]] = field(default_factory=dict)  # of scores: 95 % intervals over prompts
    notice: str = ""  # what its text asks for
    credits: str = OTHER_CREDITS
    samples: Mapping[str, str] = field(default_factory=dict)  # flavour -> text, prompt included
    tags: tuple[str, ...] = ()
    licence: str = "mixed-see-card"  # its name on the hub, beside "other"
    base_model: str = ""  # a hub repository


def training_record(run: Path, facts: Provenance, device: torch.device, *, corpus: str, seed: int) -> Training:
    """The record of the run in a folder; ``facts`` are those of when it began."""
    steps, tokens, seconds = totals(run)
    return Training(
        steps=steps,
        tokens=tokens,
        seconds=seconds,
        hardware=facts["gpu"] if device.type == "cuda" else _processor(facts),
        commit=facts["commit"] + (" with local changes" if facts["dirty"] else ""),
        corpus=corpus,
        seed=seed,
        command="\n".join(run_commands(run)),
        curve=read_curve(run),
    )


def _processor(facts: Provenance) -> str:
    return f"{facts['threads']} thread{'s' * (facts['threads'] != 1)} of {facts['cpu']}"


def render_card(card: ModelCard) -> str:
    """The card as Markdown with hub front matter."""
    tokens = sum(run.tokens for run in card.history)
    tags = "\n".join(f"- {tag}" for tag in ("specdiff", "speculative-decoding", *card.tags))
    runs = "\n".join(
        f"- {run.steps:,} steps, {run.tokens:,} tokens, {run.seconds / 60:.0f} minutes of training "
        f"on {run.hardware}; seed {run.seed}, corpus fingerprint `{run.corpus}`"
        + (f", commit `{run.commit}`:" if run.commit else ":")
        + "".join(f"\n  `{line}`" for line in run.command.splitlines())
        for run in card.history
    )
    base = f"base_model: {card.base_model}\n" if card.base_model else ""
    table = "\n".join(
        f"| {name} | {value:.3f} | {' to '.join(f'{bound:.3f}' for bound in card.bounds.get(name, ()))} |"
        for name, value in card.scores.items()
    )
    parts = [
        f"---\nlicense: other\nlicense_name: {card.licence}\n{base}language: en\ntags:\n{tags}\n---",
        f"# {card.name}\n\n{card.summary}" + (f"\n\n{card.notice}" if card.notice else ""),
        f"## Shape and training\n\n{card.shape}\n\n{tokens:,} tokens of text seen, in this order "
        f"(a run begins with the weights before it):\n\n{runs}",
        *([f"## {card.score_name}\n\n| flavour | value | 95 % interval |\n|---|---|---|\n{table}"] if table else []),
        f"## Data and credits\n\n{card.credits}",
    ]
    if card.samples:
        samples = "\n\n".join(f"**{name}**\n\n```text\n{text}\n```" for name, text in card.samples.items())
        parts.append(f"## Samples (greedy, unseen prompts)\n\n{samples}")
    return "\n\n".join(parts) + "\n"


def write_card(card: ModelCard, folder: Path) -> Path:
    """Put the card, and the history of the runs on it, beside the weights."""
    write_history(folder / HISTORY, card.history)
    path = folder / "README.md"
    path.write_text(render_card(card), encoding="utf-8")
    return path
