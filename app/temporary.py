"""Temporary folders of this server."""

from __future__ import annotations

import atexit
import contextlib
import shutil
import tempfile
from pathlib import Path

from filelock import FileLock, Timeout

PREFIX, LOCK = "specdiff-", "lock"
_held: list[FileLock] = []


def own_folder() -> Path:
    """Make a temporary folder that is removed when this process ends. If a process was killed, the next call of another
    one removes what it left: prompts, too. A lock tells which folders are in use."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    for lock in folder.parent.glob(f"{PREFIX}*/{LOCK}"):
        with contextlib.suppress(OSError, Timeout):
            if lock.parent.lstat().st_uid == folder.stat().st_uid:
                with FileLock(lock, timeout=0):
                    shutil.rmtree(lock.parent, ignore_errors=True)
    _held.append(FileLock(folder / LOCK))
    _held[-1].acquire()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
