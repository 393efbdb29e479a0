"""Who can reach this server: this machine alone, or visitors from elsewhere."""

from __future__ import annotations

import ipaddress
import os

_served = {"public": "SPACE_ID" in os.environ}


def is_loopback(name: str | None) -> bool:
    """Whether only this machine can open an address."""
    try:
        return name == "localhost" or ipaddress.ip_address(name or "").is_loopback
    except ValueError:
        return False


def served_to(host: str | None, *, shared: bool) -> None:
    """Note who can reach the server. It is public if other machines reach its address, and with a
    share link or a proxy's path (``shared``)."""
    alone = is_loopback(host or os.environ.get("GRADIO_SERVER_NAME") or "127.0.0.1")
    _served["public"] = not alone or shared or "SPACE_ID" in os.environ


def is_public() -> bool:
    """Whether the server has visitors from elsewhere."""
    return _served["public"]


def threads() -> int:
    """CPU threads of a race that a page watches, as of a decode: on a private server the browser is on this machine."""
    return 0 if is_public() else -1
