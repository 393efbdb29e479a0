"""Pairs that visitors bring, and who may: everybody on a server of one's own; on a public host nobody, unless the
environment names what may be brought.
"""

from __future__ import annotations

import ipaddress
import os
from fnmatch import fnmatchcase

from specdiff_core.models.folders import is_local
from specdiff_core.models.own_pairs import OWN, bring, named
from specdiff_core.schema.errors import ConfigError

ALLOWED = "SPECDIFF_OWN_PAIRS"
"""Environment variable: patterns of hub repositories and folders that may be brought, separated by commas
(``Qwen/*, /models/*``); nothing: none."""
_served = {"public": "SPACE_ID" in os.environ}


def served_to(host: str | None, *, shared: bool) -> None:
    """Remember whom the server is for: an address that others can reach makes it public, and so does what leads others
    to it: a share link, or a proxy's path (``shared``)."""
    host = host or os.environ.get("GRADIO_SERVER_NAME") or "127.0.0.1"
    try:
        alone = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        alone = False
    _served["public"] = not alone or shared or "SPACE_ID" in os.environ


def is_public() -> bool:
    """Whether others than the machine's own user are served."""
    return _served["public"]


def patterns() -> tuple[str, ...]:
    """What may be brought; none: nothing."""
    if (told := os.environ.get(ALLOWED)) is not None:
        return tuple(part.strip() for part in told.split(",") if part.strip())
    return () if is_public() else ("*",)


def check(name: str) -> None:
    """Make the pair of a name known, if it is one's own and may be brought here.

    Raises:
        ConfigError: it may not, or it is no pair; and whatever :func:`~specdiff_core.models.own_pairs.bring` raises.
    """
    if not name.startswith(OWN):
        return
    own = named(name)
    for source in filter(None, (own.target, own.drafter)):
        # On a public host, a pattern for repositories must not open the server's own folders.
        fitting = [one for one in patterns() if not (is_local(source) and is_public()) or one[:1] in "/."]
        if ".." in source or not any(fnmatchcase(source, one) for one in fitting):
            raise ConfigError(
                f"{source} may not be brought to this server.",
                field="pair",
                hint=f"Whoever runs it can allow it: {ALLOWED}={source!r}. Or run the lab yourself.",
            )
    bring(name)
