"""``python -m app.export``: what goes into an export, how large it is, and what it refuses."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from app_fakes import FakeDecoder

from app import export
from app.content.recordings import RECORDINGS
from app.content.workshop import CLOSING, WORKSHOP
from app.first_load import PLOTLY
from specdiff_core.schema.errors import SpecDiffError, TraceError
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import read_trace, write_trace

SHIPPED = RECORDINGS / "math-four-denoising-steps.jsonl.gz"
LIMIT = 8_000_000
"""Bytes of an export in one file."""


def data_of(path: Path) -> dict[str, Any]:
    """What the script of a written page reads."""
    found = re.search(r'id="sd-data">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    values: dict[str, Any] = json.loads(found[1])
    return values


def titles(values: dict[str, Any], tab: str) -> list[str]:
    return [one["title"] for one in values["tabs"][tab]["recordings"]]


def test_everything_that_ships_fits_into_eight_megabytes(tmp_path: Path) -> None:
    chosen = export.choose()
    (whole,) = export.write(tmp_path / "lab.html", chosen)
    assert whole.stat().st_size < LIMIT
    page, library = export.write(tmp_path / "out", chosen)
    assert library.read_bytes() == PLOTLY.read_bytes()
    values = data_of(page)
    shipped = {path.name for path in RECORDINGS.glob("*.jsonl.gz")}
    assert {one["url"].split("/")[-1] for one in values["tabs"]["live"]["recordings"]} == shipped
    assert len(titles(values, "race")) == len([*(RECORDINGS / "race").glob("*.jsonl.gz")])
    assert [one["name"] for one in values["tabs"]["learn"]["lessons"]] == [
        lesson.name for lesson in (*WORKSHOP, CLOSING)
    ]
    for tab in ("live", "race"):
        for one in values["tabs"][tab]["recordings"]:
            assert read_trace(base64.b64decode(values["files"][one["url"]])).title == one["title"]
    stems = [stem for recorded in values["tabs"]["explore"]["recorded"].values() for stem in recorded]
    assert stems and all(f"explore/{stem}.json" in values["files"] for stem in stems)
    packed = [base64.b64decode(values["files"][f"explore/{stem}.json"]) for stem in stems]
    races = [json.loads(gzip.decompress(answer))["files"] for answer in packed]
    assert any(races) and all(f"explore/{file}" in values["files"] for files in races for file in files.values())
    assert "compare/compare.json" in values["files"]
    assert str(Path(export.__file__).parents[1]) not in page.read_text(encoding="utf-8"), (
        "it names a folder of this disk"
    )


def test_chosen_traces_come_first_and_lessons_bring_what_they_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "_answers", tuple)  # reading them takes seconds
    lesson = next(one for one in WORKSHOP if one.watch.trace)
    own = [tmp_path / name / lesson.watch.trace for name in ("a", "b")]
    config = DecodeConfig(max_new_tokens=20)
    for path in own:
        write_trace(path, {"drafted": list(FakeDecoder().decode("Once", config))}, title=path.parent.name)
    several = tmp_path / "100 % <b>.jsonl"
    lanes = {name: list(FakeDecoder().decode("</script><script>", config)) for name in ("vanilla", "x", "y")}
    write_trace(several, lanes, title="</script><script>alert(1)")
    chosen = export.choose([*own, several], [lesson.name])
    shown = read_trace(RECORDINGS / lesson.watch.trace).title
    page, _ = export.write(tmp_path / "out", chosen)
    values = data_of(page)
    assert titles(values, "live") == ["a", "b", shown]
    assert titles(values, "race") == ["</script><script>alert(1)"]
    named = [one for one in values["tabs"]["live"]["recordings"] if one["url"].endswith(f"/{lesson.watch.trace}")]
    assert [one["title"] for one in named] == [shown]
    assert values["tabs"]["race"]["recordings"][0]["url"].endswith("-100%20%25%20%3Cb%3E.jsonl")
    assert "<script>alert" not in page.read_text(encoding="utf-8")
    assert 'id="learn"' not in export.page(export.choose([SHIPPED], []), "p.js"), "no lessons, no tab"
    assert len(titles(data_of(export.write(tmp_path / "out", export.choose([SHIPPED], ["accept"]))[0]), "live")) == 1
    monkeypatch.chdir(RECORDINGS)
    again = export.choose([Path(lesson.watch.trace), Path("../traces") / lesson.watch.trace], [lesson.name])
    assert [one["title"] for one in again.recorded["live"]] == [shown], "one file by several names"


def test_refuses_what_it_cannot_play(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(export, "_answers", tuple)
    other = tmp_path / "other.jsonl.gz"
    other.write_bytes(b"\x1f\x8bnothing")
    empty = tmp_path / "empty.jsonl"
    empty.write_text("", encoding="utf-8")
    silent = tmp_path / "silent.jsonl"
    write_trace(silent, {"drafted": []})
    for path in (tmp_path / "missing.jsonl", tmp_path, other, empty, silent):
        with pytest.raises(TraceError) as caught:
            export.choose([path])
        assert path.name in caught.value.message and caught.value.hint
    with pytest.raises(SpecDiffError, match="no lesson 'nothing'") as lost:
        export.choose((), ["accept", "nothing"])
    assert "accept" in lost.value.hint
    with pytest.raises(SystemExit) as ended:
        export.main(["--out", str(tmp_path / "new"), "--lessons", "accept,,"])
    assert ended.value.code == 2 and "Lessons: round" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_writes_over_nothing_but_an_earlier_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(export, "page", lambda chosen, plotly="": f"<!doctype html>{export.MARK}{plotly}")
    chosen = export.Chosen({"live": [], "race": []}, {}, ())
    folder, file = tmp_path / "folder", tmp_path / "page.html"
    folder.mkdir()
    for _ in range(2):  # an empty folder, then an earlier export
        assert [path.name for path in export.write(folder, chosen)] == ["index.html", "plotly.min.js"]
        assert export.write(file, chosen) == [file]
    mine = tmp_path / "mine"
    mine.mkdir()
    for name in ("index.html", "page.html", "notes.txt"):
        (mine / name).write_text("mine", encoding="utf-8")
    (tmp_path / "folder.html").mkdir()
    for out in (mine, mine / "page.html", mine / "notes.txt", tmp_path / "folder.html", tmp_path):
        with pytest.raises(SpecDiffError, match="is not an export") as caught:
            export.write(out, chosen)
        assert caught.value.hint
    assert {path.read_text(encoding="utf-8") for path in mine.iterdir()} == {"mine"}
    with pytest.raises(SpecDiffError, match=r"cannot be written: .+"):
        export.write(mine / "notes.txt" / "page.html", chosen)

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", "there")

    monkeypatch.setattr(export, "choose", lambda traces, names: chosen)
    assert export.main(["--out", str(file), "--lessons", "none"]) == 0
    assert str(file) in capsys.readouterr().out
    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(SystemExit) as ended:
        export.main(["--out", str(tmp_path / "new.html")])
    assert ended.value.code == 2
    assert "there cannot be written: Permission denied." in capsys.readouterr().err
