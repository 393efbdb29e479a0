"""The block drafter with a Markov head (DSpark): python recipes/block_markov.py --corpus DIR

It begins with the trained drafter without it, and is trained in the same way, gently.
"""

from __future__ import annotations

import sys
from pathlib import Path

import block
from common import SHIPPED, run

SUMMARY = (
    "A target-conditioned block-diffusion drafter (DFlash, arXiv 2602.06036) with a Markov head: a "
    "token of its block depends on the one before it (as in DSpark, arXiv 2607.05147; here the "
    "head moves the hidden state and the target's own head reads it). Begun from the drafter "
    "without it, trained in the same way. Format of the released DFlash checkpoints, with three "
    "matrices more and `markov_width` in `dflash_config`."
)


def main(settings: block.Settings) -> Path:
    return block.main(settings, "block_markov", SUMMARY)


if __name__ == "__main__":
    defaults = block.Settings(start=SHIPPED / "block", markov=512, rate=0.25, warmup=100, batch_tokens=2560)
    sys.exit(run(main, defaults))
