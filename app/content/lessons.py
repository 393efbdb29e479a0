"""The words of the Learn and the API tab, and the title."""

from __future__ import annotations

from collections.abc import Sequence

from app.content import method_cards, workshop
from app.content.html import element
from app.tabs import race
from specdiff_core.schema.methods import BASELINE, METHODS
from specdiff_core.schema.settings import SETTINGS
from specdiff_core.schema.wording import values_words

PYTHON = """from gradio_client import Client

client = Client("http://127.0.0.1:7860/")
result = client.predict(
    prompt="Once upon a time, a small lighthouse",
    drafter="block", gamma=8, steps=1,
    api_name="/race",
)
print(result["speedup"], result["text"])"""

METHODS_PYTHON = """from gradio_client import Client

client = Client("http://127.0.0.1:7860/")
result = client.predict(
    prompt="Once upon a time, a small lighthouse",
    methods=["eagle2", "markov_tree"],
    api_name="/race_methods",
)
for name, lane in result["lanes"].items():
    print(name, lane["speedup"], lane["tau"])"""

MCP = """{
  "mcpServers": {
    "specdiff": {
      "url": "http://127.0.0.1:7860/gradio_api/mcp/"
    }
  }
}"""

SHELL = """python -m specdiff_core race \\
    --prompt "Once upon a time" --gamma 8
python -m specdiff_core race \\
    --prompt "Once upon a time" \\
    --methods eagle2,markov_tree --repeats 3
python -m specdiff_core decode \\
    --prompt "Once upon a time" \\
    --trace run.jsonl.gz"""


def learn(chosen: Sequence[workshop.Lesson] = workshop.WORKSHOP) -> str:
    """The workshop and the methods."""
    return workshop.section(chosen) + method_cards.section()


def api() -> str:
    """How programs run a race. The browser replaces 127.0.0.1 with its own address."""

    def card(title: str, words: str, code: str) -> str:
        block = element("pre", element("code", text=code), tabindex="0", class_="sd-source-code")
        return element("article", element("h2", text=title), element("p", text=words), block, class_="sd-lesson")

    found = element(
        "div",
        card(
            "Python",
            "The endpoint /race takes the settings of the Live tab and returns one JSON object: the text, the "
            "measured speed-up, whether the rule is lossless, and the numbers of both lanes.",
            PYTHON,
        ),
        card(
            "Several methods",
            "The endpoint /race_methods runs one to five methods against vanilla, like the Race "
            "tab, and returns their speed-ups and numbers. Methods: "
            f"{', '.join(item.name for item in METHODS if item.name != BASELINE)}. Besides prompt "
            f"and methods it takes {', '.join(race.SETTINGS)} and include_events.",
            METHODS_PYTHON,
        ),
        card(
            "MCP",
            "Each endpoint is a tool for agents that speak the Model Context Protocol, with the same parameters.",
            MCP,
        ),
        card("Command line", "The same runs in a terminal. “Open trace” plays the file that --trace writes.", SHELL),
        class_="sd-lessons",
    )
    return found + parameters()


def parameters() -> str:
    """Every parameter of ``/race`` with its range and default, from the settings themselves."""
    rows = [("prompt", "text", "required", "The text to continue.")]
    for name, setting in SETTINGS.items():
        default = setting.default
        shown = "the target's" if default is None else str(default) or "none"
        rows.append((name, values_words(setting), shown, setting.help))
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
        element("p", text="A diffusion model drafts, the target model decides, and every timing is measured."),
    )
    return element("div", mark, words, class_="sd-brand")
