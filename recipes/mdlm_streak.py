"""The masked-diffusion drafter aligned with its target (SpecDiff-2): python recipes/mdlm_streak.py --corpus DIR

It begins with the trained drafter and goes on with streak distillation: whole windows of text that
the target wrote, in which a slot weighs as much as all tokens before it are likely to be accepted.
"""

from __future__ import annotations

import sys
from pathlib import Path

import mdlm
from common import SHIPPED, run

SUMMARY = (
    "The masked discrete diffusion drafter aligned with its target by streak-distillation "
    "(SpecDiff-2, arXiv 2511.00606): fully masked windows of text that the target wrote, weighted "
    "by the probability that all tokens to the left are accepted. Format of "
    "`kuleshov-group/mdlm-owt`."
)


def main(settings: mdlm.Settings) -> Path:
    return mdlm.main(settings, "mdlm_streak", SUMMARY)


if __name__ == "__main__":
    sys.exit(run(main, mdlm.Settings(start=SHIPPED / "mdlm", share=1.0, whole=1.0, streak=1.0)))
