"""The words of the Learn and the API tab, and the title."""

from __future__ import annotations

from collections.abc import Sequence

from app.content import alignment, method_cards, workshop
from app.content.html import element
from app.tabs import race
from specdiff_core.schema.methods import BASELINE, METHODS
from specdiff_core.schema.settings import SETTINGS
from specdiff_core.schema.wording import values_words

LESSONS = (
    (
        "What you see",
        (
            "Two lanes answer the same prompt with the same target model. Vanilla spends one pass of the target per "
            "token. The drafted lane lets a small diffusion model fill a window of γ masks in T denoising steps, and "
            "then the target reads the whole window in one pass.",
            "In the draft window, rows are denoising steps and columns are positions. Hatching is a mask, a darker "
            "shade is more confidence. Below, each bar is the chance that a token is accepted and the tick is the "
            "draw u: bar above tick, the token stays. The first ✕ cuts the window, and ↻ is what the target writes "
            "instead.",
            "Both lanes were measured one after the other, after a short warm-up that is not counted. The player shows "
            "them together on one axis of decode time, slowed by the same factor.",
        ),
    ),
    (
        "Why it is exact",
        (
            "A drafted token x was drawn with probability q(x); the target gives it p(x). Accept it with probability "
            "min(1, p/q). After a refusal, draw from what p still lacks: max(0, p − q), normalised. Both together "
            "give exactly p, whatever the drafter says. At temperature 0 this is simply: keep it if it is the "
            "target's own choice.",
            "The test needs the q that a token was really drawn from, given what stands to its left. With several "
            "denoising steps that holds for left-to-right reveals; for other orders the page falls back to a stricter "
            "test and says so under the window.",
            "The rule “block” (Sun et al., 2403.10444) weighs the draft as a whole. Token by token w becomes min(1, "
            "w · p/q), from 1 on. The longest beginning stays that passes with probability R / (R + 1 − w), where R = "
            "Σ max(0, w·p − q) over all that may follow; the whole draft passes with w. This is as exact, keeps at "
            "least as many tokens, and gains most where drafts are long and the temperature is high.",
            "A computer rounds. Here the target computes a token's probabilities with the same bits whether it reads "
            "one token or a whole window. A test before the first run tries it; where it holds, windows are lossless "
            "bit for bit. The branches of a tree are summed in another order: there the last digits may differ, and a "
            "run says so.",
            "The rule “match” shares one stream of noise between drafter and target: the text is then the same as "
            "vanilla's, token by token. The rule “naive” tests p/q in any order, one reading of the published method. "
            "It is marked lossless: false, because with several steps it can change the distribution of the text.",
        ),
    ),
    (
        "More than one window",
        (
            "One pass of a denoiser gives a distribution for every position. Its most probable prefixes make a draft "
            "tree (B nodes): the target reads all branches in one pass, and its own draws walk the tree until they "
            "leave it. A tree accepts more tokens than a window of the same size, and larger trees cost more to read.",
            "Or K windows are drawn. Self-selection (SpecDiff-2) scores each by S = Σ over m of the product of p for "
            "its first m tokens, the run it is expected to survive, and tests the best as a point mass. The trie lets "
            "the target's draws walk all of them; multi-round tests one after the other on what is left of p. All "
            "three keep the target's distribution.",
            "Not every drafter denoises: a small autoregressive model needs a pass for each token, and so does EAGLE, "
            "one layer that continues the target's own hidden states (EAGLE-2 grows a tree, a pass for each depth). "
            "Prompt lookup copies from the text without any. For them T means nothing.",
            "Auto chooses γ as it goes: each round drafts as many tokens, at most those set, as earlier rounds say are "
            "worth their time, and ends a draft where the drafter doubts it. A tree from one pass gets the nodes that "
            "are worth their rows, B at most.",
            "The Markov head (DSpark) makes a chain of the block: from the same pass each token is drawn given the one "
            "before it, so that neighbours fit each other. Its trees go on from each branch with what follows there.",
        ),
    ),
    (
        "What the numbers mean",
        (
            "Speed-up: tokens per second of the drafted lane over those of vanilla, both on the decode clock. That "
            "clock counts prefill, drafting, scoring and verification. It does not count this page.",
            "τ, block efficiency: tokens per round, the target's own token included, so between 1 and γ + 1. "
            "α, acceptance rate: accepted tokens over tested ones.",
            "Drafting pays if τ is larger than the cost of a round in vanilla passes: v + c · NFE per round, where v "
            "is the cost of a pass that verifies γ + 1 tokens and c that of a drafter pass. The page also shows τ over "
            "that cost, marked as predicted.",
        ),
    ),
)

