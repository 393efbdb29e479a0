"""Which files the wheel holds; ``assets`` is installed inside ``specdiff_core``. The rest is in pyproject.toml."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["specdiff_core*", "app*"]), "specdiff_core.assets"],
    package_dir={"specdiff_core.assets": "assets"},
    package_data={
        "specdiff_core.assets": ["**/*"],
        "specdiff_core.measure": ["*.jsonl"],
        "app": ["static/**/*", "content/*.json", "content/*.md"],
    },
)
