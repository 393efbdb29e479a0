"""The workshop of the Learn tab: eight lessons. Each asks a question, points at a recorded result, explains it with one
formula, and ends with a check. All of it can be read without running anything.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from app.content import alignment, evidence, scenes, teaching
from app.content.html import element, escape
from app.content.method_cards import formula
from specdiff_core.schema.methods import Formula


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Where a lesson points: a moment of a recording in Live, a panel of a question, or its own figure. The rest of the
    page is dimmed."""

    words: str
    explore: str = ""  # a question of Explore or Compare,
    answer: str = ""  # which of its recorded answers; empty: the default one
    panel: str = ""  # one of its figures, by its key, "widget" or "board"
    lines: tuple[str, ...] = ()  # lines of the figure, or methods of the board; empty: all
    beside: str = ""  # a panel that follows the widget, shown beside it to a room
    query: dict[str, str] = field(default_factory=dict)  # of “Run it here”: less than was recorded
    trace: str = ""  # or a recording; “Run it here” uses its settings
    round: int = 1
    at: str = "verify"
    area: str = ""  # a selector in the player, or without a recording in this tab


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One lesson of the workshop."""

    name: str
    title: str
    predict: str  # a question
    guesses: tuple[str, ...]
    right: int  # the guess that the recording confirms (evidence.py)
    watch: Watch
    explain: tuple[str, str]
    formula: Formula
    letters: str
    check: str
    answers: tuple[str, ...]
    correct: int  # index of the right answer
    why: tuple[str, ...]  # why each is right or wrong
    core: bool = False  # one of the five to teach if time is short
    recorded: str = ""  # a recording for the check, if the visitor has no such run
    proof: str = ""  # a question whose answer the check quotes, if the lesson points elsewhere


WORKSHOP = (
    Lesson(
        name="one-pass",
        title="Why one pass can check many",
        core=True,
        predict="The target reads 17 tokens in one pass instead of 1. How much longer does that pass take?",
        guesses=("17 times as long", "About 4 times as long", "Less than twice as long"),
        right=2,
        watch=Watch(
            words="The milliseconds of one pass of the target, by the number of rows that it reads.",
            explore="what-it-takes",
            panel="passes",
            lines=("target, by rows",),
            query={"flavours": "dialogue,code", "per_flavour": "1", "tokens": "32"},
        ),
        explain=(
            "A pass must fetch every weight from memory, whether it multiplies one row with them or seventeen. With "
            "few rows, fetching takes most of the time, so further rows are nearly free. That is why speculative "
            "decoding works: checking tokens is cheap, writing them is expensive.",
            "Call c the cost of a drafter pass and v the cost of the checking pass, both in passes of one row. A round "
            "pays if it gives more tokens than it costs.",
        ),
        formula=Formula(r"\text{speed-up} = \frac{\tau}{v + c \cdot T}", "speed-up is tau over v plus c times T"),
        letters="τ: tokens per round; v: the target's pass over γ + 1 rows; c: a drafter pass; T: drafter passes.",
        check="A drafter costs nothing at all (c = 0), and none of its tokens is ever accepted. How fast is that?",
        answers=("As fast as vanilla", "A little slower than vanilla", "Faster, because drafting is free"),
        correct=1,
        why=(
            "Not quite: each round still reads γ + 1 rows, which costs v > 1 passes, and gives only one token, "
            "the target's own.",
            "Every round gives the target's own token and costs v > 1 passes.",
            "A free draft that is rejected saves no pass of the target: τ stays 1.",
        ),
    ),
    Lesson(
        name="gamma",
        title="How far to guess: γ and τ",
        core=True,
        predict="A drafter guesses each token right 8 times out of 10. You let it guess 16 at once instead of 4. "
        "What happens to the speed?",
        guesses=("Four times as fast", "About the same", "Half as fast"),
        right=1,
        watch=Watch(
            words="The speed-up over vanilla of a drafter that guesses in one pass; its window grows to the right.",
            explore="window-map",
            answer="window-map.block",
            panel="slices",
            lines=("T 1",),
            query={"gammas": "1,4,8,16", "steps": "1,4", "per_flavour": "1", "tokens": "48"},
        ),
        explain=(
            "Tokens are tested from left to right, and the first rejection ends the round: the tenth guess counts only "
            "if the nine before it were right. So the gain of each further position shrinks geometrically, while its "
            "cost does not.",
            "τ, the tokens per round, includes the one that the target adds itself, so it is at least 1 and at most "
            "γ + 1.",
        ),
        formula=Formula(
            r"E[\tau] = 1 + \sum_{m=1}^{\gamma} \prod_{j=1}^{m} \alpha_j",
            "expected tau is one plus the sum over m of the product of the first m alphas",
        ),
        letters="α_j: the chance that position j is accepted, given that it is reached.",
        check="You put the measured α into the geometric formula (1 − α^(γ+1)) / (1 − α). It predicts more tokens than "
        "the lab measures. Why?",
        answers=("The measurement is wrong", "Acceptance comes in streaks", "The bonus token is left out"),
        correct=1,
        why=(
            "The measured τ is a count of tokens, not an estimate.",
            "Easy rounds run long and contribute many accepted tests; hard rounds end at once and contribute "
            "few. So α describes the easy rounds, and predicts too many tokens for the average round.",
            "It is in the formula: the 1 in front of the sum.",
        ),
    ),
    Lesson(
        name="accept",
        title="Accept, residual, bonus",
        core=True,
        predict="The target says cat 0.6, dog 0.3, owl 0.1; the drafter says cat 0.3, dog 0.6, owl 0.1. How often is "
        "its token accepted?",
        guesses=("30 %", "60 %", "70 %"),
        right=2,
        watch=Watch(
            words="Each bar of the target has two areas: the accepted part, and the part from the residual. Drag q: "
            "their sum stays p. Then press “Draw 5,000 tokens”.",
            explore="losslessness",
            panel="widget",
            beside="three",
        ),
        explain=(
            "Lay the bars of p and q over each other. The overlap is accepted: a drafted token x passes with "
            "probability min(1, p(x)/q(x)). The part of p above the overlap is the residual; after a rejection a token "
            "is drawn from it. Overlap and residual add up to p, so the text has the target's distribution.",
            "If all γ tokens are accepted, the target's pass has also computed the distribution after the last one: a "
            "bonus token is drawn from it for free.",
        ),
        formula=Formula(
            r"\alpha = \sum_x \min(p(x), q(x)), \quad r(x) = \frac{\max(0, p(x) - q(x))}{1 - \alpha}",
            "alpha is the sum of min p q; the residual is max of zero and p minus q, over one minus alpha",
        ),
        letters="p: target; q: drafter; r: the residual, from which a rejected token is replaced.",
        check="The drafter always proposes its likeliest token, and you test it with p/q as if it were drawn from q. "
        "Is that exact?",
        answers=(
            "Yes, the test corrects everything",
            "No: an argmax has q(x) = 1, and must be tested with p alone",
            "Only at temperature 1",
        ),
        correct=1,
        why=(
            "The test assumes that x was drawn from q. An argmax was not: tokens that are likely under q are "
            "proposed too often.",
            "A certain proposal is a point mass. Accept it with probability p(x), and after a rejection draw "
            "from p without x.",
            "The temperature changes p, but the mistake is in q.",
        ),
    ),
    Lesson(
        name="denoise",
        title="Denoising a window: T and reveal orders",
        predict="A diffusion drafter fills the window in one pass, or in four. With four, are more tokens accepted?",
        guesses=("Yes, and it is faster", "Yes, but it is slower", "No"),
        right=1,
        watch=Watch(
            words="Four rows, four passes: darker cells have a higher confidence. Later passes see the tokens of "
            "earlier ones. The lines above compare the same place drafted in one pass.",
            trace="dialogue-four-denoising-steps.jsonl.gz",
            round=9,
            at="verify",
            area=".sd-window .sd-gridwrap",
        ),
        explain=(
            "In one step all positions are drawn independently, so neighbours may not fit together. With more steps, "
            "later positions see earlier ones and τ rises a little, but every step costs a drafter pass.",
            "The order in which masks are revealed matters for the test: if a later position was drawn before an "
            "earlier one, testing the earlier one changes the later one's distribution. The exact rule then treats the "
            "token as a point mass.",
        ),
        formula=Formula(
            r"\text{more steps pay if}\quad \frac{\tau_T}{v + c\,T} > \frac{\tau_1}{v + c}",
            "more steps pay if tau T over v plus c T exceeds tau one over v plus c",
        ),
        letters="τ_T: tokens per round with T steps; c: a drafter pass; v: the target's pass.",
        check="When do two steps beat one?",
        answers=("Always: more passes, better drafts", "When τ grows by more than c/(v + c)", "Never"),
        correct=1,
        why=(
            "Better drafts, yes; but the second pass must earn its own cost.",
            "Then the quotient grows. The cheaper a drafter pass is beside a target pass, the smaller the gain "
            "it needs.",
            "They do with a cheap drafter and text in which neighbouring tokens depend on each other.",
        ),
    ),
    Lesson(
        name="temperature",
        title="Temperature and calibration",
        core=True,
        predict="The target samples at temperature 1 instead of taking its likeliest token. What happens to the "
        "acceptance rate?",
        guesses=("It rises", "It stays", "It falls"),
        right=2,
        watch=Watch(
            words="Rows are temperatures of the target, columns of the drafter; a cell holds τ.",
            explore="temperature",
            panel="tau",
            query={"temperatures": "0,1", "draft_temperatures": "0,0.5,1", "per_flavour": "1", "tokens": "48"},
        ),
        explain=(
            "At temperature 0 it is enough to guess the likeliest token. When the target samples, the whole "
            "distribution must match: the overlap of p and q counts, and an overconfident drafter loses much of it.",
            "The drafter's temperature is free: under an exact rule it changes the acceptance rate, never the text's "
            "distribution. So you can tune it.",
        ),
        formula=Formula(
            r"\alpha = 1 - \mathrm{TV}(p, q) = 1 - \tfrac{1}{2}\sum_x |p(x) - q(x)|",
            "alpha is one minus the total variation distance of p and q",
        ),
        letters="TV: total variation, half the sum of all differences.",
        check="Where does the temperature enter the test p/q?",
        answers=("After the test, on the text", "In both p and q, before the ratio", "Only in p"),
        correct=1,
        why=(
            "Then the text would not have the distribution you want.",
            "p is the distribution that you want to sample from, and q the one that the token was actually drawn from.",
            "Then q would not be what the token was drawn from, and the test would be biased.",
        ),
    ),
    Lesson(
        name="alignment",
        title="Alignment and K drafts",
        recorded="dialogue-self-selection-of-four-drafts-specdiff-2.jsonl.gz",
        predict="You may make one position of the window better. Which one adds most?",
        guesses=("The first", "The middle one", "The last"),
        right=0,
        watch=Watch(
            words="How often each position is accepted, by the drafter mdlm and by its twin, which was trained further "
            "by streak-distillation; and the speed where the target chooses among K drafts.",
            area="#sd-aligned",
        ),
        explain=(
            "A better first position adds most, because everything after it counts only if it is accepted. Streak-"
            "distillation (SpecDiff-2) trains for exactly that: a large expected length of the accepted run.",
            "When decoding, K windows can be drawn from one pass; the target scores them and the most promising one is "
            "tested (self-selection). The chosen window is not a sample from q, so it is tested as a point mass.",
        ),
        formula=Formula(
            r"S = \sum_{m=1}^{\gamma} \prod_{j=1}^{m} p(x_j)",
            "S is the sum over m of the product of p of the first m tokens",
        ),
        letters="S: the expected number of accepted tokens.",
        check="Self-selection picks the draft that the target likes best. May it then be tested with p/q?",
        answers=("Yes: all drafts were drawn from q", "No: choosing changes its distribution", "Only if K is 2"),
        correct=1,
        why=(
            "Each was; the chosen one was not. With p = q = (.6, .4) and two drafts, a would come out 84 % of "
            "the time.",
            "So it counts as a point mass: it is accepted with probability p, and after a rejection a token is "
            "drawn from p without it.",
            "Any choice that looks at the tokens changes it.",
        ),
    ),
    Lesson(
        name="trees",
        title="Trees",
        predict="A draft tree of 9 nodes, or a window of 9: which gives more tokens per round?",
        guesses=("The tree", "The window", "It depends on the temperature"),
        right=2,
        watch=Watch(
            words="DFlash is a window and DDTree a tree of the same drafter. Compare τ; then press temperature 1.",
            explore="compare",
            panel="board",
            lines=("Block diffusion, draft tree (DDTree)", "Block diffusion (DFlash)", "Vanilla"),
        ),
        explain=(
            "The last positions of a long window are almost never reached. A tree spends the same rows on alternatives "
            "near its root: if the first guess is rejected, the second may be accepted. All branches are read in one "
            "pass, and the target's own draws choose the path through the tree, which is exact for any tree.",
            "At temperature 0 this pays. When the target samples, it pays less: the tree's guesses were chosen, not "
            "drawn from q, so they are tested with p alone. The window's are tested with p/q, which accepts more.",
        ),
        formula=Formula(
            r"E[\tau] = 1 + \sum_{\text{nodes}} \prod_{\text{path}} \alpha",
            "expected tau is one plus the sum over nodes of the product along their path",
        ),
        letters="Each node adds the chance that the target's path reaches it.",
        proof="what-it-takes",
        check="Why not a tree of 64 nodes?",
        answers=(
            "It would no longer be exact",
            "Each further node adds less, and its row costs the same",
            "The drafter would need 64 passes",
        ),
        correct=1,
        why=(
            "Any tree is exact: the target's own draw decides.",
            "The best nodes come first. Nodes that are rarely reached cost more than they gain.",
            "One pass of the block drafter ranks them all.",
        ),
    ),
    Lesson(
        name="lossless",
        title="Is it lossless?",
        core=True,
        predict="A rule is wrong: it changes P(heads, heads) from ¼ to ⅜. After how many runs would you see it?",
        guesses=("About 10", "About 100", "More than 10,000"),
        right=1,
        watch=Watch(
            words="The line is the wrong rule. The shaded band is noise: it falls with more runs, and an exact "
            "rule stays inside.",
            explore="losslessness",
            panel="distances",
            lines=("noise: 99 % of exact samples stay below", "noise: mean", "naive (not exact)"),
            query={"models": "coins", "order": "max_prob", "runs": "2000"},
        ),
        explain=(
            "Lossless means that the text has the target's joint distribution. Two samples of one distribution still "
            "differ. To see a bias, draw often and compare joint distributions of several tokens: the first token "
            "alone may be right while the pair is wrong.",
            "Rounding is another source of differences: if a window is computed with other kernels than single tokens, "
            "near ties may be decided differently. Here windows are computed bit for bit like single tokens, and each "
            "run reports it.",
        ),
        formula=Formula(
            r"\mathrm{TV}(\hat p_N, p) \approx \frac{1}{\sqrt{2 \pi N}} \sum_x \sqrt{p(x)(1 - p(x))}",
            "the distance of N samples to their own distribution falls as one over the square root of N",
        ),
        letters="N: runs. A bias becomes visible when it is larger than this.",
        check="At temperature 0 every drafted text equals vanilla's. Does that prove the sampling rule right?",
        answers=(
            "Yes: equal is equal",
            "No: it says nothing about temperature 1",
            "Only together with the drafter's temperature",
        ),
        correct=1,
        why=(
            "At temperature 0 every rule, even a wrong one, accepts exactly the likeliest token.",
            "At temperature 1 the rule decides, and only a proof or the distribution of many draws shows "
            "whether it is right.",
            "The drafter's temperature is free under an exact rule.",
        ),
    ),
)


FIGURES = {"#sd-aligned": alignment.figures}
"""Figures inside a lesson, by the selector that it points at."""


def lessons(chosen: Sequence[Lesson] = WORKSHOP) -> list[dict[str, Any]]:
    """The lessons as JSON values for the page's script; ``truth`` answers each first question."""

    def answers(lesson: Lesson) -> list[dict[str, Any]]:
        pairs = zip(lesson.answers, lesson.why, strict=True)
        return [{"words": words, "right": i == lesson.correct, "why": why} for i, (words, why) in enumerate(pairs)]

    return [
        {**dataclasses.asdict(lesson), "answers": answers(lesson), "truth": evidence.truth(lesson.name)}
        for lesson in chosen
    ]


