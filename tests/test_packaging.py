"""The wheel, used from a folder that is not a checkout; and the requirements, all the same."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import httpx
import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from servers import unused
from shipped import ROOT, shipped

from benchmarks.load import wait_for
from specdiff_core import __version__
from specdiff_core.schema.pairs import SMOLLM2
from specdiff_core.schema.trace import read_trace

pytestmark = pytest.mark.early
PATIENCE = 300  # seconds, on a busy machine


class Installed:
    """An installed wheel: its folder, and its command run from an empty folder."""

    def __init__(self, site: Path, home: Path) -> None:
        self.site, self.home = site, home
        self.environment = os.environ | {
            "PYTHONPATH": str(site),  # the dependencies come from the environment of the tests
            "SPECDIFF_CACHE": str(home / "cache"),
            "HF_HUB_OFFLINE": "1",
        }

    def run(self, *words: str) -> str:
        """What ``specdiff`` prints; a status other than 0 fails the test."""
        command = [sys.executable, str(self.site / "bin" / "specdiff"), *words]
        done = subprocess.run(
            command, cwd=self.home, env=self.environment, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def page(self) -> Iterator[str]:
        """The address of ``specdiff page``, once its model is loaded."""
        port = str(unused())
        command = [sys.executable, str(self.site / "bin" / "specdiff"), "page", "--port", port]
        url, log = f"http://127.0.0.1:{port}", self.home / "page.log"
        with log.open("wb") as out:
            server = subprocess.Popen(command, cwd=self.home, env=self.environment, stdout=out, stderr=out)
        try:
            wait_for(f"{url}/readyz", server)
            yield url
        finally:
            server.terminate()
            server.wait(60)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel of this checkout, built in a copy, for setuptools writes there."""
    folder = tmp_path_factory.mktemp("package")
    for path in shipped():
        if (name := path.relative_to(ROOT)).parts[0] != "tests":
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / "source" / name)
    pip = [sys.executable, "-m", "pip", "--quiet", "--no-cache-dir", "--disable-pip-version-check"]
    build = ["wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), "./source"]
    build += ["--config-settings", "--build-option=--compression=stored"]  # packing it takes seconds
    subprocess.run([*pip, *build], cwd=folder, check=True, timeout=PATIENCE)
    (wheel,) = folder.glob("*.whl")
    target = ["install", "--no-index", "--no-deps", "--no-compile", "--target", str(folder / "site"), str(wheel)]
    subprocess.run([*pip, *target], cwd=folder, check=True, timeout=PATIENCE)
    home = folder / "elsewhere"
    home.mkdir()
    (home / "app.py").write_text("raise SystemExit('somebody else wrote this')")
    return Installed(folder / "site", home)


def test_the_wheel_holds_every_shipped_file_of_the_packages(installed: Installed) -> None:
    names = {path.relative_to(ROOT).as_posix() for path in shipped()}
    wanted = {name for name in names if name.startswith(("app/", "specdiff_core/"))}
    wanted |= {f"specdiff_core/{name}" for name in names if name.startswith("assets/")}
    held = {path.relative_to(installed.site).as_posix() for path in installed.site.rglob("*") if path.is_file()}
    wanted = {re.sub("^app/", "specdiff_page/", name) for name in wanted}
    assert wanted <= held, sorted(wanted - held)
    top = {name.split("/")[0] for name in held}
    assert {"specdiff_page", "specdiff_core", "bin"} == {name for name in top if not name.endswith(".dist-info")}


def test_an_export_is_made_from_another_folder(installed: Installed) -> None:
    trace = installed.site / "specdiff_core" / "assets" / "traces" / "math-four-denoising-steps.jsonl.gz"
    installed.run("export", "--out", "lesson.html", "--trace", str(trace))
    shown = (installed.home / "lesson.html").read_text("utf-8")
    assert "window-map" in shown, "the recorded answers are in it"
    assert read_trace(trace).title in shown


@pytest.mark.slow
def test_the_engine_runs_from_another_folder(installed: Installed) -> None:
    installed.run("race", "--prompt", "Once upon a time", "--max-new-tokens", "8", "--trace", "race.jsonl.gz")
    assert len(read_trace(installed.home / "race.jsonl.gz").lanes) == 2
    small = ["--gammas", "4", "--steps", "1", "--tokens", "8", "--per-flavour", "1"]
    installed.run("explore", "window-map", *small, "--json", "map.json")
    assert json.loads((installed.home / "map.json").read_text("utf-8"))


@pytest.mark.slow
def test_the_page_is_served_from_another_folder(installed: Installed) -> None:
    with installed.page() as url:
        assert "SpecDiff" in httpx.get(url).text
        files = [
            installed.site / "specdiff_page/static/player_tab.js",
            *(installed.site / "specdiff_core/assets/traces").glob("*.gz"),
        ]
        for file in files[:2]:
            assert httpx.get(f"{url}/gradio_api/file={file}").content == file.read_bytes()


def project() -> dict[str, Any]:
    values: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return values


def listed(name: str) -> set[str]:
    lines = (ROOT / name).read_text().splitlines()
    return {str(Requirement(line)) for line in lines if line.strip() and not line.startswith(("#", "-r "))}


def normal(requirements: list[str]) -> set[str]:
    return {str(Requirement(line)) for line in requirements}


def test_requirements_are_what_the_project_declares() -> None:
    """Each with a floor and a ceiling."""
    assert listed("requirements.txt") == normal(project()["dependencies"])
    assert listed("requirements-dev.txt") == normal(project()["optional-dependencies"]["dev"])
    assert "-r requirements.txt" in (ROOT / "requirements-dev.txt").read_text().splitlines()
    for line in listed("requirements.txt") | listed("requirements-dev.txt"):
        operators = {specifier.operator for specifier in Requirement(line).specifier}
        assert operators == {">=", "<"}, line


def test_whatever_the_product_imports_is_declared() -> None:
    """Not left to what other packages happen to install."""
    files = [path for folder in ("app", "specdiff_core") for path in (ROOT / folder).rglob("*.py")]
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_bytes()))]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    found = {name.partition(".")[0] for name in names} - {*sys.stdlib_module_names, "app", "specdiff_core"}
    declared = {canonicalize_name(Requirement(line).name) for line in listed("requirements.txt")}
    providers = packages_distributions()
    missing = {name for name in found if not declared & {canonicalize_name(one) for one in providers.get(name, ())}}
    assert len(found) > 10 and not missing


