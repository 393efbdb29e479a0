"""Draws stored results as Markdown: BENCHMARKS.md and the tables on the terminal. Knows words and columns, no maths."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specdiff_core.bench.markdown import Result, cell_name, number, table
from specdiff_core.bench.referee_table import referee_section
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.metrics import CROWDED


def sweep_section(result: Result) -> str:
    """Speed-up with its interval, τ, α and where the seconds went."""
    cells = result["cells"]
    flavours = list(cells[0]["speedup_by_flavour"])
    main, detail = [], []
    settings = result["settings"]
    settled = settings["temperature"] == 0 or settings["rule"] == "match"  # else two samples of one law
    for entry in cells:
        speed, by = entry["speedup"], entry["seconds_by"]
        spread = "baseline" if entry["drafter"] == "none" else f"{speed['low']:.2f}–{speed['high']:.2f}"
        if entry["prompts"] == len(flavours) and entry["drafter"] != "none":
            spread = "–"  # one prompt of each flavour: nothing to resample
        shares = [f"{100 * by[name] / entry['seconds']:.0f} %" for name in ("draft", "verify", "prefill", "other")]
        main.append(
            [
                cell_name(entry),
                f"{speed['mean']:.2f}×",
                spread,
                *(f"{entry['speedup_by_flavour'][name]['value']:.2f}×" for name in flavours),
                number(entry["tau"]),
                number(entry["alpha"]),
                number(entry["tokens_per_second"], ".0f"),
                f"{entry['same_text_as_vanilla']}/{entry['prompts']}" if settled else "–",
            ]
        )
        positions = " ".join(number(value) for value in entry["alpha_at"]) or "–"
        peak = f"{entry['peak_bytes'] / 1e6:.0f} MB"
        taus = [number(entry["tau_by_flavour"][name]) for name in flavours]
        detail.append([cell_name(entry), *taus, positions, *shares, peak])
    eos = "ignored" if settings["ignore_eos"] else "ends a run"
    head = ["cell", "speed-up", "95 % interval", *flavours, "τ", "α", "tokens/s", "same text as vanilla"]
    more = ["cell", *(f"τ {name}" for name in flavours), "α by position", "draft", "verify", "prefill", "other", "peak"]
    counts = ", ".join(f"{name} {count}" for name, count in result["prompts"].items())
    repeats = "1 repeat" if result["repeats"] == 1 else f"{result['repeats']} repeats"
    names = dict.fromkeys(entry["drafter"] for entry in cells if entry["drafter"] != "none")
    return "\n\n".join(
        [
            f"## Speed-up at temperature {settings['temperature']:g}, rule {settings['rule']}, "
            f"{settings['max_new_tokens']} new tokens: {', '.join(names)}",
            f"Prompts: {counts}; {repeats} each, interleaved; reveal order {settings['order']}; end "
            f"of text {eos}. Speed-up is vanilla's seconds per token over the cell's, on the decode clock, prefill "
            "included; the mean is over flavours, the interval a bootstrap over prompts. τ: tokens per target pass. "
            f"α: accepted of tested tokens. Baseline and cells come from one run.{_quiet(result)}",
            table(head, main),
            "Share of the decode clock (verify is the target's pass and the tests), and peak memory (on a CPU: of the "
            "whole process so far, all models loaded).",
            table(more, detail),
        ]
    )


def _quiet(result: Result) -> str:
    """How many threads had to wait for a processor; nothing where that was not measured."""
    waits = [entry["waiting"] for entry in result["cells"] if entry.get("waiting") is not None]
    if not waits:
        return ""
    told = f" Threads waiting for a processor, on average: {min(waits):.3f} to {max(waits):.3f}, cell by cell."
    if max(waits) >= CROWDED:
        told += " **The machine was busy: do not trust these speed-ups.**"
    return told


def generate_section(result: Result) -> str:
    """Vanilla against transformers, as it was measured before there was a referee."""
    fold = result["result"]
    rows = [
        ["this project, vanilla lane", number(fold["tokens_per_second"], ".1f")],
        ["transformers generate()", number(fold["generate_tokens_per_second"], ".1f")],
    ]
    return "\n\n".join(
        [
            "## The baseline is no straw man",
            f"Greedy, {result['settings']['max_new_tokens']} tokens, end of text ignored, both in turn on the same "
            f"prompts and weights, {fold['turns']} turns; ours by its "
            f"decode clock, `generate` from call to return: the vanilla lane reaches **{fold['ratio']:.2f}×** the "
            f"tokens/s of `generate` (median of turns {fold['ratio_median']:.2f}×).",
            table(["loop", "tokens/s"], rows),
        ]
    )


def forwards_section(result: Result) -> str:
    """Bare passes, and the share of the limit that the loop reaches."""
    rows = []
    for entry in result["cells"]:
        times = [f"{1000 * entry[name]:.2f}" for name in ("target_one", "target_verify", "draft_network", "draft")]
        reached = entry.get("efficiency")
        shares = ["–"] * 3
        if reached:
            shares = [f"{reached['limit_speedup']:.2f}×"]
            shares += [f"{100 * reached[name]:.0f} %" for name in ("of_speedup", "of_tokens")]
        rows.append([cell_name(entry), *times, *shares])
    return "\n\n".join(
        [
            "## How close the loop is to its own limit",
            f"Medians behind a context of {result['cells'][0]['context']} tokens, in milliseconds: one target pass of "
            "width 1 (t₁) and of width γ+1 (t_verify), and a draft: its network alone (t_draft) and with the reveal of "
            "tokens. The limit is τ·t₁/(t_draft + t_verify). Reached: measured speed-up over that limit, and measured "
            "tokens/s of rounds over τ/(t_draft + t_verify). More than 100 %: the machine was slower while "
            "bare passes were timed than during the sweep.",
            table(["cell", "t₁", "t_verify", "t_draft", "with reveal", "limit", "of speed-up", "of tokens/s"], rows),
        ]
    )


def equality_section(result: Result) -> str:
    """The grid of equal texts."""
    fold = result["result"]
    rows = [
        [
            "vanilla and generate()" if entry["cell"] == "generate" else entry["cell"],
            f"{entry['temperature']:g}",
            *(str(entry[name]) for name in ("compared", "equal", "ties", "unexplained")),
        ]
        for entry in fold["cells"]
    ]
    parts = [
        "## The same text, token for token",
        f"Rule `match` against vanilla at the same seed ({result['dtype']}), and vanilla against "
        f"`generate(do_sample=False)`: {fold['compared']} comparisons over {fold['tokens']} vanilla tokens, "
        f"**{fold['equal']} equal, {fold['ties']} parted at a tie, {fold['unexplained']} unexplained**. A tie: the two "
        f"best tokens were less than {fold['tie_below']:g} apart (log p plus noise).",
        table(["drafter/γ/T", "temperature", "compared", "equal", "ties", "unexplained"], rows),
    ]
    if fold["differences"]:
        head = ["prompt", "temperature", "cell", "at token", "margin", "tie"]
        parts.append(
            table(
                head,
                [
                    [
                        item["prompt"],
                        f"{item['temperature']:g}",
                        item["cell"],
                        str(item["token"]),
                        f"{item['margin']:.1e}",
                        "yes" if item["tie"] else "NO",
                    ]
                    for item in fold["differences"]
                ],
            )
        )
    return "\n\n".join(parts)


def page_section(result: Result) -> str:
    """How soon the page is usable, and what it costs."""
    first = result["first_event_seconds"]
    starts, turns = result["starts"], result["turns"]
    waits = [
        [wait, str(count), f"{value['median']:.2f} s", f"{value['low']:.2f}–{value['high']:.2f} s"]
        for wait, count, value in (
            ("from the command to a page that plays its recording", starts, result["usable_seconds"]),
            ("from Run to the first event on the page, pressed at once", starts, first["first"]),
            ("the same, models loaded", turns, first["later"]),
        )
    ]
    costs = [
        [
            lane,
            f"{value['median']:.3f}×",
            "{:.3f}–{:.3f}".format(*value["interval"]),
            f"{value['low']:.3f}–{value['high']:.3f}",
            *(number(result["waiting"][lane][name], ".3f") for name in ("attached", "alone")),
        ]
        for lane, value in result["attached"].items()
    ]
    settings = result["settings"]
    return "\n\n".join(
        [
            "## The page",
            "A real server and a real browser on the same machine, which had read the files before.",
            table(["wait", "times", "median", "lowest–highest"], waits),
            "Decode clock with the page attached (every event told, the browser drawing) over the undisturbed clock "
            "of the same decode with no page open (the interval is a bootstrap over starts and their turns), and how "
            f"many threads had to wait for a processor (medians); for each of the {turns} turns of both it is a page's "
            f"second run; {settings['max_new_tokens']} tokens, {settings['drafter']} γ={settings['gamma']} "
            f"T={settings['steps']}:",
            table(["lane", "median", "95 % interval", "lowest–highest", "threads waiting, attached", "alone"], costs),
        ]
    )


SECTIONS: dict[str, Callable[[Result], str]] = {
    "sweep": sweep_section,
    "generate": generate_section,
    "referee": referee_section,
    "forwards": forwards_section,
    "equality": equality_section,
    "page": page_section,
}


def section(result: Result) -> str:
    """One result with the facts that make it repeatable.

    Raises:
        ConfigError: it is no result of ``bench``.
    """
    if result.get("kind") not in SECTIONS:
        raise ConfigError(
            f"Unknown kind of result {str(result.get('kind'))[:40]!r}.",
            field="from",
            hint="Use files written by bench.",
        )
    origin = result["provenance"]
    commit = (origin["commit"] or "no repository") + (" with local changes" if origin["dirty"] else "")
    versions = ", ".join(f"{name} {value}" for name, value in origin["versions"].items() if value)
    device = origin["gpu"] if result["device"].startswith("cuda") else origin["cpu"]
    sittings = f" in {result['sessions']} sittings" if result.get("sessions", 1) > 1 else ""
    again = f"; folded again from its traces by commit {result['refolded']}" if result.get("refolded") else ""
    facts = (
        f"{device}, {origin['cores']} cores, {result['threads']} threads, {result['dtype']}, {origin['system']}; "
        f"{versions}; target {result['target']}; {origin['date']}{sittings}; commit {commit}{again}."
    )
    return f"{SECTIONS[result['kind']](result)}\n\nMeasured on: {facts}\n\n```\n{origin['command']}\n```"


def benchmarks(results: Sequence[Result], summary: str = "") -> str:
    """The whole BENCHMARKS.md; ``summary`` stands before the results."""
    intro = (
        "# Benchmarks\n\nWritten by `python -m specdiff_core bench --report`, from stored results. Every number was "
        "measured by the command beside it, or is computed from such numbers as its caption says."
    )
    parts = [intro, summary, *(section(result) for result in results)]
    return "\n\n".join(part for part in parts if part) + "\n"
