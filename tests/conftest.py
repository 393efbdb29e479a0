"""Shared test set-up: one torch thread (small tensors), no outside request."""

from __future__ import annotations

import os

import hypothesis
import pytest

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

hypothesis.settings.register_profile("lab", deadline=None)  # what is slow is measured in benchmarks, not here
hypothesis.settings.load_profile("lab")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden from this run")
