"""Draws the referee's result as Markdown: a row for each of transformers' loops, beside ours. Knows no maths."""

from __future__ import annotations

from specdiff_core.bench.markdown import Result, number, table


def referee_section(result: Result) -> str:
    """Our lanes against transformers' own loops."""
    fold = result["result"]
    lanes = {entry["lane"]: entry for entry in fold["lanes"]}

    def same(name: str) -> str:
        return f"{lanes[name]['equal']}/{lanes[name]['compared']}"

    rows = []
    for pair in fold["pairs"]:
        interval = f"{pair['low']:.2f}–{pair['high']:.2f}" if fold["prompts"] > 1 else "–"
        speeds = [number(lanes[pair[side]]["tokens_per_second"], ".1f") for side in ("ours", "theirs")]
        wall, texts = f"{pair['ratio_wall']:.2f}×", f"{same(pair['ours'])}, {same(pair['theirs'])}"
        ratio = f"{pair['ratio']:.2f}×"
        rows.append([pair["ours"], speeds[0], pair["theirs"], speeds[1], ratio, interval, wall, texts])
    alone = [entry["lane"] for entry in fold["lanes"] if entry["lane"] not in {pair["ours"] for pair in fold["pairs"]}]
    alone = [f"{name} {number(lanes[name]['tokens_per_second'], '.1f')}" for name in alone if not lanes[name]["stock"]]
    counts = ", ".join(f"{name} {count}" for name, count in result["prompts"].items())
    parted = [
        f"- {item['lane']}, {item['prompt']}, token {item['token']}: the two best tokens are {item['margin']:.1e} "
        f"apart, {'a tie' if item['tie'] else 'UNEXPLAINED'}"
        for item in fold["differences"]
    ]
    turns = "1 turn" if fold["turns"] == 1 else f"{fold['turns']} turns"
    head = ["ours", "tokens/s", "transformers", "tokens/s", "ratio", "95 % interval", "by wall clock", "same text"]
    return "\n\n".join(
        [
            "## The referee: transformers itself",
            f"Greedy, {result['settings']['max_new_tokens']} tokens, end of text ignored; prompts: {counts}; {turns}, "
            "in each every lane once, on the same loaded weights. Ours by its decode clock, prefill included, "
            "`generate` from call to return; by wall clock both are. The ratio pools all turns, its interval is a "
            "bootstrap over prompts. `assistant_model` is our own small drafter: with our γ and no confidence "
            "threshold, with our γ and transformers' default threshold, and with all of its defaults; `dflash` is "
            "transformers' loop with our block drafter. Same text: runs whose tokens are those of our vanilla lane "
            "(ours, theirs). Our lanes never say the ids that the pair suppresses; `generate` is given no processor, "
            "which would slow it, so the texts tell whether that ever mattered: "
            f"**{fold['equal']} of {fold['compared']} are the same, {fold['ties']} parted at a tie** (two best tokens "
            f"less than {fold['tie_below']:g} apart in log p).",
            table(head, rows),
            *([f"Lanes without a counterpart, tokens/s: {', '.join(alone)}."] if alone else []),
            *([f"Left out: {' '.join(result['left_out'])}"] if result["left_out"] else []),
            *(["Texts that parted:", "\n".join(parted)] if parted else []),
        ]
    )
