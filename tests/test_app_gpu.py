"""A GPU that the host attaches for one run (Spaces ZeroGPU). The tests on it are in
``zero_gpu.py``: this process is their hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from servers import Loopback, send

from app.run import gpu
from app.tabs import live
from specdiff_core.schema.settings import DecodeConfig

ROOT = Path(__file__).resolve().parent.parent


def test_elsewhere_the_decorator_returns_the_function_itself() -> None:
    def generate() -> None:
        """Nothing."""

    assert gpu.on_gpu(lambda: 1)(generate) is generate
    assert type(gpu.stop_event()) is threading.Event


def test_a_loan_grows_with_what_is_asked_for() -> None:
    few, more = (live.plan({"max_new_tokens": tokens}) for tokens in (32, 320))
    assert gpu.BEGIN < gpu.gpu_seconds(few) < gpu.gpu_seconds(more) < gpu.MOST_SECONDS
    longest = DecodeConfig(max_new_tokens=480)
    assert gpu.gpu_seconds({str(lane): longest for lane in range(40)}) == gpu.MOST_SECONDS


class Hub(Loopback):
    """A stand-in for ZeroGPU's scheduler, which refuses less than 3 seconds."""

    def __init__(self) -> None:
        super().__init__(self.answer)
        self.asked: list[tuple[str, dict[str, str]]] = []

    def answer(self, request: Any) -> None:
        path, query = urlsplit(request.path).path, urlsplit(request.path).query
        asked = {name: values[0] for name, values in parse_qs(query).items()}
        self.asked.append((path, asked))
        refused = int(asked.get("durationSeconds", 60)) < 3
        loan = {"idle": True, "nvidiaIndex": 0, "nvidiaUUID": "none", "allowToken": str(len(self.asked))}
        body = json.dumps({"left": 0, "wait": 60} if refused else loan).encode() if path == "/schedule" else b""
        send(request, body, 429 if refused else 200, Content_Type="application/json")


PRETENDED = """
import sys, torch
torch.version.cuda = torch.version.cuda or "12.8"  # torch may have no CUDA
torch._C._cuda_init = getattr(torch._C, "_cuda_init", print)
torch.cuda._is_in_bad_fork = bool
from app.run.engines import Engines
from app.run.runner import load_here
engines = Engines(load_here)
engines.start_in_background()  # first of all, as app/launch.py does
import pytest, spaces.zero.torch as moved
moved.init, moved.size, moved.move = (lambda uuid: None), (lambda: 0), (lambda callback=None: None)  # no GPU to move to
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-W", "default", *sys.argv[1:]]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ZeroGPU is Linux")
@pytest.mark.skipif(find_spec("spaces") is None, reason="the package spaces is not installed")
@pytest.mark.slow
def test_runs_explorations_stop_and_errors_on_an_attached_gpu(tmp_path: Path) -> None:
    """``zero_gpu.py`` with the package's own workers, on a CPU."""
    with Hub() as hub:
        (tmp_path / "cgroup").write_text("0::/space\n", encoding="utf-8")
        zerogpu = {
            "SPACES_ZERO_GPU": "1",
            "SPACES_ZERO_DEVICE_API_URL": hub.url,
            "ZEROGPU_PROC_SELF_CGROUP_PATH": str(tmp_path / "cgroup"),
            "ZEROGPU_OFFLOAD_DIR": str(tmp_path / "tensors"),
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }
        done = subprocess.run(
            [sys.executable, "-c", PRETENDED, str(ROOT / "tests" / "zero_gpu.py")],
            cwd=ROOT,
            env=os.environ | zerogpu,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    scheduled = [asked for path, asked in hub.asked if path == "/schedule"]
    paths = [path for path, _ in hub.asked]
    assert paths.count("/release") == len(scheduled) - 1 > paths.count("/allow"), "workers are used again"
    spaces = find_spec("spaces")
    assert spaces is not None and spaces.origin is not None
    configs = Path(spaces.origin).parent / "zero" / "configs.json"  # without an import
    factor = json.loads(configs.read_text(encoding="utf-8"))[0]["duration_factor"]
    wanted = round(gpu.gpu_seconds(live.plan({"max_new_tokens": 40})) * factor)
    assert str(wanted) in {asked["durationSeconds"] for asked in scheduled}
