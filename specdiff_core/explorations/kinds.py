"""Constrained and repetitive text (the fourth open question of SpecDiff, arXiv 2408.05636): which tokens are drafted
well. Every tested token counts by what it is, by its text, and by how sure the target was of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from specdiff_core.explorations.base import DRAFTING, Answer, AtTemperature, Step, Stopped, drafters_of, enum
from specdiff_core.explorations.runs import Runs
from specdiff_core.schema.events import Event, Finished, Verified
from specdiff_core.schema.methods import find_method

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

ENTROPIES = (0.01, 0.1, 0.3, 0.6, 1.0, 1.5, 2.2, 3.0)
"""Borders between classes of the target's entropy, nats."""
Z = 1.96


class Kinds(AtTemperature, frozen=True, kw_only=True):
    """Acceptance by kind of token, by kind of text, and by the target's entropy."""

    name: ClassVar = "kinds-of-text"
    title: ClassVar = "Kinds of text"
    question: ClassVar = "Which tokens does a drafter guess, and which only the target knows?"

    method: Annotated[
        str, Meta(title="Method", description="What drafts.", extra_json_schema=enum(DRAFTING, "methods"))
    ] = "dflash"
    tokens: Annotated[
        int, Meta(ge=32, le=256, title="New tokens", description="Of each run; the end of a text is ignored.")
    ] = 128
    per_flavour: Annotated[
        int, Meta(ge=1, le=5, title="Prompts of each kind", description="More prompts, narrower intervals.")
    ] = 5

    @property
    def drafters(self) -> tuple[str, ...]:
        """See :class:`~specdiff_core.explorations.base.Exploration`."""
        return drafters_of(self.pair, (self.method,))

    def explore(self, engine: Engine, stopped: Stopped) -> Iterator[Step]:
        """See :class:`~specdiff_core.explorations.base.Exploration`."""
        prompts, skipped = self.prompts(engine)
        runs = Runs(engine, self.base, {self.method: find_method(self.method).config(self.base)}, prompts, stopped)
        counts: dict[tuple[str, str], list[bool]] = {}
        examples: dict[str, list[str]] = {}

        def answer() -> Answer:
            rows = [_row(group, name, found) for (group, name), found in sorted(counts.items(), key=_order)]
            failed = [f"{find_method(self.method).label}: {why}" for why in runs.failed.values()]
            facts = {"skipped": [*skipped, *failed], "examples": examples, **runs.facts()}
            return Answer(rows=rows, facts=facts, races=runs.races)

        for done, total, key in runs.fill():
            prompt = prompts[done - 1]
            if key not in runs.failed:
                before = engine.encode(prompt.prompt, self.base)
                for piece, kind, entropy, accepted in judged(engine, before, runs.events):
                    for group, name in (("text", prompt.flavour), ("token", kind), ("entropy", _class(entropy))):
                        counts.setdefault((group, name), []).append(accepted)
                    shown, own = piece.strip() or repr(piece)[1:-1], examples.setdefault(kind, [])
                    if len(own) < 8 and shown not in own:
                        own.append(shown)
            yield Step(done, total, prompt.id, answer)


def judged(engine: Engine, before: Sequence[int], events: Sequence[Event]) -> Iterator[tuple[str, str, float, bool]]:
    """Of every position that a round tested: the token that came to stand there, its kind, the target's entropy in
    nats, and whether it was the drafted one. One pass over the whole text gives the entropies."""
    import torch

    last = next(event for event in events if isinstance(event, Finished))
    ids = [*before, *last.ids]
    run = engine.target.start()
    run.read(ids[: len(before) - 1])
    logits = run.score(ids[len(before) - 1 : -1]).logits.double()
    logits[:, list(engine.target.suppress)] = -math.inf
    logs = torch.log_softmax(logits, -1)
    entropies = -(logs.exp() * logs.nan_to_num(neginf=0.0)).sum(-1)
    decode: Any = engine.pair.tokenizer.decode
    place = 0
    for event in events:
        if isinstance(event, Verified):
            tested = min(event.accepted + (event.source == "residual"), len(last.ids) - place)
            for i in range(tested):
                token = last.ids[place + i]
                line = decode(ids[: len(before) + place + i]).rsplit("\n", 1)[-1]
                piece = decode([token])
                yield piece, kind_of(piece, line), float(entropies[place + i]), i < event.accepted
            place += event.accepted + 1


def kind_of(piece: str, line: str) -> str:
    """What a token is, in words: a number, a name, a line end, the rest of a word, ….

    Args:
        line: the text before it on its line.
    """
    word = piece.strip(" ")
    if "\n" in piece:
        return "line end"
    if not word:
        return "indentation" if not line.strip() else "symbol"
    if re.fullmatch(r"[\d.,:$%]*\d[\d.,:$%]*", word):
        return "number"
    if not re.search(r"\w", word):
        return "quotation mark" if re.search(r"[\"“”']", word) else "symbol"
    if not piece.startswith(" ") and line and line[-1].isalnum():
        return "end of a word"
    sentence = line.rstrip()
    if word[0].isupper() and sentence and sentence[-1] not in '.?!:"“>':
        return "name"
    return "inside quotation marks" if line.count('"') % 2 else "word"


def _class(entropy: float) -> str:
    low = max((border for border in ENTROPIES if border <= entropy), default=0.0)
    high = min((border for border in ENTROPIES if border > entropy), default=math.inf)
    return f"{low:g} to {high:g}" if high < math.inf else f"{low:g} and more"


def _order(item: tuple[tuple[str, str], list[bool]]) -> tuple[str, float, str]:
    (group, name), found = item
    return group, float(name.split()[0]) if group == "entropy" else -sum(found) / len(found), name


def _row(group: str, name: str, found: list[bool]) -> dict[str, Any]:
    """The share accepted with its 95 % Wilson interval."""
    n = len(found)
    share = sum(found) / n
    middle = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n)) / (1 + Z * Z / n)
    return {"group": group, "name": name, "tested": n, "accepted": share, "low": middle - half, "high": middle + half}
