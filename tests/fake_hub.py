"""A hub on the loopback interface: the few answers that a download needs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote, urlsplit

COMMIT = "a" * 40


@dataclass
class FakeHub:
    """Repositories by name, each a mapping from path to content, all at the commit COMMIT."""

    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refusals: dict[str, tuple[int, str]] = field(default_factory=dict)  # status, X-Error-Code
    refuse_content: bool = False  # list the files of a refused repository, as of a gated one
    stalls_after: int | None = None  # bytes of a content: then nothing more comes
    requests: list[tuple[str, str | None]] = field(default_factory=list)  # path, Range
    tokens: list[str | None] = field(default_factory=list)
    breaks_after: int | None = None  # bytes of a content: there the next connection ends
    n_served: int = 0  # bytes of contents
    url: str = ""


@contextmanager
def serve(hub: FakeHub) -> Iterator[FakeHub]:
    """Answer for `hub` at `hub.url`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _answer(self, hub)

        def do_HEAD(self) -> None:
            _answer(self, hub)

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(request: BaseHTTPRequestHandler, hub: FakeHub) -> None:
    path = unquote(urlsplit(request.path).path)
    hub.requests.append((path, request.headers.get("Range")))
    hub.tokens.append(request.headers.get("Authorization"))
    is_listing = path.startswith("/api/models/")
    owner, name, *rest = path.removeprefix("/api/models/").strip("/").split("/")
    repo = f"{owner}/{name}"
    if repo in hub.refusals and not (is_listing and hub.refuse_content):
        status, code = hub.refusals[repo]
        _send(request, status, b"", {"X-Error-Code": code})
    elif repo not in hub.repos:
        _send(request, 404, b"", {"X-Error-Code": "RepoNotFound"})
    elif is_listing:
        _send(request, 200, json.dumps(_listing(repo, hub.repos[repo])).encode(), {})
    else:
        _send_content(request, hub.repos[repo]["/".join(rest[2:])], hub)


def _send_content(request: BaseHTTPRequestHandler, content: bytes, hub: FakeHub) -> None:
    headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{hashlib.sha256(content).hexdigest()}"'}
    wanted = request.headers.get("Range")
    if wanted is None:
        hub.n_served += len(content)
        _send(request, 200, content, headers, hub.stalls_after)
        return
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    start, end = int(first), min(int(last) + 1 if last else len(content), len(content))
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(content)}"
    part, cut = content[start:end], hub.breaks_after
    hub.breaks_after = None
    hub.n_served += len(part[:cut])
    _send(request, 206, part, headers, cut=cut)


def _send(
    request: BaseHTTPRequestHandler,
    status: int,
    body: bytes,
    headers: dict[str, str],
    stalls_after: int | None = None,
    cut: int | None = None,
) -> None:
    request.send_response(status)
    for key, value in {**headers, "Content-Length": str(len(body))}.items():
        request.send_header(key, value)
    request.end_headers()
    if request.command == "GET":
        request.wfile.write(body[:stalls_after][:cut])
        if cut is not None:
            request.close_connection = True
        if stalls_after is not None:
            request.wfile.flush()
            request.rfile.read(1)  # until the client has gone


def _listing(repo: str, files: dict[str, bytes]) -> dict[str, object]:
    siblings = [
        {
            "rfilename": path,
            "size": len(content),
            "blobId": hashlib.sha1(content).hexdigest(),
            "lfs": {
                "sha256": hashlib.sha256(content).hexdigest(),
                "size": len(content),
                "pointerSize": 134,
            },
        }
        for path, content in files.items()
    ]
    return {"id": repo, "sha": COMMIT, "siblings": siblings}
