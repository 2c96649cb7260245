from __future__ import annotations

import socket
from collections.abc import Iterator
from threading import Event

import pytest

from spec_cli.network import first_hop, is_reachable


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_listening_server_is_reachable(port: int) -> None:
    assert is_reachable(f"http://127.0.0.1:{port}/x", timeout_s=10)


def test_closed_port_is_not_reachable(port: int) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and it does not listen; nobody else gets the port
        taken = closed.getsockname()[1]
        assert not is_reachable(f"http://127.0.0.1:{taken}", timeout_s=10)


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    "url", ["http://hub.invalid:x", "http://hub.invalid:99999", "http://[::1", f"http://{'x' * 70}"]
)
def test_an_address_that_no_server_can_have_is_not_reachable(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    assert not is_reachable(url, timeout_s=10)
    monkeypatch.setenv("HTTP_PROXY", url)
    assert not is_reachable("http://hub.invalid", timeout_s=10)


def test_name_server_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = Event()

    def hang(*_args: object, **_options: object) -> socket.socket:
        answered.wait(timeout=60)
        raise OSError

    monkeypatch.setattr(socket, "create_connection", hang)
    assert not is_reachable("https://hub.invalid", timeout_s=0.01)
    answered.set()


@pytest.mark.parametrize(
    ("url", "hop"),
    [
        ("https://hub.invalid", ("hub.invalid", 443)),
        ("http://hub.invalid", ("hub.invalid", 80)),
        ("https://hub.invalid:8443/x", ("hub.invalid", 8443)),
        ("hub", ("", 443)),
    ],
)
def test_first_hop_is_the_server(url: str, hop: tuple[str, int]) -> None:
    assert first_hop(url) == hop


@pytest.mark.parametrize("proxy", ["http://proxy.invalid:3128", "proxy.invalid:3128"])
def test_first_hop_is_the_proxy_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    monkeypatch.setenv("NO_PROXY", "inside.invalid")
    assert first_hop("https://hub.invalid") == ("proxy.invalid", 3128)
    assert first_hop("https://inside.invalid") == ("inside.invalid", 443)
