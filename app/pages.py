"""The words of the Learn and the API tab, and the head of the page. Knows prose and escaping, no settings of a run."""

from __future__ import annotations

from app.html import element

LESSONS = (
    (
        "What you see",
        (
            "Two lanes answer the same prompt with the same target model. Vanilla spends one pass of the target per "
            "token. The drafted lane lets a small diffusion model fill a window of γ masks in T denoising steps, and "
            "then the target reads the whole window in one pass.",
            "In the draft window, rows are denoising steps and columns are positions. Hatching is a mask, a darker "
            "shade is more confidence. Below, each bar is the chance that a token is accepted and the tick is the "
            "draw u: bar above tick, the token stays. The first ✕ cuts the window.",
            "Both lanes were measured one after the other. The player shows them together on one axis of decode "
            "time, slowed by the same factor.",
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
            "The rule “match” shares one stream of noise between drafter and target: the text is then the same as "
            "vanilla's, token by token. The rule “naive” is the published shortcut for several steps. It is marked "
            "lossless: false, because it changes the law of the text.",
        ),
    ),
    (
        "What the numbers mean",
        (
            "Speed-up: tokens per second of the drafted lane over those of vanilla, both on the decode clock. That "
            "clock counts prefill, drafting, scoring and verification. It does not count this page.",
            "τ, block efficiency: tokens per round, the target's own token included, so between 1 and γ + 1. "
            "α, acceptance rate: accepted tokens over tested ones.",
            "Drafting pays if τ is larger than the cost of a round in target passes: 1 + c · NFE, where c is the cost "
            "of a drafter pass. The page shows that quotient too, marked as predicted.",
        ),
    ),
)

PYTHON = """from gradio_client import Client

client = Client("{origin}")
result = client.predict(
    prompt="Once upon a time, a small lighthouse",
    drafter="block", gamma=8, steps=1, temperature=0.0,
    api_name="/race",
)
print(result["speedup"], result["lossless"], result["text"])"""

MCP = """{{
  "mcpServers": {{
    "specdiff": {{ "url": "{origin}gradio_api/mcp/" }}
  }}
}}"""


def learn() -> str:
    """Three cards."""
    cards = [
        element("article", element("h3", text=title), *(element("p", text=words) for words in paragraphs), class_="sd-lesson")
        for title, paragraphs in LESSONS
    ]
    return element("div", *cards, class_="sd-lessons")


def api(origin: str = "http://127.0.0.1:7860/") -> str:
    """How programs run a race. The browser replaces ``origin`` by its own address."""
    python = element("pre", element("code", text=PYTHON.format(origin=origin)), tabindex="0", class_="sd-source-code")
    mcp = element("pre", element("code", text=MCP.format(origin=origin)), tabindex="0", class_="sd-source-code")
    return element(
        "div",
        element(
            "article",
            element("h3", text="Python"),
            element("p", text="One endpoint, /race, takes the settings of the Live tab and returns one JSON object: the "
                    "text, the measured speed-up, whether the rule is lossless, and the numbers of both lanes."),
            python,
            class_="sd-lesson",
        ),
        element(
            "article",
            element("h3", text="MCP"),
            element("p", text="The same endpoint is a tool for agents that speak the Model Context Protocol."),
            mcp,
            class_="sd-lesson",
        ),
        element(
            "article",
            element("h3", text="Command line"),
            element("p", text="The same run without a page; the trace opens here."),
            element(
                "pre",
                element("code", text='python -m specdiff_core race --prompt "Once upon a time" --gamma 8\n'
                        'python -m specdiff_core decode --prompt "Once upon a time" --trace run.jsonl.gz'),
                tabindex="0",
                class_="sd-source-code",
            ),
            class_="sd-lesson",
        ),
        class_="sd-lessons",
    )


def brand() -> str:
    """The title with its mark: two masks, a token, and the cut."""
    mark = element("span", *(element("i") for _ in range(4)), class_="sd-mark", aria_hidden="true")
    words = element(
        "div",
        element("h1", text="SpecDiff Lab"),
        element("p", text="A diffusion model drafts, the target model decides. The same text law, measured faster."),
    )
    return element("div", mark, words, class_="sd-brand")