def letters(words: str) -> str:
    """The meanings of a formula's letters as HTML; ``α_j`` gets a subscript."""
    return re.sub(r"_(\w)", r"<sub>\1</sub>", escape(words))


def article(number: int, lesson: Lesson) -> str:
    """A lesson to read and to print. Its explanation is hidden until the question is answered or skipped."""
    start = element(
        "button",
        text="Start",
        type="button",
        class_="sd-start",
        data_lesson=lesson.name,
        aria_label=f"Start the lesson: {lesson.title}",
    )
    figure = element(
        "figure",
        formula(lesson.formula),
        element("figcaption", letters(lesson.letters)),
        class_="sd-formula",
        tabindex="0",
    )
    solved = (
        element("li", text=f"{'✓' if i == lesson.correct else '✕'} {words}. {why}")
        for i, (words, why) in enumerate(zip(lesson.answers, lesson.why, strict=True))
    )
    return element(
        "article",
        element("header", element("h3", text=f"{number}. {lesson.title}"), start),
        element("p", text=lesson.predict, class_="sd-predict"),
        element("ol", *(element("li", text=words) for words in lesson.guesses), type="a"),
        element("p", class_="sd-guessed"),
        element("button", text="Skip the question: show the explanation", type="button", class_="sd-link sd-skip"),
        element(
            "div",
            element("p", text=evidence.truth(lesson.name), class_="sd-truth"),
            scenes.scene(lesson.name),
            *([evidence.read(FIGURES[lesson.watch.area])] if lesson.watch.area in FIGURES else []),
            *(element("p", text=words) for words in lesson.explain),
            figure,
            class_="sd-explained",
        ),
        element(
            "div",
            element("p", element("b", text="Check. "), element("span", text=lesson.check)),
            element("ol", *(element("li", text=words) for words in lesson.answers), type="a"),
            element("details", element("summary", text="Answers"), element("ul", *solved), class_="sd-answers"),
            class_="sd-check",
        ),
        class_="sd-lesson sd-workshop-lesson",
        id=f"lesson-{lesson.name}",
    )


