"""The files of this repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def shipped() -> list[Path]:
    """Files that a clone has: tracked, or not ignored."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        out = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):  # no repository: an unpacked archive
        return [path for path in ROOT.rglob("*") if path.is_file() and not {".git", ".venv"} & set(path.parts)]
    return [ROOT / line for line in out.splitlines() if (ROOT / line).is_file()]