def test_the_citation_is_of_this_version() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_space_header_fits_the_requirements() -> None:
    readme = (ROOT / "README.md").read_text()
    header = dict(re.findall(r"^(\w+): *(.*)$", readme.split("---")[1], re.MULTILINE))
    gradio = next(Requirement(line) for line in listed("requirements.txt") if line.startswith("gradio"))
    assert header["sdk"] == "gradio"
    assert header["sdk_version"] in gradio.specifier
    assert header["python_version"].strip('"') in SpecifierSet(project()["requires-python"])
    assert (ROOT / header["app_file"]).is_file()
    assert header["license"] == "mit" and SMOLLM2.target in readme.split("---")[1]
    assert len(header["short_description"]) <= 60
    found = [Requirement(line) for line in listed("requirements.txt") if line.startswith("torch")]
    there = {"python_full_version": header["python_version"].strip('"')}
    (zero_gpu,) = [one for one in found if one.marker and one.marker.evaluate(there)]
    for offered in ("2.8.0", "2.9.1", "2.10.0", "2.11.0"):  # all that Spaces with ZeroGPU can run
        assert offered in zero_gpu.specifier
    assert not any(version in zero_gpu.specifier for version in ("2.12.0", "2.13.0"))
    for python in ("3.11.7", "3.12.3"):
        (elsewhere,) = [one for one in found if one.marker and one.marker.evaluate({"python_full_version": python})]
        assert "2.13.0" in elsewhere.specifier