PYTHON = """from gradio_client import Client

client = Client("{origin}")
result = client.predict(
    prompt="Once upon a time, a small lighthouse",
    drafter="block", gamma=8, steps=1,
    api_name="/race",
)
print(result["speedup"], result["text"])"""

METHODS_PYTHON = """from gradio_client import Client

client = Client("{origin}")
result = client.predict(
    prompt="Once upon a time, a small lighthouse",
    methods=["eagle2", "markov_tree"],
    api_name="/race_methods",
)
for name, lane in result["lanes"].items():
    print(name, lane["speedup"], lane["tau"])"""

MCP = """{{
  "mcpServers": {{
    "specdiff": {{
      "url": "{origin}gradio_api/mcp/"
    }}
  }}
}}"""


SHELL = """python -m specdiff_core race \\
    --prompt "Once upon a time" --gamma 8
python -m specdiff_core race \\
    --prompt "Once upon a time" \\
    --methods eagle2,markov_tree --repeats 3
python -m specdiff_core decode \\
    --prompt "Once upon a time" \\
    --trace run.jsonl.gz"""


def learn(chosen: Sequence[workshop.Lesson] = workshop.WORKSHOP) -> str:
    """The lessons, the methods, and what alignment gained."""
    articles = [
        element(
            "article",
            element("h2", text=title),
            *(element("p", text=words) for words in paragraphs),
            class_="sd-lesson",
        )
        for title, paragraphs in LESSONS
    ]
    told = element("div", *articles, class_="sd-lessons")
    return workshop.section(chosen) + told + method_cards.section() + alignment.section()


def api(origin: str = "http://127.0.0.1:7860/") -> str:
    """How programs run a race. The browser replaces ``origin`` by its own address."""

    def card(title: str, words: str, code: str) -> str:
        block = element("pre", element("code", text=code), tabindex="0", class_="sd-source-code")
        return element("article", element("h2", text=title), element("p", text=words), block, class_="sd-lesson")

    found = element(
        "div",
        card(
            "Python",
            "The endpoint /race takes the settings of the Live tab and returns one JSON object: the text, the "
            "measured speed-up, whether the rule is lossless, and the numbers of both lanes.",
            PYTHON.format(origin=origin),
        ),
        card(
            "Several methods",
            "The endpoint /race_methods is the Race tab: one to five methods against vanilla, of each its measured "
            f"speed-up and its numbers. Methods: {', '.join(item.name for item in METHODS if item.name != BASELINE)}. "
            f"Beside prompt and methods it takes {', '.join(race.SETTINGS)} and include_events.",
            METHODS_PYTHON.format(origin=origin),
        ),
        card(
            "MCP",
            "Each endpoint is a tool for agents that speak the Model Context Protocol, with the same parameters.",
            MCP.format(origin=origin),
        ),
        card("Command line", "The same run without a page. “Open trace” shows the file it wrote.", SHELL),
        class_="sd-lessons sd-endpoints",
    )
    return found + parameters()


def parameters() -> str:
    """Every parameter of ``/race`` with its range and default, from the settings themselves."""
    rows = [("prompt", "text", "required", "The text to continue.")]
    for name, setting in SETTINGS.items():
        default = setting.default
        shown = "the target's" if default is None else str(default)
        rows.append((name, values_words(name), shown, setting.help))
    rows.append(("include_events", "true or false", "False", "Add every event of both lanes to the result (large)."))
    titles = ("values", "default", "meaning")
    head = element(
        "thead", element("tr", *(element("th", text=title, scope="col") for title in ("parameter", *titles)))
    )
    body = element(
        "tbody",
        *(
            element(
                "tr",
                element("th", element("code", text=name), scope="row"),
                *(element("td", text=cell, data_is=title) for cell, title in zip(cells, titles, strict=True)),
            )
            for name, *cells in rows
        ),
    )
    table = element("table", head, body, tabindex="0")
    return element("article", element("h2", text="Parameters of /race"), table, class_="sd-lesson sd-parameters")


def brand() -> str:
    """The title with its mark: two masks, a token, and the cut."""
    mark = element("span", *(element("i") for _ in range(4)), class_="sd-mark", aria_hidden="true")
    words = element(
        "div",
        element("h1", text="SpecDiff Lab"),
        element("p", text="A diffusion model drafts, the target model decides: measured, not promised."),
    )
    return element("div", mark, words, class_="sd-brand")
