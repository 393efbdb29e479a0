"""Cards tell what the run's own log says, and never forget the credits."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from specdiff_core.schema.history import HISTORY, Training, read_history
from specdiff_core.schema.pairs import ASSETS, EMBEDDED
from specdiff_core.train.card import OWN_CORPUS, Card, render_card, training_facts, write_card
from specdiff_core.train.cards import last_scores


def log(folder: Path, steps: int, scores: dict[str, float]) -> None:
    folder.mkdir(parents=True)
    lines = [{"kind": "TrainStep", "step": s, "tokens": 10 * s, "seconds": 2.0 * s} for s in range(1, steps + 1)]
    lines.append({"kind": "Saved", "step": steps, "path": "checkpoint.pt"})
    lines.append({"kind": "EvalStep", "step": steps, "scores": scores, "seconds": 2.0 * steps})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_phases_are_added_up_and_the_last_scores_win(tmp_path: Path) -> None:
    log(tmp_path / "a", 3, {"tau8/math": 1.0})
    log(tmp_path / "b", 5, {"tau8/math": 2.5, "soft/math": 9.0})
    assert training_facts(tmp_path / "a", tmp_path / "b") == (8, 80, 16.0)
    assert last_scores([tmp_path / "a", tmp_path / "b"], "tau8/") == {"math": 2.5}


def test_steps_that_were_lost_do_not_count(tmp_path: Path) -> None:
    log(tmp_path / "run", 4, {})
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "TrainStep", "step": 5, "tokens": 50, "seconds": 9.0}) + "\n")  # then cut off
    assert training_facts(tmp_path / "run") == (4, 40, 8.0)


def test_a_card_names_sources_licences_and_numbers(tmp_path: Path) -> None:
    card = Card(
        name="Llama-Tales-Test",
        summary="A test.",
        shape="Small.",
        history=[
            Training(
                steps=steps,
                tokens=10 * steps,
                seconds=60.0,
                hardware="two threads",
                commit="abc",
                corpus=OWN_CORPUS,
                seed=0,
                command="python -m specdiff_core train target",
            )
            for steps in (4, 5)
        ],
        scores={"math": 1.25, "mean": 1.25},
        score_name="Held-out loss",
        samples={"math": "2 + 2⟶ 4"},
    )
    text = write_card(card, tmp_path).read_text(encoding="utf-8")
    assert read_history(tmp_path / HISTORY) == tuple(card.history)
    for part in (
        "90 tokens of text seen",
        "Built with Llama",
        "CC-BY-SA 4.0",
        "| math | 1.250 |",
        "4 steps, 40 tokens",
        "2 + 2⟶ 4",
    ):
        assert part in text
    other = dataclasses.replace(card, history=[dataclasses.replace(run, corpus="123") for run in card.history])
    told = render_card(other)
    assert "Llama" not in told and "CC-BY" not in told and "name its sources" in told


@pytest.mark.parametrize("role", ["target", "block", "mdlm"])
def test_every_shipped_model_has_its_card(role: str) -> None:
    folder = Path(EMBEDDED.target) if role == "target" else Path(EMBEDDED.drafter(role).source)
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert "Built with Llama" in text and "python -m specdiff_core train" in text and "| mean |" in text
    assert str(ASSETS.parent) not in text
