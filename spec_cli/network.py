"""Whether a server can be reached, found out in bounded time."""

from __future__ import annotations

import socket
import threading
from urllib.parse import urlsplit

TIMEOUT_S = 2.5
_PORTS = {"http": 80, "https": 443}


def is_reachable(url: str, timeout_s: float = TIMEOUT_S) -> bool:
    """Whether a connection to the server of `url`, or to the proxy for it, opens in time.

    None opens to an address that no server can have.
    """
    try:
        host, port = first_hop(url)
    except ValueError:
        return False
    opened = threading.Event()

    def connect() -> None:
        try:
            socket.create_connection((host, port), timeout=timeout_s).close()
        except (OSError, ValueError):  # the latter: no host can have this name
            return
        opened.set()

    # A name server that does not answer blocks longer than any socket timeout: hence the thread.
    attempt = threading.Thread(target=connect, daemon=True)
    attempt.start()
    attempt.join(timeout_s)
    return opened.is_set()


def first_hop(url: str) -> tuple[str, int]:
    """Host and port that a request to `url` connects to: those of the user's proxy, if any.

    Raises ValueError for an address that is none, such as one with the port `x`.
    """
    from urllib.request import getproxies, proxy_bypass  # slow to import

    target = urlsplit(url)
    host = target.hostname or ""
    proxies = {} if proxy_bypass(host) else getproxies()
    proxy = proxies.get(target.scheme) or proxies.get("all")
    if proxy:
        target = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return target.hostname or "", target.port or _PORTS.get(target.scheme, 443)
