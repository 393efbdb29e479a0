"""Methods are settings of the one loop, and every one of them names something that exists."""

import re
from pathlib import Path

import pytest

from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.methods import METHODS, find_method, methods_of
from specdiff_core.schema.pairs import EMBEDDED
from specdiff_core.schema.settings import DecodeConfig


def test_every_method_is_a_setting_that_the_embedded_pair_can_follow() -> None:
    base = DecodeConfig(temperature=1.0, seed=5, max_new_tokens=7, tree_nodes=3)
    for method in METHODS:
        config = method.config(base)
        spec = EMBEDDED.drafter(config.drafter)
        assert spec.clamp_gamma(config.gamma) == config.gamma, method.name
        assert (config.temperature, config.seed, config.max_new_tokens) == (1.0, 5, 7)
        assert config.tree_nodes == method.settings.get("tree_nodes", 0), (
            "a method is not changed by what was set before"
        )
    assert methods_of("embedded") == METHODS
    assert len({method.name for method in METHODS}) == len(METHODS)


def test_an_unknown_method_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(ConfigError, match="no method called 'medusa'") as caught:
        find_method("medusa")
    assert "dflash" in caught.value.hint


ROOT = Path(__file__).resolve().parent.parent


def test_the_readme_shows_every_method() -> None:
    rows = [line for line in (ROOT / "README.md").read_text("utf-8").splitlines() if line.startswith("| `")]
    assert {method.name for method in METHODS} <= {name for row in rows for name in re.findall("`(.+?)`", row)}
