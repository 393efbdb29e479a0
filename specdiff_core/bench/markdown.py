"""Results as Markdown: tables for the terminal, and BENCHMARKS.md, which has one section for each machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import singledispatch
from itertools import accumulate
from operator import mul
from typing import Any

from specdiff_core.bench.grid import BASELINE
from specdiff_core.bench.report import streak_pair
from specdiff_core.bench.store import (
    Budget,
    Equality,
    Forwards,
    HfBaseline,
    Interval,
    Page,
    Result,
    SettingResult,
    Split,
    Sweep,
)
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.metrics import CROWDED
from specdiff_core.schema.settings import SETTINGS

TITLE = "# Benchmarks"
INTRO = """\
Written by `python -m specdiff_core bench report` from stored results; `bench suite` measures them. Every number was
measured by the command below its table. Settings of one table were measured turn about on one machine, so their ratios
hold; numbers of two tables or two machines do not compare.

- Speed-up: vanilla's seconds per token over the setting's, on the decode clock, prefill included; the mean is over
  flavours, the interval a bootstrap over prompts. τ: tokens per target pass. α: accepted of tested tokens.
- γ: tokens in a window; T: denoising steps; B: nodes of a tree; K: drafts; ≤: a controller chooses, at most this.
- draft, verify, prefill, other: share of the decode clock; verify is the target's pass and the tests. peak: memory, on
  a CPU of the whole process so far, all models loaded."""
MACHINES = ("machine", "instruction set", "system", "dtype", "threads", "versions", "measured", "commit")
PARTS = ("draft", "verify", "prefill", "other")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, aligned for reading as plain text too."""
    lines = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = [[value.ljust(width) for value, width in zip(line, widths, strict=True)] for line in lines]
    drawn = ["| " + " | ".join(line) + " |" for line in padded]
    return "\n".join([drawn[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *drawn[1:]])


def number(value: float | None, form: str = ".2f") -> str:
    """A number, or a dash where it is not defined."""
    return "–" if value is None else format(value, form)


def bounds(low: float, high: float, form: str = ".2f") -> str:
    """An interval."""
    return f"{low:{form}}–{high:{form}}"


def percent(share: float) -> str:
    """``42 %``."""
    return f"{100 * share:.0f} %"


def counted(count: int, what: str) -> str:
    """``1 turn`` or ``24 turns``."""
    return f"{count} {what}" + ("" if count == 1 else "s")


def flavours_of(prompts: Mapping[str, int]) -> str:
    """``code 10, dialogue 10``."""
    return ", ".join(f"{flavour} {count}" for flavour, count in prompts.items())


@singledispatch
def body(result: Result) -> list[str]:
    """Heading, paragraphs and tables of a result; one function for each kind."""
    raise TypeError(f"no tables for {type(result).__name__}")


@body.register
def _sweep(result: Sweep) -> list[str]:
    entries, settings, flavours = result.entries, result.settings, list(result.prompts)
    main, detail = [], []
    for entry in entries:
        speed = entry.speedup
        interval = bounds(speed.low, speed.high) if result.has_intervals else "–"
        row = [entry.name, f"{speed.value:.2f}×", "baseline" if entry.drafter == BASELINE.drafter else interval]
        row += [f"{entry.speedup_by_flavour[flavour].value:.2f}×" for flavour in flavours]
        row += [number(entry.tau), number(entry.alpha), number(entry.tokens_per_second, ".0f")]
        main.append([*row, f"{entry.same_text_as_vanilla}/{entry.prompts}" if result.same_texts else "–"])
        row = [entry.name, *(number(entry.tau_by_flavour[flavour]) for flavour in flavours)]
        row += [" ".join(map(number, entry.alpha_at)) or "–"]
        row += [percent(entry.seconds_by[part] / entry.seconds) for part in PARTS]
        detail.append([*row, f"{entry.peak_bytes / 1e6:.0f} MB"])
    drafter = settings.get("draft_temperature")
    temperature = f"{settings['temperature']:g}" + ("" if drafter is None else f" (drafter {drafter:g})")
    names = ", ".join(dict.fromkeys(entry.drafter for entry in entries if entry.drafter != BASELINE.drafter))
    ended = "ignored" if settings["ignore_eos"] else "ends a run"
    parts = [
        f"### Temperature {temperature}, rule {settings['rule']}, {settings['max_new_tokens']} tokens: {names}",
        f"Prompts: {flavours_of(result.prompts)}; {counted(result.repeats, 'repeat')} each, interleaved; reveal order "
        f"{settings['order']}; end of text {ended}.{_waiting(result.waits)}",
        table(["setting", "speed-up", "95 % interval", *flavours, "τ", "α", "tokens/s", "vanilla's text"], main),
        table(["setting", *(f"τ {name}" for name in flavours), "α by position", *PARTS, "peak"], detail),
    ]
    if result.ratios:
        rows = []
        for ratio in result.ratios:
            row = [ratio.what, ratio.ours, ratio.theirs]
            for one in (ratio.speed, ratio.tau):
                row.append(f"{one.value:.2f}×" + (f" ({bounds(one.low, one.high)})" if result.has_intervals else ""))
            rows.append(row)
        parts += [
            "Settings against each other: ratios of speed and of τ in this sweep, means of the flavours, with 95 % "
            f"intervals over prompts. The best of many is also the luckiest.{_one_and_several(result)}",
            table(["what", "setting", "over", "speed", "τ"], rows),
        ]
    if settings["temperature"] == 0 and (curves := list(paper_curves(entries))):
        parts += [
            "Curves of the papers (read off their figures) and of this sweep. Their models are a thousand times larger "
            "and their hardware another; what can be compared is the shape.",
            table(["curve", "paper", "here"], curves),
        ]
    return parts


@body.register
def _budget(result: Budget) -> list[str]:
    entries, settings, several = result.entries, result.settings, result.repeats > 1
    held = [{one.seconds: one for one in entry.within} for entry in entries]
    columns = sorted(set().union(*held))

    def share(value: Interval) -> str:
        spread = f" ({100 * value.low:.0f}–{100 * value.high:.0f})" if result.has_intervals else ""
        return percent(value.value) + spread

    main, detail = [], []
    for entry, own in zip(entries, held, strict=True):
        row = [entry.name]
        for seconds in columns:
            one = own.get(seconds)
            row.append("–" if one is None else share(one.accuracy) + ("†" if several and one.used_up else ""))
        main.append(row)
        speed = f"{entry.speedup.value:.2f}×"
        speed += f" ({bounds(entry.speedup.low, entry.speedup.high)})" if result.has_intervals else ""
        row = [entry.name, f"{entry.seconds:.3f} s", "baseline" if entry.drafter == BASELINE.drafter else speed]
        row += [number(entry.reached, ".3f") + (" s" if entry.reached else ""), share(entry.single)]
        noise = "" if entry.noise is None else f" ± {100 * entry.noise:.1f}"
        row.append(
            "–" if entry.drafter == BASELINE.drafter else f"{100 * entry.difference:+.1f}{noise}".replace("-", "−")
        )
        detail.append([*row, *([share(entry.voted)] if several else []), percent(entry.no_answer)])
    head = ["setting", "an attempt", "speed-up", "as often right after", "right in one", "against vanilla"]
    goal = "" if result.goal is None else f"; as often right: {percent(result.goal)}, vanilla's best"
    lossless = SETTINGS["rule"].read(settings["rule"]).lossless
    law = " All draw from vanilla's law: equal numbers of attempts differ in accuracy by chance." if lossless else ""
    counts = "Its one attempt counts if it is finished by then."
    if several:
        counts = (
            "Of the attempts that are finished by then the commonest answer counts, and each attempt in turn is the "
            "first. †: some problems had no attempt left, –: none had; what more would bring was not measured."
        )
    return [
        f"### Accuracy within a time budget: {counted(sum(result.prompts.values()), 'problem')}, "
        f"{counted(result.repeats, 'attempt')} each",
        f"Prompts: {flavours_of(result.prompts)}; temperature {settings['temperature']:g}, rule {settings['rule']}, at "
        f"most {settings['max_new_tokens']} tokens, interleaved. Share of the problems that are right after so many "
        f"seconds for each, with its 95 % interval over problems. {counts}"
        + _waiting([entry.waiting for entry in entries if entry.waiting is not None]),
        table(["setting", *(f"{seconds:g} s" for seconds in columns)], main),
        f"An attempt: its mean seconds, the problem read anew{goal}; against vanilla: points of one attempt's "
        f"accuracy, with their 99 % noise.{law} The same figure of SpecDiff-2 (arXiv 2511.00606, read off), MATH-500, "
        "a 72B target, 15 s: vanilla 55 %, SpecDiff 81 %, SpecDiff-2 86 to 90 %.",
        table([*head, *([f"majority of {result.repeats}"] if several else []), "no answer"], detail),
    ]


def _waiting(waits: Sequence[float]) -> str:
    """How many threads had to wait for a processor; nothing where that was not measured."""
    if not waits:
        return ""
    low, high = min(waits), max(waits)
    words = f" Threads waiting for a processor, on average: {bounds(low, high, '.3f')}, by setting."
    return words + (" **The machine was busy: do not trust these speed-ups.**" if high >= CROWDED else "")


def _one_and_several(result: Sweep) -> str:
    """What differs between one draft and several, besides K."""
    settings = result.settings
    if all(entry.num_drafts == 1 for entry in result.entries):
        return ""
    if settings["temperature"] == 0 and settings.get("draft_temperature") is None:
        return " One draft takes its most probable tokens, several are drawn."
    if settings["temperature"] > 0 and settings["rule"] == "ratio":
        return " One draft is tested with p/q, a selected one as a point mass, which accepts less."
    return " One draft and several are drawn and tested alike."


def paper_curves(entries: Sequence[SettingResult]) -> Iterator[list[str]]:
    """(curve, the paper's figures, ours) of windows at temperature 0, for what a paper's figure shows."""
    windows = [e for e in entries if e.family == "diffusion" and e.shape == "window" and not e.auto]

    def series(values: Mapping[int, float], form: str = ".2f") -> str:
        return ", ".join(f"{name}: {value:{form}}" for name, value in values.items())

    for drafter in dict.fromkeys(entry.drafter for entry in windows):
        own = sorted((e for e in windows if e.drafter == drafter), key=lambda e: (e.gamma, e.steps))
        gamma = max(own, key=lambda e: (e.steps, e.gamma == 8)).gamma
        by_steps = {e.steps: e for e in own if e.gamma == gamma}
        if len(by_steps) > 1:
            paper = "SpecDiff, T = 3, 4, 6, 8, 10: 6.8, 7.0, 7.4, 7.45, 7.05"
            yield [f"τ by T ({drafter}, γ {gamma})", paper, series({t: e.tau for t, e in by_steps.items()})]
            paper = "SpecDiff, T = 3, 4, 6, 8, 10: 30.1, 29.5, 27.7, 25.7, 23.5"
            rates = series({t: e.tokens_per_second for t, e in by_steps.items()}, ".0f")
            yield [f"tokens/s by T ({drafter}, γ {gamma})", paper, rates]
        if len(speeds := {e.gamma: e.speedup.value for e in own if e.steps == 1}) > 2:
            paper = "SpecDiff, best at γ 10–20, smaller slightly better"
            yield [f"speed-up by γ ({drafter}, T 1)", paper, series(speeds)]
    if pair := streak_pair(entries):
        runs = [list(accumulate((a or 0.0 for a in entry.alpha_at), mul)) for entry in pair]
        reached = [series({j: run[j - 1] for j in (1, 2, 4, 8) if j <= min(map(len, runs))}) for run in runs]
        yield [
            f"chance that the first j tokens are all accepted (γ {pair[0].gamma}, T 1)",
            "SpecDiff-2, α_j at j = 1, 8, 16, 32: .55, .06, .03, .025; with streak .62, .26, .17, .155",
            "; ".join(f"{entry.drafter} {words}" for entry, words in zip(pair, reached, strict=True)),
        ]


@body.register
def _hf_baseline(result: HfBaseline) -> list[str]:
    numbers = result.result
    lanes = {entry["lane"]: entry for entry in numbers["lanes"]}
    rows = []
    for theirs in (lane for lane in lanes.values() if lane["theirs"]):
        sides = [lanes[theirs["ours"]], theirs]
        row = [text for lane in sides for text in (lane["lane"], f"{lane['tokens_per_second']:.1f}")]
        interval = bounds(theirs["low"], theirs["high"]) if numbers["prompts"] > 1 else "–"
        same = ", ".join(f"{lane['equal']}/{lane['compared']}" for lane in sides)
        rows.append([*row, f"{theirs['ratio']:.2f}×", interval, f"{theirs['ratio_wall']:.2f}×", same])
    met = {row[0] for row in rows} | {row[2] for row in rows}
    alone = [f"{name} {lane['tokens_per_second']:.1f}" for name, lane in lanes.items() if name not in met]
    return [
        "### Our lanes and transformers' own",
        f"Greedy, {result.settings['max_new_tokens']} tokens, end of text ignored; prompts: "
        f"{flavours_of(result.prompts)}; {counted(numbers['turns'], 'turn')}, in each every lane once, on the same "
        "loaded weights. Ours by its decode clock, prefill included, `generate` from call to return; by wall clock "
        "both are. The ratio pools all turns, its interval is a bootstrap over prompts. `assistant_model` is our small "
        "drafter: with our γ and no confidence threshold, with our γ and transformers' default threshold, and with all "
        "of its defaults; `dflash` is transformers' loop with our block drafter. Same text as our vanilla lane (ours, "
        f"theirs): **{numbers['equal']} of {numbers['compared']}, {numbers['ties']} parted at a tie** (two best tokens "
        f"less than {numbers['tie_below']:g} apart in log p). `generate` gets no processor, which would slow it, so it "
        "might say ids that our lanes suppress: the texts show whether it did.",
        table(
            ["ours", "tokens/s", "transformers", "tokens/s", "ratio", "95 % interval", "by wall clock", "same text"],
            rows,
        ),
        f"Lanes without a counterpart, tokens/s: {', '.join(alone)}." if alone else "",
        f"Left out: {' '.join(result.left_out)}" if result.left_out else "",
        _parted((item["lane"], item) for item in numbers["differences"]),
    ]


def _parted(differences: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """The texts that are not vanilla's; nothing where there is none."""
    lines = [
        f"- {name}, {item['prompt']}, token {item['token']}: the two best tokens are {item['margin']:.1e} apart, "
        + ("a tie" if item["tie"] else "UNEXPLAINED")
        for name, item in differences
    ]
    return "\n".join(["Texts that parted:\n", *lines]) if lines else ""


@body.register
def _forwards(result: Forwards) -> list[str]:
    rows = []
    for entry in result.entries:
        times = (entry.target_one, entry.target_verify, entry.draft_network, entry.draft)
        shares, limit = ["–"] * 3, entry.efficiency
        if limit:
            shares = [f"{limit['limit_speedup']:.2f}×", percent(limit["of_speedup"]), percent(limit["of_tokens"])]
        rows.append([entry.name, *(f"{1000 * seconds:.2f}" for seconds in times), *shares])
    return [
        "### How close the loop is to its own limit",
        f"Medians behind a context of {result.entries[0].context} tokens, in milliseconds: one target pass of "
        "width 1 (t₁) and of width γ+1 (t_verify), and a draft: its network alone (t_draft) and with the reveal of "
        "tokens. The limit is τ·t₁/(t_draft + t_verify). Reached: measured speed-up over that limit, and measured "
        "tokens/s of rounds over τ/(t_draft + t_verify). More than 100 %: the machine was slower while bare passes "
        "were timed than during the sweep.",
        table(["setting", "t₁", "t_verify", "t_draft", "with reveal", "limit", "of speed-up", "of tokens/s"], rows),
    ]


@body.register
def _split(result: Split) -> list[str]:
    parts = list(result.entries[0].seconds)
    rows = []
    for entry in result.entries:
        whole = sum(entry.seconds.values())
        shares = (f"{1000 * entry.seconds[part]:.2f} ({percent(entry.seconds[part] / whole)})" for part in parts)
        rows.append([entry.name, f"{1000 * whole:.2f}", *shares])
    return [
        "### Where the time of a round goes",
        "Mean milliseconds of a round, without the prefill, and their share: the target's network, the drafter's, the "
        "output head that both use, distributions and draws (trees and chains too), the acceptance tests, the cache, "
        "and all the rest.",
        table(["setting", "a round", *parts], rows),
    ]


@body.register
def _equality(result: Equality) -> list[str]:
    numbers = result.result
    temperatures = sorted({entry["temperature"] for entry in numbers["cells"]})
    found: dict[str, dict[float, str]] = defaultdict(dict)
    bits: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for entry in numbers["cells"]:
        name = "vanilla and generate()" if entry["cell"] == "generate" else entry["cell"]
        found[name][entry["temperature"]] = f"{entry['equal']}/{entry['compared']}"
        bits[name][0] += entry.get("bits_different", 0)
        bits[name][1] += entry.get("bits_compared", 0)
    rows = [
        [name, *(equal.get(temperature, "–") for temperature in temperatures), *_of(*bits[name])]
        for name, equal in found.items()
    ]
    lines = [
        f"- {item['cell']} at temperature {item['temperature']:g}, {item['prompt']}, token {item['token']}: the two "
        f"best tokens are {item['margin']:.1e} apart"
        for item in numbers["differences"]
    ]
    return [
        "### The same text, token for token, and the same bits",
        f"Rule `match` against vanilla at the same seed ({result.dtype}), and vanilla against "
        f"`generate(do_sample=False)`: {numbers['compared']} comparisons over {numbers['tokens']} vanilla tokens, "
        f"**{numbers['equal']} texts equal**. Bits: of the tokens that a drafted run committed, those whose logits "
        "(the target's, over the whole vocabulary) differ from vanilla's in any bit. Equal texts by temperature:",
        table(["drafter/γ/T/B/K/selection", *(f"{value:g}" for value in temperatures), "logits that differ"], rows),
        "\n".join(["Texts that parted:\n", *lines]) if lines else "",
    ]


def _of(different: int, compared: int) -> list[str]:
    return [f"{different} of {compared}" if compared else "–"]


@body.register
def _page(result: Page) -> list[str]:
    first, settings = result.first_event_seconds, result.settings
    waits = [
        [wait, str(count), f"{value['median']:.2f} s", f"{bounds(value['low'], value['high'])} s"]
        for wait, count, value in (
            ("from the command to a page that plays its recording", result.starts, result.usable_seconds),
            ("from Run to the first event on the page, pressed at once", result.starts, first["first"]),
            ("the same, models loaded", result.turns, first["later"]),
        )
    ]
    costs = []
    for lane, value in result.attached.items():
        low, high = value["interval"]
        spread = [bounds(low, high, ".3f"), bounds(value["low"], value["high"], ".3f")]
        waited = [number(result.waiting[lane][side], ".3f") for side in ("attached", "alone")]
        costs.append([lane, f"{value['median']:.3f}×", *spread, *waited])
    return [
        "### The page",
        "A real server and a real browser on the same machine, which had read the files before.",
        table(["wait", "times", "median", "lowest–highest"], waits),
        "Decode clock with the page attached (every event sent, the browser drawing) over the undisturbed clock of "
        "the same decode with no page open (the interval is a bootstrap over starts and their turns), and how many "
        f"threads had to wait for a processor (medians); for each of the {result.turns} turns of both it is a "
        f"page's second run; {settings['max_new_tokens']} tokens, {settings['drafter']} γ {settings['gamma']}, "
        f"T {settings['steps']}:",
        table(["lane", "median", "95 % interval", "lowest–highest", "threads waiting, attached", "alone"], costs),
    ]


def section(result: Result) -> str:
    """One result: its tables, and the facts and the command that make it repeatable.

    Raises:
        ConfigError: the result is not whole.
    """
    origin = result.provenance
    again = result.reaggregated if isinstance(result, Sweep) else ""
    facts = [
        f"Measured on {machine(result)}, {counted(result.threads, 'thread')}, {result.dtype}, target {result.target}",
        origin["date"] + (f" in {result.sessions} sittings" if result.sessions > 1 else ""),
        f"commit {_commit(result)}" + (f", aggregated again from its traces by commit {again}" if again else ""),
    ]
    try:
        parts = [*filter(None, body(result)), f"{'; '.join(facts)}.", f"```\n{origin['command']}\n```"]
        return "\n\n".join(parts)
    except (LookupError, TypeError, ValueError) as error:
        message = f"The result of {origin['command']!r} is not whole ({type(error).__name__}: {error})."
        raise ConfigError(message, field="results", hint="Measure it again.") from error


def machine(result: Result) -> str:
    """What computed a result: results of one machine share a section."""
    origin = result.provenance
    if result.device.startswith("cuda"):
        return origin["gpu"]
    known = origin.get("instruction_set")  # processors of different generations may have one name
    return f"{origin['cpu']}, {origin['cores']} cores" + (f", {known}" if known else "")


def _commit(result: Result) -> str:
    origin = result.provenance
    return (origin["commit"] or "no repository") + (" with local changes" if origin["dirty"] else "")


def _machine_line(results: Sequence[Result]) -> list[str]:
    """A line of the table of machines."""
    origins = [result.provenance for result in results]
    columns: list[Iterable[str]] = [
        (origin.get("instruction_set", "–") for origin in origins),
        (origin["system"] for origin in origins),
        (result.dtype for result in results),
        (str(result.threads) for result in results),
        (f"{package} {release}" for origin in origins for package, release in origin["versions"].items() if release),
        (origin["date"][:10] for origin in origins),
        map(_commit, results),
    ]
    return [machine(results[0]), *(", ".join(sorted(set(column))) for column in columns)]


def benchmarks(results: Sequence[Result], existing: str = "") -> str:
    """The whole BENCHMARKS.md: the machines of ``results`` anew, every other section of ``existing`` as it is.

    Args:
        results: in the order in which a machine's section shows them.
        existing: what the file holds so far.

    Raises:
        ConfigError: ``existing`` is another kind of file, or a result is not whole.
    """
    if existing and not existing.startswith(TITLE):
        raise ConfigError(f"That file does not begin with {TITLE!r}.", field="out", hint="Choose another file name.")
    head, *sections = existing.rstrip().split("\n## ")
    lines = [[value.strip() for value in line.strip("|").split("|")] for line in head.split("\n") if line[:1] == "|"]
    known = {line[0]: line for line in lines[2:]}
    parts = dict(text.split("\n", 1) for text in sections)
    for name in dict.fromkeys(map(machine, results)):
        own = [result for result in results if machine(result) == name]
        known[name] = _machine_line(own)
        parts[name] = "\n\n".join(map(section, own))
    written = [f"## {name}\n\n{text.strip()}" for name, text in parts.items()]
    return "\n\n".join([TITLE, INTRO, table(MACHINES, list(known.values())), *written]) + "\n"
