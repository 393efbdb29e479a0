"""What the processor computes, without importing torch."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path


def computes_bf16() -> bool:
    """Whether this processor multiplies bf16 itself: asks torch if it is loaded, otherwise Linux."""
    if (torch := sys.modules.get("torch")) is not None:
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    with contextlib.suppress(OSError):
        return not {"avx512_bf16", "amx_tile"}.isdisjoint(Path("/proc/cpuinfo").read_text("utf-8").split())
    return False
