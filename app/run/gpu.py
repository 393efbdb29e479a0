"""Borrows a GPU for the length of one run where the host lends them (Spaces ZeroGPU). A no-op everywhere else.

What is decorated runs in a forked process there: it takes and yields plain values, and starts its own threads.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from specdiff_core.models.memory import Machine, needed
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.pairs import find_pair
from specdiff_core.schema.settings import SETTINGS

F = TypeVar("F", bound=Callable[..., Any])

LONGEST = 120
"""Seconds of the longest loan that a run asks for."""
BEGIN = 12
"""Seconds until the first token: weights move to the GPU, and each lane warms up."""
PASS = 0.02
"""Seconds of a small model's pass, mostly Python's."""
BANDWIDTH = 1e12
"""Bytes of weights that a lent GPU reads in a second."""


def is_lent() -> bool:
    """Whether this host lends its GPU run by run (``spaces`` reads the same variable)."""
    lent = os.environ.get("SPACES_ZERO_GPU", "").lower() in {"1", "t", "true"}
    return lent and importlib.util.find_spec("spaces") is not None


def seconds_of(values: Mapping[str, Any], lanes: int = 2) -> int:
    """How long a race of ``lanes`` may hold a lent GPU: a loan that is shorter comes sooner. An estimate from the new
    tokens and the size of the pair, as if every lane decoded like vanilla.

    Args:
        values: untrusted settings; what is no possible value counts as the usual one, because the run will refuse it.
    """
    try:
        tokens = SETTINGS["max_new_tokens"].read(values.get("max_new_tokens", SETTINGS["max_new_tokens"].default))
        pair = find_pair(str(values.get("pair", SETTINGS["pair"].default)))
        weights = needed(pair, Machine(device="cuda", dtype="bf16", free=0)).weights
    except ConfigError:
        tokens, weights = SETTINGS["max_new_tokens"].default, 0
    return min(LONGEST, math.ceil(BEGIN + lanes * tokens * (PASS + weights / BANDWIDTH)))


def on_gpu(seconds: Callable[..., int]) -> Callable[[F], F]:
    """Decorate a synchronous generator that decodes.

    Args:
        seconds: of the loan, from the generator's own arguments.
    """

    def decorate(function: F) -> F:
        if not is_lent():
            return function
        spaces = importlib.import_module("spaces")
        decorated: F = spaces.GPU(duration=seconds)(function)
        return decorated

    return decorate
