"""Fetches hub repositories with progress, cancellable, at a fixed commit, without torch. Complete
files stay in the hub's cache, so an interrupted download continues with the next file."""

from __future__ import annotations

import contextlib
import errno
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from specdiff_core.schema.errors import PairUnavailable

PROGRAM = "specdiff" if Path(sys.argv[0]).stem == "specdiff" else "python -m specdiff_core"
"""The command line as this process was started, for hints."""
TIMEOUT = 2.0  # seconds to wait for the hub before calling it unreachable
PERIOD = 0.5  # seconds between two messages about a download
CONFIGS = ("*.json", "*.jinja", "merges.txt")
"""Config, tokenizer and chat template, of a few megabytes."""
WEIGHTS = ("*.safetensors",)
TWICE = "consolidated*"  # second copies of the weights in another layout, as Mistral publishes them
FETCH_COMMAND = f"{PROGRAM} pairs --fetch NAME"
FETCH_HINT = (
    f"Load it on a machine with a network connection (a published pair: `{FETCH_COMMAND}`), and copy the hub's cache."
)

T = TypeVar("T")
_PROGRESS: ContextVar[Callable[[str], None]] = ContextVar("progress", default=lambda message: None)


def cache_folder() -> Path:
    """Where the hub's client keeps repositories."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def cached_commit(repo: str, revision: str) -> str:
    """``revision``, or the commit at which ``repo`` is in the cache, so that later uploads don't
    change what is loaded; empty if it isn't there."""
    if revision or (folder := cached_folder(repo)) is None:
        return revision
    return folder.name


def cached_folder(repo: str, revision: str = "") -> Path | None:
    """The cached folder with ``config.json`` of ``repo``, or None.

    Raises:
        PairUnavailable: ``repo`` is not ``owner/name``.
    """
    from huggingface_hub import try_to_load_from_cache

    with _translated(repo):
        config = try_to_load_from_cache(repo, "config.json", cache_dir=cache_folder(), revision=revision or None)
    return Path(config).parent if isinstance(config, str) else None


def in_repository(source: str) -> bool:
    """Whether ``source`` is a GGUF file in a hub repository: ``owner/name:Q4_K_M`` or ``owner/name:file.gguf``."""
    return re.fullmatch(r"[^/:]+/[^/:]+:[^:]+", source) is not None


def cached_gguf(source: str, revision: str = "") -> Path | None:
    """The cached file of a source that is :func:`in_repository`, or None."""
    from huggingface_hub import errors, snapshot_download

    repo, _, wanted = source.partition(":")
    try:
        with _translated(repo):
            options: dict[str, Any] = {
                "revision": revision or None,
                "allow_patterns": ["-"],
            }  # which files is no matter
            folder = Path(snapshot_download(repo, cache_dir=cache_folder(), local_files_only=True, **options))
    except PairUnavailable as error:
        if isinstance(error.__cause__, errors.LocalEntryNotFoundError):
            return None
        raise
    names = [str(path.relative_to(folder)) for path in folder.rglob("*.gguf")]
    return next((folder / name for name in _fitting(names, wanted)), None)


def fetch_gguf(source: str, revision: str = "") -> Path:
    """The file of a source that is :func:`in_repository`; it is downloaded if it isn't cached.

    Raises:
        PairUnavailable: as :func:`fetch`, or the repository has no such file; the hint names those it has.
    """
    from huggingface_hub import HfApi

    if (file := cached_gguf(source, revision)) is not None:
        return file
    repo, _, wanted = source.partition(":")
    report(f"Looking for {source}")
    with _translated(repo):
        entries = HfApi().list_repo_tree(repo, revision=revision or None, recursive=True)
        names = [entry.path for entry in entries if entry.path.lower().endswith(".gguf")]
    if not (fitting := _fitting(names, wanted)):
        hint = f"Its files: {', '.join(sorted(names)[:20])}." if names else "Choose another repository."
        raise PairUnavailable(f"{repo} has no GGUF file {wanted!r} in one part.", hint=hint)
    return fetch(repo, revision, only=[fitting[0]]) / fitting[0]


