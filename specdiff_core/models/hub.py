"""Fetches repositories of the model hub: with progress, cancellable, at one commit for good. It needs no torch.

Files that have arrived whole stay in the hub's cache, so whoever is interrupted goes on with the next file.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from specdiff_core.schema.errors import PairUnavailable, SpecDiffError

logger = logging.getLogger("specdiff.hub")

PINS = "specdiff-pins.json"
"""Beside the hub's cached repositories: the commits of those that this project does not pin, as first fetched."""
PERIOD = 0.5
"""Seconds between two messages about a download."""
CONFIGS = ("*.json", "*.jinja", "merges.txt")
"""Config, tokenizer and chat template, of a few megabytes."""
WEIGHTS = ("*.safetensors",)
TWICE = "consolidated*"
"""The same weights once more, by names of their makers' own, as Mistral publishes them."""
LIKE = "python -m specdiff_core pairs --fetch NAME"
FETCH = f"Where there is a network, `{LIKE}` fetches a pair's files; copy the hub's cache from there."

Tell = Callable[[str], None]
_TELL: ContextVar[Tell] = ContextVar("tell", default=lambda message: None)


def cache() -> Path:
    """Where the hub's client keeps repositories."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def commit(repo: str, revision: str) -> str:
    """The commit that is meant: ``revision``, or the one that was current when ``repo`` was first fetched here; empty
    where nobody has fetched it."""
    return revision or _pins().get(repo, "")


def is_cached(repo: str, revision: str, *, weights: bool = True) -> bool:
    """Whether config (and weights, every shard) of ``repo`` are here."""
    from specdiff_core.models.folders import weight_files  # which finds repositories through this module

    folder = cached_folder(repo, revision)
    if folder is None:
        return False
    try:
        return not weights or bool(weight_files(folder))
    except SpecDiffError:
        return False


def cached_folder(repo: str, revision: str) -> Path | None:
    """The folder that holds ``config.json`` of ``repo``, where it is here."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repo, "config.json", cache_dir=cache(), revision=commit(repo, revision) or None)
    return Path(found).parent if isinstance(found, str) else None


@contextlib.contextmanager
def telling(tell: Tell) -> Iterator[None]:
    """Whatever is downloaded inside, ``tell`` hears files, bytes and speed, twice a second. What it raises ends the
    download."""
    before = _TELL.set(tell)
    try:
        yield
    finally:
        _TELL.reset(before)


def fetch(repo: str, revision: str = "", *, weights: bool = True) -> Path:
    """The folder of ``repo`` at its commit, with the files that are asked for; what is not here is downloaded.

    Args:
        weights: False: only config and tokenizer.

    Raises:
        PairUnavailable: it cannot be had; the message says why, and what to do.
    """
    pinned = commit(repo, revision)
    patterns = [*CONFIGS, *(WEIGHTS if weights else ())]
    with _explained(repo):
        folder = _Download(repo, pinned, patterns).run(_TELL.get())
    if not pinned:
        _remember(repo, folder.name)
    return folder


class _Download:
    """One repository under way: a thread downloads, and whoever asked hears of it and can walk away."""

    def __init__(self, repo: str, revision: str, patterns: list[str]) -> None:
        self._repo, self._revision, self._patterns = repo, revision, patterns
        self._stopped, self._over = threading.Event(), threading.Event()
        self._bars: list[Any] = []
        self._folder: Path | None = None
        self._error: BaseException | None = None

    def run(self, tell: Tell) -> Path:
        """Download what is missing; told twice a second at most."""
        total = self._missing_bytes()
        self._bars.clear()
        threading.Thread(target=self._work, name=f"fetch {self._repo}", daemon=True).start()
        began = time.monotonic()
        try:
            while not self._over.wait(PERIOD):
                tell(self._words(total, time.monotonic() - began))
        except BaseException:
            self._stopped.set()
            _abort_xet()
            raise
        if self._error is not None:
            raise self._error
        assert self._folder is not None, "it has ended without an error"
        return self._folder

    def _missing_bytes(self) -> int:
        """Bytes that are to come; 0 where nobody knows. Refused where the disk cannot hold them."""
        from huggingface_hub import errors, is_offline_mode

        if is_offline_mode():
            return 0
        try:
            files = self._ask(dry_run=True, tqdm_class=self._bar())
        except (OSError, errors.HTTPError):  # type: ignore[attr-defined]  # the download meets it too, or has all files
            return 0
        total = sum(file.file_size or 0 for file in files if file.will_download)
        free = shutil.disk_usage(next(path for path in (cache(), *cache().parents) if path.exists())).free
        if total > free:
            raise OSError(errno.ENOSPC, f"{_size(total)} are to come, {_size(free)} are free")
        return total

    def _work(self) -> None:
        try:
            self._folder = Path(self._ask(tqdm_class=self._bar()))
        except BaseException as error:  # raised again where somebody waits for it
            self._error = error
        finally:
            self._over.set()

    def _ask(self, **options: Any) -> Any:
        from huggingface_hub import snapshot_download

        options |= {"cache_dir": cache(), "allow_patterns": self._patterns, "ignore_patterns": TWICE}
        return snapshot_download(self._repo, revision=self._revision or None, **options)

    def _bar(self) -> type[Any]:
        """What the hub's client takes for a progress bar: it counts, draws nothing, and ends a stopped download."""
        from tqdm import tqdm

        download = self

        class Bar(tqdm):  # type: ignore[type-arg]  # generic only in its stubs
            monitor_interval = 0

            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **{**options, "disable": False, "gui": True, "leave": False})
                download._bars.append(self)

            def update(self, n: float | None = 1) -> bool | None:
                if download._stopped.is_set():
                    raise InterruptedError("nobody waits for this download any more")
                self.n += n or 0
                return None

            def refresh(self, *args: Any, **options: Any) -> None:
                """It draws nothing."""

            display = clear = close = refresh

        return Bar

    def _words(self, total: int, seconds: float) -> str:
        """``Downloading owner/name: 312 of 548 MB, 2 of 5 files, 12.3 MB/s``."""
        bars = tuple(self._bars)
        done = int(max((bar.n for bar in bars if bar.unit == "B"), default=0))
        files = next((bar for bar in bars if bar.unit != "B"), None)
        parts = [f"{_size(done, total).split()[0]} of {_size(total)}" if total else _size(done)]
        if files is not None:
            parts.append(f"{int(files.n)} of {int(files.total or 0)} files")
        parts.append(f"{done / 1e6 / max(seconds, 1e-3):.1f} MB/s")
        return f"Downloading {self._repo}: {', '.join(parts)}"


