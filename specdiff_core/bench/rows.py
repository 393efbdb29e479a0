"""Raw measurements on disk, one JSON line each, so that an interrupted benchmark goes on where it stopped.

Line 1 says what is being measured; rows of another measurement are never mixed in. Knows files, no numbers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specdiff_core.schema.errors import ConfigError

Row = dict[str, Any]


class RowLog:
    """Rows of one benchmark, in memory and (with a path) on disk.

    Args:
        path: the file, or None to keep rows in memory only.
        header: everything that must be equal for rows to belong together, as plain JSON values.

    Raises:
        ConfigError: the file holds another benchmark.
    """

    def __init__(self, path: Path | None, header: Row) -> None:
        self.path = path
        self.header: Row = json.loads(json.dumps(header))  # as it will be read back: tuples are lists
        self.rows: list[Row] = []
        self.session = 0
        if path is None:
            return
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(self.header) + "\n", encoding="utf-8")
            return
        self._read(path)
        self.session = 1 + max((row["session"] for row in self.rows), default=-1)

    def _read(self, path: Path) -> None:
        """Take over what is there; a last line that was cut off is dropped."""
        raw = path.read_bytes()
        whole = raw[: raw.rfind(b"\n") + 1]
        try:
            header, *rows = [json.loads(line) for line in whole.decode("utf-8").splitlines()]
            if not isinstance(header, dict):
                raise ValueError("its first line is no header")
            if not all(isinstance(row, dict) and type(row.get("session")) is int for row in rows):
                raise ValueError("a line is no measurement")
        except (ValueError, RecursionError) as error:
            raise ConfigError(
                f"{path.name} is damaged ({error}).", field="json", hint="Delete it to measure everything again."
            ) from error
        if header != self.header:
            other = sorted(name for name in {*header, *self.header} if header.get(name) != self.header.get(name))
            raise ConfigError(
                f"{path.name} holds another benchmark: {', '.join(other)} differ.",
                field="json",
                hint="Choose another file name, or delete it.",
            )
        if whole != raw:
            path.write_bytes(whole)
        self.rows = rows

    def append(self, row: Row) -> None:
        """Keep a row; it is on disk when this returns."""
        row = {**row, "session": self.session}
        self.rows.append(row)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
