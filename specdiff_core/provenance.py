"""The origin of a result: code, versions, hardware, date, command; no host, user or folder."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict


class Provenance(TypedDict, total=False):
    """Plain values for the head of a result; results of older versions lack some."""

    commit: str  # empty outside a repository
    dirty: bool  # tracked files differ from it
    instruction_set: str  # as torch uses it
    date: str  # UTC, ISO 8601
    command: str
    cpu: str
    cores: int
    gpu: str  # empty where there is none
    system: str
    versions: dict[str, str]
    threads: int


def provenance(argv: Sequence[str] = (), *, module: str = "specdiff_core") -> Provenance:
    """The provenance of this process; ``argv``: the arguments of ``python -m module``."""
    import torch

    from specdiff_core.models.device import processor, versions

    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "command": command(argv, f"-m {module}"),
        **git_state(),
        "cpu": processor(),
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count() or 0,
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "",
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions("torch", "transformers", "tokenizers", "numpy"),
    }


def command(argv: Sequence[str], program: str = "-m specdiff_core") -> str:
    """The command to repeat; absolute paths are cut to their file names."""
    return shlex.join(["python", *program.split(), *map(_without_folders, argv)])


def _without_folders(word: str) -> str:
    flag, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
    return f"{flag}{equals}{Path(value).name}" if os.path.isabs(value) else word


def git_state(folder: Path | None = None) -> Provenance:
    """The commit of the repository that contains ``folder``, by default this package."""
    cwd = folder or Path(__file__).resolve().parent

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=cwd, capture_output=True, text=True, check=True, timeout=20)
        return done.stdout.strip()

    try:
        return {
            "commit": git("rev-parse", "--short=12", "HEAD"),
            "dirty": bool(git("status", "--porcelain", "--untracked-files=no")),
        }
    except (OSError, subprocess.SubprocessError):  # no git, or not a clone
        return {"commit": "", "dirty": False}