def _fitting(names: Sequence[str], wanted: str) -> list[str]:
    """The ``names`` of files that are ``wanted``, a name or its ending such as ``Q4_K_M``; the shortest first."""
    ending = re.compile(rf"(.*[-._/])?{re.escape(wanted.removesuffix('.gguf'))}\.gguf", re.IGNORECASE)
    return sorted(filter(ending.fullmatch, names), key=len)


@contextlib.contextmanager
def reporting(progress: Callable[[str], None]) -> Iterator[None]:
    """Call ``progress`` with bytes and speed of downloads inside, twice a second. If it raises, the
    download ends."""
    before = _PROGRESS.set(progress)
    try:
        yield
    finally:
        _PROGRESS.reset(before)


def report(message: str) -> None:
    """Pass a line to the callback of :func:`reporting`, which may raise."""
    _PROGRESS.get()(message)


def is_reachable() -> bool:
    """Whether the hub answers within :data:`TIMEOUT`, also with an error status."""
    from huggingface_hub import constants, get_session

    answered = threading.Event()

    def ask() -> None:
        with contextlib.suppress(Exception):
            get_session().head(constants.ENDPOINT, timeout=TIMEOUT)
            answered.set()

    # In a thread, because name resolution has no timeout.
    threading.Thread(target=ask, daemon=True, name="hub-check").start()
    return answered.wait(TIMEOUT)


class Transfer:
    """A download: a thread counts its bytes, and :func:`report` gets a line twice a second.

    Args:
        name: what is downloaded.
        total: its bytes; 0: unknown.
    """

    def __init__(self, name: str, total: int = 0) -> None:
        self.name, self.total = name, total
        self.stopped = threading.Event()
        self.begin()

    def begin(self) -> None:
        """Start counting."""
        self.done = 0
        self._since = time.monotonic()

    def add(self, count: int) -> None:
        """Count bytes that arrived.

        Raises:
            InterruptedError: the download was stopped.
        """
        if self.stopped.is_set():
            raise InterruptedError("the download was stopped")
        self.done += count

    def __str__(self) -> str:
        """``Downloading name: 31 of 93 MB, 12.3 MB/s``."""
        if not self.done:
            return f"Looking for {self.name}"
        of = (
            f"{size_words(self.done, self.total).split()[0]} of {size_words(self.total)}"
            if self.total
            else size_words(self.done)
        )
        seconds = max(time.monotonic() - self._since, 1e-3)
        return f"Downloading {self.name}: {of}, {self.done / 1e6 / seconds:.1f} MB/s"

    def run(self, work: Callable[[], T], stop: Callable[[], None] = lambda: None) -> T:
        """The result of ``work`` in a thread; when a report raises, abandoned after ``stop``."""
        result: Future[T] = Future()

        def run() -> None:
            try:
                result.set_result(work())
            except BaseException as error:  # raised again in the waiting thread
                result.set_exception(error)

        threading.Thread(target=run, name="fetch", daemon=True).start()
        try:
            while not wait([result], PERIOD).done:
                report(str(self))
        except BaseException:
            self.stopped.set()
            stop()
            raise
        return result.result()


def fetch(repo: str, revision: str = "", *, weights: bool = True, only: Sequence[str] = ()) -> Path:
    """The folder of ``repo`` at its commit; missing files are downloaded.

    Args:
        weights: False: only config and tokenizer.
        only: names of files to fetch instead.

    Raises:
        PairUnavailable: it can't be fetched; the message says why, and what to do.
    """
    from huggingface_hub import snapshot_download

    transfer = Transfer(repo)
    ask = partial(
        snapshot_download,
        repo,
        revision=cached_commit(repo, revision) or None,
        cache_dir=cache_folder(),
        allow_patterns=list(only) or [*CONFIGS, *(WEIGHTS if weights else ())],
        ignore_patterns=TWICE,
        tqdm_class=_bar(transfer),
    )
    with _translated(repo):
        transfer.total = _missing_bytes(ask)
        transfer.begin()
        return Path(transfer.run(ask, _abort_xet))


