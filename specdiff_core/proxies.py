"""Proxy variables of the environment that httpx cannot read: with one no client is made, not even for 127.0.0.1."""

from __future__ import annotations

import ipaddress
import os
from importlib.util import find_spec


def drop_unusable() -> list[str]:
    """Change or remove such variables in this process; returns what was removed, one sentence each."""
    removed = []
    for name in [name for name in os.environ if name.lower() in ("http_proxy", "https_proxy", "all_proxy")]:
        address = os.environ[name].strip()
        address = f"socks5://{address.removeprefix('socks://')}" if address.startswith("socks://") else address
        if address and (why := _unusable(address)):
            removed.append(f"{name} is ignored: {why}.")
            del os.environ[name]
        else:
            os.environ[name] = address
    for name in [name for name in os.environ if name.lower() == "no_proxy"]:
        hosts = [host.strip() for host in os.environ[name].split(",")]
        hosts = [host[1:].partition("]")[0] if host.startswith("[") else host for host in hosts]  # [::1]:80 -> ::1
        odd = [host for host in hosts if not _is_host(host)]
        removed += [f"{host!r} in {name} is ignored: it is not a host." for host in odd]
        os.environ[name] = ",".join(host for host in hosts if host not in odd)
    return removed


def _unusable(address: str) -> str:
    """Why httpx cannot use a proxy; empty if it can."""
    import httpx

    if address.startswith("socks") and find_spec("socksio") is None:
        return "SOCKS needs the package socksio (pip install socksio)"
    try:
        httpx.Proxy(address if "://" in address else f"http://{address}")
    except (ValueError, httpx.InvalidURL):
        return "its scheme is not http, https or socks5"
    return ""


def _is_host(host: str) -> bool:
    import httpx

    try:
        ipaddress.ip_network(host, strict=False)
    except ValueError:
        try:
            httpx.URL(host if "://" in host else f"all://*{host}")
        except httpx.InvalidURL:
            return False
    return True
