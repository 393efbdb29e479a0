"""The requirement files and pyproject.toml name the same packages; the Space fits them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent


def project() -> dict[str, Any]:
    values: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return values


def listed(name: str) -> set[str]:
    lines = (ROOT / name).read_text().splitlines()
    return {str(Requirement(line)) for line in lines if line.strip() and not line.startswith(("#", "-r "))}


def normal(requirements: list[str]) -> set[str]:
    return {str(Requirement(line)) for line in requirements}


def test_requirements_are_what_the_project_declares() -> None:
    assert listed("requirements.txt") == normal(project()["dependencies"])
    assert listed("requirements-dev.txt") == normal(project()["optional-dependencies"]["dev"])
    assert "-r requirements.txt" in (ROOT / "requirements-dev.txt").read_text().splitlines()


def test_every_requirement_has_a_floor_and_a_ceiling() -> None:
    for line in listed("requirements.txt") | listed("requirements-dev.txt"):
        operators = {specifier.operator for specifier in Requirement(line).specifier}
        assert operators == {">=", "<"}, line


def test_space_header_fits_the_requirements() -> None:
    readme = (ROOT / "README.md").read_text()
    header = dict(re.findall(r"^(\w+): *(.*)$", readme.split("---")[1], re.MULTILINE))
    gradio = next(Requirement(line) for line in listed("requirements.txt") if line.startswith("gradio"))
    assert header["sdk"] == "gradio"
    assert header["sdk_version"] in gradio.specifier
    assert header["python_version"].strip('"') in SpecifierSet(project()["requires-python"])
    assert (ROOT / header["app_file"]).is_file()
    assert len(header["short_description"]) <= 60
    found = [Requirement(line) for line in listed("requirements.txt") if line.startswith("torch")]
    there = {"python_full_version": header["python_version"].strip('"')}
    (zero_gpu,) = [one for one in found if one.marker and one.marker.evaluate(there)]
    for offered in ("2.8.0", "2.9.1", "2.10.0", "2.11.0"):  # all that Spaces with ZeroGPU can run
        assert offered in zero_gpu.specifier
    assert not any(version in zero_gpu.specifier for version in ("2.12.0", "2.13.0"))
    for python in ("3.10.13", "3.11.7", "3.12.3"):
        (elsewhere,) = [one for one in found if one.marker and one.marker.evaluate({"python_full_version": python})]
        assert "2.13.0" in elsewhere.specifier