@contextlib.contextmanager
def _translated(repo: str) -> Iterator[None]:
    """Translate the client's exceptions into PairUnavailable, which says why."""
    from huggingface_hub import errors

    http: Any = errors.HTTPError  # type: ignore[attr-defined]  # not exported
    client = sys.modules[http.__module__]  # httpx, or from version 2 httpx2
    try:
        yield
    except (OSError, ValueError, ImportError, client.InvalidURL, http) as error:
        what, hint = _reason(repo, error)
        raise PairUnavailable(what, hint=hint) from error


def _missing_bytes(ask: Callable[..., Any]) -> int:
    """Bytes to download; 0 if unknown. Raises OSError if the disk is too small."""
    from huggingface_hub import errors, is_offline_mode

    if is_offline_mode():
        return 0
    try:
        files = ask(dry_run=True)
    except (OSError, errors.HTTPError):  # type: ignore[attr-defined]  # not exported  # the download reports it too
        return 0
    total = sum(file.file_size or 0 for file in files if file.will_download)
    free = shutil.disk_usage(next(path for path in (cache_folder(), *cache_folder().parents) if path.exists())).free
    if total > free:
        raise OSError(errno.ENOSPC, f"{size_words(total)} are needed, {size_words(free)} are free")
    return total


def _bar(transfer: Transfer) -> type[Any]:
    """An invisible progress bar that counts bytes and ends a stopped download."""
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[type-arg]  # generic only in its stubs
        monitor_interval = 0

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **{**options, "disable": False, "gui": True, "leave": False})

        def update(self, n: float | None = 1) -> bool | None:
            self.n += n or 0
            transfer.add(max(0, int(self.n) - transfer.done) if self.unit == "B" else 0)
            return None

        def refresh(self, *args: Any, **options: Any) -> None:
            """Draw nothing."""

        display = clear = close = refresh

    return Bar


def _abort_xet() -> None:
    """Abort downloads by the hub's Xet protocol, which exceptions don't reach."""
    with contextlib.suppress(ImportError):
        from huggingface_hub.utils import _xet

        abort: Any = _xet.abort_xet_session  # untyped
        abort()


def size_words(count: int, scale: int | None = None) -> str:
    """Bytes in the unit for ``scale``, by default ``count``."""
    for unit, name, digits in ((1e9, "GB", 1), (1e6, "MB", 0)):
        if (scale or count) >= unit:
            return f"{count / unit:.{digits}f} {name}"
    return f"{count / 1e3:.0f} kB"


def _reason(repo: str, error: Exception) -> tuple[str, str]:
    """The message and the hint for an exception of the hub's client."""
    from huggingface_hub import constants, errors, is_offline_mode

    page = f"{constants.ENDPOINT}/{repo}"
    if isinstance(error, errors.GatedRepoError):
        hint = f"Request access on {page}, then run `hf auth login`, or set HF_TOKEN to a token of your account."
        return f"{repo} is gated: its owner grants access on request.", hint
    if isinstance(error, errors.RepositoryNotFoundError):
        hint = f"Check {page}; for a private repository run `hf auth login`, or set HF_TOKEN."
        return f"The hub has no repository {repo}, or it is private.", hint
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{repo} no longer has the commit that is pinned here.", f"Check {page}."
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        hint = "Free some space, or set HF_HOME to a larger disk. Complete files are kept."
        return f"The disk is too full for {repo}: {error.strerror or ''}.", hint
    unreachable = (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, ConnectionError)
    no_answer = isinstance(error, errors.HTTPError) and not isinstance(error, OSError)  # type: ignore[attr-defined]
    if isinstance(error, unreachable) or no_answer:
        where = "switched off here (HF_HUB_OFFLINE)" if is_offline_mode() else "out of reach"
        return f"{repo} is not in the local cache, and the hub is {where}.", FETCH_HINT
    if isinstance(error, OSError):
        detail = " ".join(str(error).split())[:160]
        return f"{repo} could not be downloaded ({type(error).__name__}: {detail}).", FETCH_HINT
    if isinstance(error, errors.HFValidationError):
        return f"{repo} is not a hub repository.", "Write owner/name, or the path of a folder or a GGUF file."
    return (
        f"{repo} cannot be fetched: {' '.join(str(error).split())[:160].rstrip('.')}.",
        "Check the proxy's variables.",
    )
