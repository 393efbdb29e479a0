"""What ships with the comparison: every number is one that a sweep stored, every race one that it measured."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from specdiff_core import cli
from specdiff_core.bench import comparison as comparison_module
from specdiff_core.bench.comparison import (
    Vocabulary,
    best_of_each,
    build_showcase,
    comparison,
    median_run,
    open_stored,
    table_of,
)
from specdiff_core.bench.grid import BASELINE, NAMED, BenchSetting
from specdiff_core.bench.store import Row, SettingResult, Sweep, Traces, lane_of, read_result
from specdiff_core.decoding.pieces import piece
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.events import Committed, PiecesSeen, RunStarted
from specdiff_core.schema.methods import METHODS
from specdiff_core.schema.metrics import Metrics, fold
from specdiff_core.schema.pairs import EMBEDDED
from specdiff_core.schema.trace import read_trace, write_trace
from tests.compare_fakes import FLAVOURS, store_sweep


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("sweeps")
    return [store_sweep(folder, 0.0), store_sweep(folder, 1.0)]


@pytest.fixture(scope="module")
def files(stored: list[Path]) -> dict[str, bytes]:
    return build_showcase([open_stored(path) for path in stored])


def entry_of(result: Sweep, key: str) -> SettingResult:
    return next(entry for entry in result.entries if entry.key == key)


def test_every_number_is_a_stored_one(files: dict[str, bytes], stored: list[Path]) -> None:
    shipped = json.loads(files["results.json"])
    assert [table["temperature"] for table in shipped["tables"]] == [0, 1]
    for table, path in zip(shipped["tables"], stored, strict=True):
        result = read_result(path, Sweep)
        base = entry_of(result, BASELINE.key)
        assert table["origin"]["command"] == result.provenance["command"]
        assert table["origin"]["commit"] == result.provenance["commit"]
        assert (table["origin"]["dtype"], table["origin"]["threads"]) == (result.dtype, result.threads)
        for cell in table["cells"]:
            entry = entry_of(result, cell["key"])
            assert msgspec.convert(cell, BenchSetting).key == entry.key, "as the page reads it"
            assert cell["speedup"]["value"] == entry.speedup.value
            if cell["drafter"] != "none":
                assert (cell["speedup"]["low"], cell["speedup"]["high"]) == (entry.speedup.low, entry.speedup.high)
            for name in ("tau", "alpha", "tokens_per_second", "peak_bytes", "rounds", "new_tokens", "runs"):
                assert cell[name] == getattr(entry, name)
            assert tuple(cell["alpha_at"]) == entry.alpha_at
            for flavour in FLAVOURS:
                part, own = cell["by_flavour"][flavour], entry.speedup_by_flavour[flavour]
                assert (part["value"], part["tau"]) == (own.value, entry.tau_by_flavour[flavour])
            per_round = entry.seconds / entry.rounds
            assert cell["cost"] == pytest.approx(per_round / (base.seconds / base.rounds))
            assert cell["tau"] / cell["cost"] == pytest.approx(cell["pooled_speedup"])
            assert sum(cell["seconds_per_round"].values()) == pytest.approx(per_round)
            assert cell["target_passes_per_token"] == entry.target_calls / entry.new_tokens
            assert cell["drafter_passes_per_round"] == entry.draft_nfe / entry.rounds


def test_every_race_is_a_measured_run(files: dict[str, bytes], stored: list[Path]) -> None:
    shipped = json.loads(files["results.json"])
    for table, path in zip(shipped["tables"], stored, strict=True):
        _, rows, traces = open_stored(path)
        for flavour, race in table["races"].items():
            trace = read_trace(files[race["file"]])
            keys = [cell["key"] for cell in table["cells"]]
            assert list(trace.lanes) == race["lanes"] == [lane_of(key) for key in keys]
            for key in keys:
                events, measured = trace.lanes[lane_of(key)], traces(race["prompt"], race["repeat"], key)
                assert fold(events).seconds == fold(measured).seconds
                at = [event.at for event in measured if isinstance(event, Committed)]
                shown = [event.at for event in events if isinstance(event, Committed)]
                assert shown == pytest.approx(at, abs=1e-7)
            assert flavour in race["prompt"]
            fastest = table["cells"][1]["key"]
            paces = {(r.prompt, r.setting): r.metrics.seconds / r.metrics.committed for r in rows if r.repeat >= 0}
            prompts = sorted({prompt for prompt, _ in paces if prompt.startswith(flavour)})
            speeds = sorted(paces[prompt, BASELINE.key] / paces[prompt, fastest] for prompt in prompts)
            assert race["speedup"] == speeds[1]  # of three


def test_the_median_of_an_even_number_is_the_lower_one() -> None:
    def rows(prompt: str, seconds: float) -> list[Row]:
        where: dict[str, Any] = {"prompt": prompt, "flavour": "math", "repeat": 0, "reason": "length", "text": "t"}
        return [
            Row(setting=key, metrics=Metrics(seconds=value, committed=6), **where)
            for key, value in (("none/1/1", 12.0), ("block/9/1", seconds))
        ]

    measured = [*rows("a", 2.0), *rows("b", 3.0), *rows("c", 4.0), *rows("d", 6.0)]
    assert median_run(measured, "math", "block/9/1") == ("c", 0, 3.0)
    with pytest.raises(ConfigError, match="code"):
        median_run(measured, "code", "block/9/1")


def test_one_row_for_each_method_and_named_ones_first(stored: list[Path]) -> None:
    baseline = read_result(stored[0], Sweep).entries[0]

    def entry(key: str, speed: float) -> SettingResult:
        setting = msgspec.structs.asdict(BenchSetting.parse(key))
        return msgspec.structs.replace(
            baseline, **setting, speedup=msgspec.structs.replace(baseline.speedup, value=speed)
        )

    keys = {"none/1/1": 1.0, "block/4/1": 2.0, "block/9/1": 3.0, "block/4/1/9": 2.5, "mdlm/4/1/9": 1.2,
            "block/4/1/0/4/self": 1.9, "mdlm/4/1": 1.1}  # fmt: skip
    entries = [entry(key, speed) for key, speed in keys.items()]
    assert [one.speedup.value for one in best_of_each(entries)[0]] == [1.0, 3.0, 2.5, 1.9, 1.2, 1.1]
    assert [one.speedup.value for one in best_of_each(entries, extras=1)[0]] == [1.0, 3.0, 2.5, 1.9, 1.1]
    assert [one.speedup.value for one in best_of_each(entries, extras=0)[0]] == [1.0, 3.0, 2.5, 1.1]
    with pytest.raises(ConfigError, match="baseline"):
        best_of_each(entries[1:])


@pytest.mark.parametrize(
    ("key", "names", "words"),
    [
        ("block/9/1/16", ("ddtree", "Block diffusion, draft tree (DDTree)", "DDTree"), "γ 9, B 16"),
        ("block/9/2", ("dflash", "Block diffusion (DFlash)", "DFlash"), "γ 9, T 2"),
        ("mdlm_streak/9/1/0/8/self", ("specdiff2", "SpecDiff-2", "SpecDiff-2"), "γ 9, K 8 self"),
        ("mdlm_streak/9/1", ("", "SpecDiff-2, one window", "SpecDiff-2, one window"), "γ 9, T 1"),
        ("mdlm/4/1/0/4/multi_round", ("", "SpecDiff, 4 drafts, multi-round", "SpecDiff, 4 drafts, multi-round"),
         "γ 4, K 4 multi-round"),
        ("autoregressive/4/4", ("autoregressive", "Small autoregressive drafter", "Small AR drafter"), "γ 4"),
        ("eagle/6/1/12", ("eagle2", "EAGLE-2 (dynamic draft tree)", "EAGLE-2"), "γ 6, B 12"),
        ("block/9/4/auto", ("auto", "Block diffusion, length as it goes (Auto)", "Auto"), "γ ≤ 9, T ≤ 4"),
        ("mdlm/9/1/auto", ("", "SpecDiff, γ and T by controller", "SpecDiff, controller"), "γ ≤ 9"),
        ("block/9/1/24/auto",
         ("", "Block diffusion, draft tree (DDTree), nodes by controller", "DDTree, controller"), "γ ≤ 9, B ≤ 24"),
        ("strange/3/2", ("", "strange, one window", "strange, one window"), "γ 3, T 2"),
        ("none/1/1", ("vanilla", "Vanilla", "Vanilla"), ""),
    ],
)  # fmt: skip
def test_names(key: str, names: tuple[str, str, str], words: str) -> None:
    setting = BenchSetting.parse(key)
    assert (setting.method, setting.words) == (names, words)


def test_every_method_of_the_literature_is_one_use_of_a_drafter() -> None:
    assert list(NAMED.values()) == list(METHODS)


def test_where_nothing_was_resampled_there_is_no_interval(tmp_path: Path) -> None:
    result, _, _ = open_stored(store_sweep(tmp_path, 0.0, per_flavour=1))
    table = table_of(result)
    assert all(cell["speedup"]["low"] is None for cell in table["cells"])
    assert all(part["low"] is None for cell in table["cells"] for part in cell["by_flavour"].values())


def test_texts_are_compared_only_where_they_can_be(files: dict[str, bytes]) -> None:
    cold, warm = json.loads(files["results.json"])["tables"]
    assert all(cell["same_text_as_vanilla"] is not None for cell in cold["cells"])
    assert all(cell["same_text_as_vanilla"] is None for cell in warm["cells"])


def test_words_are_added_where_a_trace_has_none(stored: list[Path]) -> None:
    result, rows, traces = open_stored(stored[0])

    def wordless(*run: Any) -> list[Any]:
        return [event for event in traces(*run) if not isinstance(event, PiecesSeen)]

    packed = build_showcase([(result, rows, wordless)])
    trace = read_trace(packed["races/0-code.jsonl.gz"])
    vocabulary = Vocabulary(EMBEDDED.tokenizer)
    for events in trace.lanes.values():
        pieces = {k: v for event in events if isinstance(event, PiecesSeen) for k, v in event.pieces.items()}
        used = {i for event in events if isinstance(event, Committed) for i in event.ids}
        assert used <= set(pieces)
        assert all(pieces[i] == piece(vocabulary, i) for i in used)


def test_a_trace_of_another_run_is_refused(tmp_path: Path) -> None:
    path = store_sweep(tmp_path, 0.0)
    result, rows, _ = open_stored(path)
    traces = Traces(tmp_path / result.traces)
    table = table_of(result)
    prompt, repeat, _ = median_run(rows, "code", table["cells"][1]["key"])
    other = next(f"code-{n}" for n in range(3) if f"code-{n}" != prompt)
    events = [
        msgspec.structs.replace(event, seconds=2 * event.seconds) if type(event).__name__ == "Finished" else event
        for event in traces.events(other, repeat, "block/9/1")
    ]
    write_trace(traces.path(prompt, repeat, "block/9/1"), {"block/9/1": events}, title=prompt)
    with pytest.raises(ConfigError, match="another run"):
        build_showcase([open_stored(path)])


def test_what_is_too_large_leaves_out_first_what_no_paper_names(
    stored: list[Path], files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeps = [open_stored(path) for path in stored]
    monkeypatch.setattr(comparison_module, "MOST_BYTES", sum(map(len, files.values())))
    smaller = json.loads(build_showcase(sweeps)["results.json"])
    assert [table["left_out"][0].split(" (")[0] for table in smaller["tables"]] == ["SpecDiff, draft tree"] * 2
    assert all(table["left_out"] == [] for table in json.loads(files["results.json"])["tables"])
    monkeypatch.setattr(comparison_module, "MOST_BYTES", 1000)
    with pytest.raises(ConfigError, match="too large to ship"):
        build_showcase(sweeps)


def test_two_sweeps_of_one_temperature_are_refused(stored: list[Path]) -> None:
    result, _, _ = open_stored(stored[0])
    with pytest.raises(ConfigError, match="one sweep for each temperature"):
        comparison([table_of(result)] * 2)
    with pytest.raises(ConfigError, match="one sweep"):
        comparison([])


def test_from_the_command_line(stored: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "compare"
    (folder / "races").mkdir(parents=True)
    (folder / "races" / "0.7-old.jsonl.gz").write_bytes(gzip.compress(b""))
    assert cli.main(["bench", "showcase", *map(str, stored), "--out", str(folder)]) == 0
    assert "5 files" in capsys.readouterr().out
    names = sorted(path.name for path in (folder / "races").iterdir())
    assert names == ["0-code.jsonl.gz", "0-stories.jsonl.gz", "1-code.jsonl.gz", "1-stories.jsonl.gz"]
    events = read_trace(folder / "races" / names[0]).lanes["vanilla"]
    assert any(isinstance(event, RunStarted) for event in events)


@pytest.mark.parametrize(("fault", "message"), [("traces", "no sweep with traces"), ("rows", "damaged or missing")])
def test_what_is_missing_is_named(fault: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = store_sweep(tmp_path, 0.0, per_flavour=1)
    if fault == "rows":
        path.with_suffix(".rows.jsonl").unlink()
    else:
        result = json.loads(path.read_text(encoding="utf-8"))
        del result["traces"]
        path.write_text(json.dumps(result), encoding="utf-8")
    assert cli.main(["bench", "showcase", str(path), "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_vocabulary_file_says_what_the_tokenizer_says() -> None:
    from transformers import AutoTokenizer

    whole, file = AutoTokenizer.from_pretrained(EMBEDDED.tokenizer), Vocabulary(EMBEDDED.tokenizer)
    assert all(piece(whole, i) == piece(file, i) for i in range(len(whole) + 3))


def test_a_missing_vocabulary_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.json"):
        Vocabulary(tmp_path)
