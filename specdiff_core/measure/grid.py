"""Settings to measure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec

from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.pairs import NONE, find_pair
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.wording import settings_words


class BenchSetting(msgspec.Struct, frozen=True):
    """The fields of ``DecodeConfig`` that a sweep may vary."""

    drafter: str
    gamma: int
    steps: int
    tree_nodes: int = 0  # 0: a window
    num_drafts: int = 1  # K
    selection: str = "self"  # of K drafts; ignored for one
    auto: bool = False  # a controller chooses γ and T, or the nodes of a tree, up to these

    @classmethod
    def parse(cls, key: str) -> BenchSetting:
        """Parse a key: ``drafter/γ/T``, then ``/nodes``, then ``/K/selection``; at the end ``/auto``.

        Raises:
            ConfigError: it is not such a key.
        """
        plain = key.removesuffix("/auto")
        drafter, *rest = plain.split("/")
        try:
            values: list[Any] = [drafter, *map(int, rest[:4]), *rest[4:]]
            return cls(**dict(zip(SWEPT, values, strict=False)), auto=plain != key)
        except (TypeError, ValueError):
            hint = "Write drafter/γ/T, as block/9/1 or block/9/1/12."
            raise ConfigError(f"{key[:60]!r} is not a setting.", field="settings", hint=hint) from None

    @property
    def key(self) -> str:
        """Its name in files and ``--settings``, as :meth:`parse` reads it. Defaults at the end are left out."""
        values = [str(getattr(self, name)) for name in SWEPT]
        size = 6 if self.num_drafts > 1 else 4 if self.tree_nodes else 3
        return "/".join([*values[:size], *(["auto"] if self.auto else [])])

    def config(self, base: DecodeConfig) -> DecodeConfig:
        """``base`` with this setting; ConfigError if a value is out of range."""
        return dataclasses.replace(base, **{name: getattr(self, name) for name in SWEPT})

    @classmethod
    def of_config(cls, config: DecodeConfig) -> BenchSetting:
        """The setting that ``config`` runs as: limited to what its drafter supports; a tree or K drafts have no T.

        Raises:
            ConfigError: the pair has no such drafter.
        """
        if config.drafter == VANILLA.drafter:
            return VANILLA
        runs = find_pair(config.pair).drafter(config.drafter).clamp(config)
        steps = 1 if runs.tree_nodes or runs.num_drafts > 1 else runs.steps
        selection = runs.selection.value if runs.num_drafts > 1 else "self"
        return cls(runs.drafter, runs.gamma, steps, runs.tree_nodes, runs.num_drafts, selection, runs.auto)

    def effective(self, base: DecodeConfig) -> tuple[BenchSetting, bool]:
        """The setting that this one runs as, and whether they are equal (some drafters ignore T)."""
        real = BenchSetting.of_config(self.config(base))
        return real, real == VANILLA or msgspec.structs.replace(real, steps=self.steps) == self

    @property
    def words(self) -> str:
        """The settings without the drafter: ``γ 9, B 16``."""
        return settings_words(msgspec.structs.asdict(self))

    @property
    def name(self) -> str:
        """Its name in tables: ``block γ 9, B 16``."""
        return f"{self.drafter} {self.words}" if self.words else "vanilla"

    @property
    def shape(self) -> str:
        """What is drafted: ``window``, ``tree`` or ``drafts``."""
        return "tree" if self.tree_nodes else "drafts" if self.num_drafts > 1 else "window"

    @property
    def use(self) -> str:
        """How the drafter is used: equal for settings that differ only in drafter and numbers."""
        selection = f"/{self.selection}" if self.num_drafts > 1 else ""
        return f"{self.shape}{selection}{'/auto' if self.auto else ''}"

    @property
    def group(self) -> str:
        """The drafter and its use."""
        return f"{self.drafter}/{self.use}"


SWEPT = BenchSetting.__struct_fields__
"""The fields of ``DecodeConfig`` that a sweep varies."""
VANILLA = BenchSetting(NONE.name, 1, 1)


def listed(keys: Sequence[str], base: DecodeConfig) -> tuple[BenchSetting, ...]:
    """The baseline, then the settings of ``keys`` in their order; equal ones once.

    Raises:
        ConfigError: a key is invalid, the pair has no such drafter, or the drafter does not support it.
    """
    settings = [VANILLA]
    for setting in map(BenchSetting.parse, keys):
        real, same = setting.effective(base)
        if not same:
            message = f"{setting.drafter} doesn't support {setting.key}: it would run as {real.key}."
            hint = "γ must fit the drafter's window; not every drafter has trees, K drafts or auto."
            raise ConfigError(message, field="settings", hint=hint)
        settings.append(real)
    return tuple(dict.fromkeys(settings))