def _abort_xet() -> None:
    """End what the hub's second protocol has under way, which hears of no exception; its client offers no other way."""
    with contextlib.suppress(ImportError):
        from huggingface_hub.utils import _xet

        abort: Any = _xet.abort_xet_session  # untyped
        abort()


def _size(count: int, scale: int | None = None) -> str:
    """Bytes in the unit that suits ``scale``, by default themselves."""
    for unit, name, places in ((1e9, "GB", 2), (1e6, "MB", 0)):
        if (scale or count) >= unit:
            return f"{count / unit:.{places}f} {name}"
    return f"{count / 1e3:.0f} kB"


@contextlib.contextmanager
def _explained(repo: str) -> Iterator[None]:
    """Every way in which the hub says no, in words that say what to do."""
    from huggingface_hub import constants, errors, is_offline_mode

    away = (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, ConnectionError)
    page = f"{constants.ENDPOINT}/{repo}"
    try:
        yield
    except SpecDiffError:
        raise
    except errors.GatedRepoError as error:
        raise PairUnavailable(
            f"{repo} is gated: its owner grants access to those who ask.",
            hint=f"Ask on {page}, then run `hf auth login`, or set HF_TOKEN to a token of your account.",
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise PairUnavailable(
            f"The hub knows no repository {repo}, or it is private.",
            hint=f"Look at {page}; for a private one run `hf auth login`, or set HF_TOKEN.",
        ) from error
    except errors.RevisionNotFoundError as error:
        raise PairUnavailable(
            f"{repo} no longer has the commit that is pinned here.", hint=f"Look at {page}."
        ) from error
    except (OSError, errors.HTTPError) as error:  # type: ignore[attr-defined]  # the client's own, httpx or its heir
        if getattr(error, "errno", None) == errno.ENOSPC:
            raise PairUnavailable(
                f"The disk is too full for {repo}: {getattr(error, 'strerror', '')}.",
                hint="Free some space, or set HF_HOME to a larger disk. Files that have arrived whole stay.",
            ) from error
        if isinstance(error, away) or not isinstance(error, OSError):
            where = "switched off here (HF_HUB_OFFLINE)" if is_offline_mode() else "out of reach"
            raise PairUnavailable(f"{repo} is not in the local cache, and the hub is {where}.", hint=FETCH) from error
        words = " ".join(str(error).split())[:160]
        raise PairUnavailable(
            f"{repo} could not be downloaded ({type(error).__name__}: {words}).", hint=FETCH
        ) from error
    except ValueError as error:  # no possible name of a repository
        raise PairUnavailable(f"{repo} is no repository of the hub ({error}).", hint="Write owner/name.") from error


def _pins() -> dict[str, str]:
    try:
        held = json.loads((cache() / PINS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(repo): str(found) for repo, found in held.items()} if isinstance(held, dict) else {}


def _remember(repo: str, found: str) -> None:
    """Keep the commit that was fetched, so that nobody's later upload changes what is loaded."""
    path = cache() / PINS
    beside = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        beside.write_text(json.dumps({**_pins(), repo: found}, indent=2) + "\n", encoding="utf-8")
        beside.replace(path)
    except OSError as error:  # a cache that nobody may write to does not change either
        logger.warning("%s is at %s; that could not be kept in %s: %s", repo, found, path.name, error)
