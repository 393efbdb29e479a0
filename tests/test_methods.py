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


def table_rows(text: str) -> list[list[str]]:
    """The cells of every row of every table."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


MACHINES = {"SmolLM2": "Intel(R) Xeon(R) Processor, 2 cores, AVX512", "embedded": "AMD EPYC, 2 cores, AVX512"}


def test_the_readme_shows_every_method_and_only_measured_results() -> None:
    """Its figures are cells of BENCHMARKS.md, of the same setting and temperature."""
    readme, benchmarks = ((ROOT / name).read_text("utf-8") for name in ("README.md", "BENCHMARKS.md"))
    rows = table_rows(readme)
    named = {name for cells in rows for name in re.findall("`(.+?)`", cells[0])}
    assert {method.name for method in METHODS} <= named

    def measured(model: str, temperature: str, setting: str, column: str) -> str:
        """A cell of the first table that has the setting."""
        section = benchmarks.split(f"\n## {MACHINES[model]}\n")[1].split("\n## ")[0]
        parts = section.split("\n### ")
        texts = [part for part in parts if part.startswith(f"Temperature {temperature}, rule ratio")]
        tables = [table_rows(text) for text in texts if ("/SmolLM2" in text) == (model == "SmolLM2")]
        head, row = next((table[0], row) for table in tables for row in table if row[0] == setting)
        return row[head.index(column)]

    results = [cells for cells in rows if cells[0] in MACHINES]
    assert len(results) > 5
    for model, setting, tau, greedy, sampled in results:
        assert tau == measured(model, "0", setting, "τ"), setting
        assert greedy == measured(model, "0", setting, "speed-up"), setting
        assert sampled == measured(model, "1", setting, "speed-up"), setting
