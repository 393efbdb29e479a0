"""The measured parts of README.md and BENCHMARKS.md, made from the files in ``benchmarks/results``.

``<!-- results: FILE ... -->`` begins such a part, and ``<!-- end -->`` ends it. ``kinds``, ``drafts`` and ``summary``
show the same files in other ways.
"""

from __future__ import annotations

import argparse
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from benchmarks.counts import Counts
from benchmarks.equality import Equality
from benchmarks.page import Page
from benchmarks.peers import Peers
from benchmarks.tables import flavour_counts, origin, section, whole
from specdiff_core.explorations.wording import plural
from specdiff_core.measure.store import Bench, read_result
from specdiff_core.measure.sweep import SettingResult, Sweep, median_words, speed_words, table, waiting_words, with_ends
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.pairs import find_pair

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
DOCUMENTS = (ROOT / "README.md", ROOT / "BENCHMARKS.md")
KINDS: tuple[type[Bench], ...] = (Sweep, Peers, Counts, Equality, Page)
PART = re.compile(r"(<!-- (results|kinds|drafts|summary): ([\w. -]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
LOOSE = re.compile(r"\d ?×|τ (?:of |= ?)?\d|\d tokens (?:per|/) ?s")
"""A measured number, which has to be in a part."""


def _title(sweep: Sweep) -> str:
    return f"temperature {sweep.settings['temperature']:g}"


def _model(measured: Sweep | Peers) -> str:
    return find_pair(measured.settings["pair"]).short


def _settings(sweeps: Sequence[Sweep]) -> Iterator[tuple[str, list[SettingResult | None]]]:
    """Each drafted setting of the first sweep, and its numbers in every sweep."""
    for entry in sweeps[0].entries[1:]:
        yield entry.name, [next((one for one in sweep.entries if one.key == entry.key), None) for sweep in sweeps]


def _sweeps(sweeps: Sequence[Sweep]) -> str:
    """The numbers of settings in one sweep or several, and what was measured."""
    head, rows = ["setting"], []
    for sweep in sweeps:
        head += [f"τ, {_title(sweep)}", "speed-up", "median of prompts", *["vanilla's text"] * sweep.same_texts]
    for name, entries in _settings(sweeps):
        row = [name]
        for sweep, entry in zip(sweeps, entries, strict=True):
            row += ["–"] * 3 if entry is None else [with_ends(entry, "tau"), speed_words(entry), median_words(entry)]
            if sweep.same_texts:
                row.append("–" if entry is None else f"{entry.same_text_as_vanilla}/{entry.prompts}")
        rows.append(row)
    aligned = [
        f"{entry.words} {entry.aligned.value:.2f} ({entry.aligned.low:.2f}–{entry.aligned.high:.2f}) at {_title(sweep)}"
        for sweep in sweeps
        for entry in sweep.entries
        if entry.aligned
    ]
    words = (
        "- τ of a drafter with streak-distillation over that of its control, which had the same start and tokens but "
        f"the plain loss, on the same prompts: {'; '.join(aligned)}."
    )
    return "\n\n".join([table(head, rows), "\n".join([*[words] * bool(aligned), _facts(sweeps)])])


def _facts(sweeps: Sequence[Sweep]) -> str:
    """What each sweep measured, where and by which command."""
    return "\n".join(
        f"- {_title(sweep).capitalize()}: prompts {flavour_counts(sweep.prompts)}; {sweep.settings['max_new_tokens']} "
        f"new tokens; vanilla {sweep.entries[0].tokens_per_second:.0f} tokens/s."
        f"{waiting_words(sweep.waits)} {origin(sweep)}"
        for sweep in sweeps
    )


def _drafts(sweeps: Sequence[Sweep]) -> str:
    """τ and the speed-up of each drafter for one window a round, and for K drafts by their use."""
    rows: dict[str, list[str]] = {}
    columns: dict[str, None] = {}
    for sweep in sweeps:
        for entry in sweep.entries[1:]:
            drafter, _, drafts = entry.name.partition(", ")
            columns[drafts] = None
            row = rows.setdefault(f"{drafter}, {_title(sweep)}", [])
            row.append(f"{entry.tau:.2f}, {entry.speedup.value:.2f}×")
    return f"{table(['τ, speed-up', *columns], [[name, *row] for name, row in rows.items()])}\n\n{_facts(sweeps)}"


def _kinds(sweep: Sweep) -> str:
    """τ and the speed-up by kind of text."""
    rows = [
        [entry.name]
        + [f"{entry.tau_by_flavour[kind]:.2f}, {entry.speedup_by_flavour[kind].value:.2f}×" for kind in sweep.prompts]
        for entry in sweep.entries[1:]
    ]
    return table([f"τ, speed-up, {_title(sweep)}", *sweep.prompts], rows)


def _summary(results: Sequence[Bench]) -> str:
    """README's table: of each pair the first sweep beside the second; below it where they were measured."""
    by_model: dict[str, list[Sweep]] = defaultdict(list)
    for sweep in results:
        if isinstance(sweep, Sweep):
            by_model[_model(sweep)].append(sweep)
    rows, facts = [], []
    columns = max(map(len, by_model.values()), default=0)
    for model, sweeps in by_model.items():
        for name, (entry, *others) in _settings(sweeps):
            if entry is not None:
                row = [model, name, f"{entry.tau:.2f}", speed_words(entry), median_words(entry)]
                others += [None] * (columns - len(sweeps))
                rows.append([*row, *("–" if one is None else speed_words(one) for one in others)])
        prompts = " and ".join(f"{sum(sweep.prompts.values())} at {_title(sweep)}" for sweep in sweeps)
        speed = f"{sweeps[0].entries[0].tokens_per_second:.0f} tokens/s without drafts at {_title(sweeps[0])}"
        origins = " ".join(dict.fromkeys(origin(sweep, command=False) for sweep in sweeps))
        facts.append(f"- {model}: {prompts}; {speed}. {origins}")
    head = ["model", "setting", "τ", "speed-up", "median of prompts", "speed-up at temperature 1"]
    peers = [_ranked(result) for result in results if isinstance(result, Peers)]
    return "\n\n".join([table(head, rows), "\n".join(["Prompts and speed:\n", *facts]), *peers])


def _ranked(peers: Peers) -> str:
    """All lanes in a sentence, the fastest first."""
    lanes = sorted(peers.result["lanes"], key=lambda lane: -lane["tokens_per_second"])
    said = []
    for lane in lanes:
        transformers = lane["theirs"] and not lane["lane"].startswith("llama.cpp")
        said.append(f"{'transformers, ' * transformers}{lane['lane']} **{lane['tokens_per_second']:.0f}**")
    where = f"{_model(peers)}, greedy, on {plural(peers.result['prompts'], 'prompt')}"
    return (
        f"This lab, llama.cpp on the same file and transformers on the same weights, in turn ({where}); tokens/s, the "
        f"fastest first: {'; '.join(said)}. {origin(peers, command=False)}"
    )


def render(kind: str, results: Sequence[Bench]) -> str:
    """What a part holds.

    Raises:
        ConfigError: a result is not whole.
    """
    with whole(*results):
        if kind == "summary":
            return _summary(results)
        if kind == "kinds":
            return "\n\n".join(_kinds(cast(Sweep, result)) for result in results)
        if isinstance(results[0], Sweep):
            return (_drafts if kind == "drafts" else _sweeps)(cast(Sequence[Sweep], results))
        return "\n\n".join(map(section, results))


def filled(part: re.Match[str], folder: Path) -> str:
    """What a part (:data:`PART`) holds by the files of ``folder``.

    Raises:
        ConfigError: a file is missing, or not a whole result of this version.
    """
    results = [read_result(folder / name, *KINDS) for name in part[3].split()]
    return f"{render(part[2], results)}\n"


def differences(name: str, text: str, folder: Path) -> Iterator[str]:
    """Where a document is not what the files of ``folder`` say: cells of tables, lines, and numbers outside a part."""
    for part in PART.finditer(text):
        lines, wanted = part[4].splitlines(), filled(part, folder).splitlines()
        first, head = text[: part.start(4)].count("\n") + 1, list[str]()
        if len(lines) != len(wanted):
            yield f"{name}:{first}: {len(lines)} lines should be {len(wanted)}"
            continue
        for number, (line, expected) in enumerate(zip(lines, wanted, strict=True), start=first):
            cells, right = ([cell.strip() for cell in one.split("|")] for one in (line, expected))
            head = (head or right) if len(right) > 2 else []
            label = ", ".join(itertools.takewhile(lambda cell: not re.search(r"\d\.\d", cell), right[1:]))
            if len(cells) == len(right) == len(head):
                for column, cell, value in zip(head, cells, right, strict=True):
                    if cell != value:
                        yield f"{name}:{number}, {label}, {column}: {cell!r} should be {value!r}"
            elif line != expected:
                yield f"{name}:{number}: {line!r} should be {expected!r}"
    for line in PART.sub("", text).splitlines():
        if loose := LOOSE.search(line):
            yield f"{name}: {loose[0]!r} has no file"


def add_results(parser: argparse.ArgumentParser) -> None:
    about = "the files [default benchmarks/results]"
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help=about)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", action="store_true", help="write the numbers of the files into the documents")
    mode.add_argument("--check", action="store_true", help="name every number that differs from its file")
    add_results(parser)


def run(args: argparse.Namespace) -> None:
    if args.write:
        write(args.results)
    else:
        check(args.results)


def write(folder: Path = RESULTS, documents: Sequence[Path] = DOCUMENTS) -> None:
    """Write the numbers of ``folder`` into the documents."""
    fill = lambda part: f"{part[1]}{filled(part, folder)}{part[5]}"
    texts = {path: PART.sub(fill, path.read_text("utf-8")) for path in documents}  # all or none
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
        print(path)


def check(folder: Path = RESULTS, documents: Sequence[Path] = DOCUMENTS) -> None:
    """Compare the documents with the files of ``folder``.

    Raises:
        ConfigError: something differs; the message names it.
    """
    found = [one for path in documents for one in differences(path.name, path.read_text("utf-8"), folder)]
    if found:
        hint = "Run python -m benchmarks report --write; give a number without a file a file, or leave it out."
        raise ConfigError("\n".join(found), field="results", hint=hint)
