"""Temperatures of target and drafter, and the drafter's calibration."""

from __future__ import annotations

import math
from operator import mul

import pytest
import torch
from exploring import HEATED, explore

from specdiff_core.engine import Engine
from specdiff_core.explorations.standalone import html_page
from specdiff_core.explorations.temperature import Temperature, reliability, shortened
from specdiff_core.schema import events
from specdiff_core.schema.fields import parse

pytestmark = pytest.mark.usefixtures("few_passes")


def test_every_pair_of_temperatures(engine: Engine) -> None:
    heated = HEATED | {"flavours": "stories", "draft_temperatures": "0,1"}
    final = explore(Temperature, engine, per_flavour=1, **heated)
    rows = {(row["temperature"], row["draft_temperature"]): row for row in final.result.rows}
    assert list(rows) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(row["prompts"] == 1 for row in rows.values())
    drawn = [(one["temperature"], one["draft_temperature"]) for one in final.result.facts["reliability"]]
    assert drawn == [(0, 1), (1, 1)]
    places = final.result.facts["places"]
    assert len(places) == 1, "12 tokens of a text: one place"
    assert all(
        sum(map(mul, one["counts"], map(math.exp, one[side]))) == pytest.approx(1, abs=0.01)
        for one in places
        for side in "pq"
    )
    (figure,) = (one for one in final.result.report.figures if one.formula == "matched")
    assert figure.title in html_page("", final.result.report)
    assert [slider.name for slider in figure.sliders] == ["target", "drafter"]
    assert set(final.races) == {"0/0", "0/1", "1/0", "1/1"}


@pytest.mark.parametrize(("warm", "cool"), [(1.0, 1.0), (0.7, 1.3), (1.5, 0.4)])
def test_shortened_distributions_keep_their_acceptance_at_other_temperatures(warm: float, cool: float) -> None:
    generator = torch.Generator().manual_seed(5)
    p, q = (torch.randn(3000, generator=generator, dtype=torch.float64).mul(2.5).softmax(-1) for _ in range(2))
    q = (0.8 * p.log() + 0.4 * q.log()).softmax(-1)  # a drafter that resembles the target
    groups = shortened(p, q)
    assert sum(groups["counts"]) == 3000 and len(groups["counts"]) < 48
    counts = torch.tensor(groups["counts"])

    def heated(side: str, degree: float) -> torch.Tensor:
        return (torch.tensor(groups[side]).double() / degree + counts.log()).softmax(-1)

    exact = torch.minimum((p.log() / warm).softmax(-1), (q.log() / cool).softmax(-1)).sum()
    assert torch.minimum(heated("p", warm), heated("q", cool)).sum() == pytest.approx(float(exact), abs=0.01)


def test_the_fall_with_temperature_has_its_intervals_and_calibration_a_line_for_each_temperature() -> None:
    degrees, ends = (0.0, 0.4, 0.7, 1.0), {0.0: ("2.11", "2.57"), 1.0: ("1.13", "1.59")}
    rows = [
        {"temperature": degree, "draft_temperature": degree, "speedup": 2.5 - degree, "tau": 4 - degree, "prompts": 8,
         "alpha": 0.5, "race": f"{degree:g}/{degree:g}", "low": low, "high": high}
        for degree in degrees for low, high in [map(float, ends.get(degree, ("1", "3")))]
    ]  # fmt: skip
    bins = [{"tests": 9, "q": 0.5, "p": 0.4, "accepted": 0.6}]
    facts = {
        "reliability": [
            {"temperature": degree, "draft_temperature": draft, "tests": 9, "ece": 0.1, "bins": bins}
            for degree in degrees
            for draft in (0.4, 1.0)
        ]
    }
    report = parse(Temperature, {}).report(rows, facts)
    assert all(end in report.answer for both in ends.values() for end in both)
    certain = rows[-1] | {"draft_temperature": 0.0, "alpha": 0.39}
    (note,) = (note for note in parse(Temperature, {}).report([*rows, certain], facts).notes if "calibration" in note)
    assert "0.61 at worst (target 1, drafter 0)" in note
    calibration = next(figure for figure in report.figures if figure.key == "calibration")
    ideal, *lines = calibration.data
    assert ideal["y"] == [0, 1] and [line["y"] for line in lines] == [[0.4]] * len(degrees)


def test_reliability_is_counted_by_confidence() -> None:
    def tested(q: float, p: float, accepted: bool) -> events.Test:
        return events.Test(
            position=0, id=1, p=p, q=q, threshold=min(1.0, p / q), draw=0.5, accepted=accepted, kind="ratio"
        )

    tests = [(0.05, 0.05, True), (0.95, 0.5, False), (0.95, 0.7, True), (1.0, 1.0, True)]
    found = reliability([tested(*test) for test in tests])
    assert [bin["tests"] for bin in found["bins"]] == [1, 3]
    assert found["bins"][1]["accepted"] == pytest.approx(2 / 3)
    assert found["ece"] == pytest.approx(3 * abs((0.95 + 0.95 + 1.0) / 3 - (0.5 + 0.7 + 1.0) / 3) / 4)
