"""Borrows a GPU for the length of one run where the host lends them (Spaces ZeroGPU). A no-op everywhere else.

What is decorated runs in a forked process there: it takes and yields plain values, and starts its own threads.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

SECONDS = 60
"""The longest one run may hold a lent GPU."""


def is_lent() -> bool:
    """Whether this host lends its GPU run by run (``spaces`` reads the same variable)."""
    lent = os.environ.get("SPACES_ZERO_GPU", "").lower() in {"1", "t", "true"}
    return lent and importlib.util.find_spec("spaces") is not None


def on_gpu(function: F) -> F:
    """Decorate a synchronous generator that decodes."""
    if not is_lent():
        return function
    spaces = importlib.import_module("spaces")
    decorated: F = spaces.GPU(duration=SECONDS)(function)
    return decorated