def contents(chosen: Sequence[Lesson]) -> str:
    """Links to the lessons; the page's script marks those that are done."""

    def entry(lesson: Lesson) -> str:
        core = element("span", text="core" if lesson.core else "", class_="sd-core")
        done = element("span", class_="sd-done", data_done=lesson.name)
        return element("li", element("a", text=lesson.title, href=f"#lesson-{lesson.name}"), core, done)

    return element("nav", element("ol", *map(entry, chosen)), class_="sd-contents", aria_label="Lessons")


def section(chosen: Sequence[Lesson] = WORKSHOP) -> str:
    """The workshop."""
    many = "Eight lessons in 45 minutes; if you have less time, start with those marked “core”. "
    lead = (
        f"{many if chosen == WORKSHOP else ''}Each asks a question, shows a recorded run, explains it and ends "
        "with a check that uses your own numbers if you have measured any. The same sentence appears in all of them: ✓ "
        "marks an accepted guess, ✕ a rejected one, dots an untested one, + the target’s own token. Your answers stay "
        "in this browser."
    )
    buttons = element(
        "p",
        element("span", class_="sd-progress", aria_live="polite"),
        element("button", text="Print as a worksheet", type="button", class_="sd-link sd-print"),
        element("button", text="Present to a room", type="button", class_="sd-link sd-present"),
        class_="sd-workshop-bar",
    )
    return element(
        "section",
        element("h2", text="Workshop", id="sd-workshop"),
        element("p", text=lead, class_="sd-lead"),
        buttons,
        contents(chosen),
        teaching.guide() if chosen == WORKSHOP else "",
        element("div", *(article(number, lesson) for number, lesson in enumerate(chosen, 1)), class_="sd-workshop"),
        class_="sd-chapter",
        aria_labelledby="sd-workshop",
    )
