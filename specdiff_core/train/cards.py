"""Writes a model's card: what it is, what it was trained on, how well it does, and the commands that made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from specdiff_core.schema.history import HISTORY, Training, write_history

FAMILY = "Llama-Tales"

OWN_CORPUS = "a48bc272a7d6"
"""Fingerprint of the text that this project's own models learned from; the credits below belong to no other text."""

CREDITS = """\
- **stories** (MIT; samples of TinyStories under CDLA-Sharing-1.0; picture-book texts under CC-BY 4.0):
  klusai/tinyfabulist, erikhyrkas/snakes; TinyStories samples in mines-opt-ml/decoding-gpt, ToonTalk/jlens-tinystories,
  yuninxia/moe-routing-bench, s-ajaykumar/smallGPT, Niklas6/Mini_GPT; global-asp/pb-source, global-asp/asp-source,
  bookdash/bookdash-books
- **dialogue** (CC-BY-SA 4.0; a part CC-BY 4.0): google-research-datasets/dstc8-schema-guided-dialogue and
  google-research-datasets/Taskmaster (TM-4)
- **math** (MIT): openai/grade-school-math, training split and numeric variants of it
- **code** (MIT; a part CC-BY-SA 4.0): TheAlgorithms/Python, doocs/leetcode, walkccc/LeetCode, neetcode-gh/leetcode,
  keon/algorithms, exercism/python, trekhleb/learn-python, kamyu104/LeetCode-Solutions"""

NOTICE = """\
**Built with Llama.** A large part of the stories is output of Llama 3.1 that its authors published under MIT; hence the
leading `Llama-` in the name. Story, dialogue and code sources ask for attribution (CC-BY), and parts for sharing alike
(CC-BY-SA, CDLA-Sharing): keep this card with the weights. The text itself is not distributed. A toy of its size: it
invents facts, and must not be used for advice of any kind."""

OTHER_CREDITS = "Trained on a corpus of your own. Before you share these weights, name its sources and licences here."

SUMMARIES = {
    "mdlm": "A masked discrete diffusion model (MDLM, arXiv 2406.07524) that drafts for its target as in SpecDiff "
    "(arXiv 2408.05636): trained with the SUBS objective, then on windows of masks with the target's own "
    "distribution as labels, many of them in text that the target wrote. Format of `kuleshov-group/mdlm-owt`.",
    "mdlm_streak": "The masked discrete diffusion drafter aligned with its target by streak-distillation "
    "(SpecDiff-2, arXiv 2511.00606): fully masked windows of text that the target wrote, weighted by the "
    "probability that all tokens to the left are accepted. Format of `kuleshov-group/mdlm-owt`.",
    "block": "A target-conditioned block-diffusion drafter (DFlash, arXiv 2602.06036): it reads its target's "
    "hidden states and uses its embedding and head. Trained on random anchors and mask ratios with the target's "
    "own distribution as labels, mostly on text the target wrote. Format of the released DFlash checkpoints.",
    "block_markov": "A target-conditioned block-diffusion drafter (DFlash, arXiv 2602.06036) with a Markov head: "
    "a token of its block depends on the one before it (as in DSpark, arXiv 2607.05147; here the head moves the "
    "hidden state and the target's own head reads it). Begun from the drafter without it, trained in the same way. "
    "Format of the released DFlash checkpoints, with three matrices more and `markov_width` in `dflash_config`.",
    "autoregressive": "A small autoregressive drafter, as in standard speculative sampling (arXiv 2211.17192, "
    "2302.01318): a stock `LlamaForCausalLM` that learned the target's distributions (arXiv 2310.08461), mostly on "
    "text the target wrote.",
    "eagle": "EAGLE's head (arXiv 2401.15077, and with a dynamic tree EAGLE-2, 2406.16858): one decoder layer that "
    "continues its target's last hidden states, between the target's own embedding and head; trained on its "
    "distributions and features over three readings of each row, mostly on text the target wrote. Names and shapes "
    "of the released EAGLE checkpoints.",
}
"""What the card of each kind of drafter says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The facts of one trained model."""

    name: str
    summary: str
    shape: str
    history: Sequence[Training]  # every run since the first weights, in order
    scores: Mapping[str, float]
    score_name: str
    samples: Mapping[str, str] = field(default_factory=dict)  # flavour -> text, prompt included
    tags: tuple[str, ...] = ()


def render_card(card: Card) -> str:
    """The card as Markdown with hub front matter; this project's credits stand on it only if the text was its own."""
    own = all(run.corpus == OWN_CORPUS for run in card.history)
    tokens = sum(run.tokens for run in card.history)
    tags = "\n".join(f"- {tag}" for tag in ("specdiff", "speculative-decoding", *card.tags))
    runs = "\n".join(
        f"- {run.steps:,} steps, {run.tokens:,} tokens, {run.seconds / 60:.0f} minutes of training on {run.hardware}; "
        f"seed {run.seed}, corpus fingerprint `{run.corpus}`, commit `{run.commit}`:\n  `{run.command}`"
        for run in card.history
    )
    table = "\n".join(f"| {name} | {value:.3f} |" for name, value in card.scores.items())
    parts = [
        f"---\nlicense: other\nlicense_name: mixed-see-card\nlanguage: en\ntags:\n{tags}\n---",
        f"# {card.name if own else card.name.replace(FAMILY, 'Own')}\n\n{card.summary}"
        + (f"\n\n{NOTICE}" if own else ""),
        f"## Shape and training\n\n{card.shape}\n\n"
        f"{tokens:,} tokens of text seen, in this order (a later run begins with the weights of the one before):\n\n"
        f"{runs}",
        f"## {card.score_name}\n\n| flavour | value |\n|---|---|\n{table}",
        f"## Data and credits\n\n{CREDITS if own else OTHER_CREDITS}",
    ]
    if card.samples:
        samples = "\n\n".join(f"**{name}**\n\n```text\n{text}\n```" for name, text in card.samples.items())
        parts.append(f"## Samples (greedy, unseen prompts)\n\n{samples}")
    return "\n\n".join(parts) + "\n"


def write_card(card: Card, folder: Path) -> Path:
    """Put the card, and the history of the runs on it, beside the weights."""
    write_history(folder / HISTORY, card.history)
    path = folder / "README.md"
    path.write_text(render_card(card), encoding="utf-8")
    return path
