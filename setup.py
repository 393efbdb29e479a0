"""Which files the wheel holds: ``assets`` inside ``specdiff_core``, and ``app`` as ``specdiff_page``, because many
folders have an ``app.py``. The rest is in pyproject.toml."""

from setuptools import find_packages, setup

page = [name.replace("app", "specdiff_page", 1) for name in find_packages(include=["app*"])]
setup(
    packages=[*find_packages(include=["specdiff_core*"]), *page, "specdiff_core.assets"],
    package_dir={"specdiff_core.assets": "assets", "specdiff_page": "app"},
    package_data={
        "specdiff_core.assets": ["**/*"],
        "specdiff_core": ["py.typed"],
        "specdiff_core.measure": ["*.jsonl"],
        "specdiff_page": ["static/**/*", "content/*.json", "content/*.md"],
    },
)
