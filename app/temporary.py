"""Temporary folders of this server."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from filelock import FileLock, Timeout

PREFIX, LOCK = "specdiff-", "lock"
BLOCK = 2**16
"""Bytes that a file counts at least where room is limited: a folder of many is slow to look through."""
_held: list[FileLock] = []


def sweep() -> None:
    """Remove the folders of processes that were killed: they hold prompts, too. Locked ones are in use."""
    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{LOCK}"):
        with contextlib.suppress(OSError, Timeout):
            if lock.parent.lstat().st_uid == os.getuid():
                with FileLock(lock, timeout=0):
                    shutil.rmtree(lock.parent, ignore_errors=True)


def own_folder() -> Path:
    """Make a temporary folder that is removed when this process ends, or by the next one if it was killed."""
    sweep()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    _held.append(FileLock(folder / LOCK))
    _held[-1].acquire()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
