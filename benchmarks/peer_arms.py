"""The programs that are compared, each behind the same call: token ids in, timings out."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Protocol, Self

from peer_report import Timings

from spec_cli.events import Finished
from spec_cli.loader import Environment
from spec_cli.session import Session
from spec_cli.settings import GenerationSettings, SessionSettings
from spec_cli.spec.settings import SamplingSettings

_LOAD_LIMIT_S = 600
_ANSWER_LIMIT_S = 3600


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt as token ids, and how to continue it."""

    tokens: tuple[int, ...]
    n_predict: int
    sampling: SamplingSettings
    seed: int


class Arm(Protocol):
    """A loaded program."""

    def answer(self, request: Request) -> Timings:
        """Generate one answer from nothing: no earlier answer's cache is used."""


OpenArm = Callable[[], AbstractContextManager[Arm]]


class LlamaServer:
    """A `llama-server` process with one slot, on a free port of this machine.

    `flags` are those that differ from arm to arm. Raises RuntimeError with the end of the
    server's log when it does not start, or refuses a request.
    """

    def __init__(self, binary: Path, flags: Sequence[str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port: int = free.getsockname()[1]
        self._log = TemporaryFile()  # noqa: SIM115 (closed in __exit__)
        # fmt: off
        common = (
            "--host", "127.0.0.1", "--port", str(self._port),
            "--parallel", "1", "--flash-attn", "on", "--cache-ram", "0", "--fit", "off",
        )
        # fmt: on
        environ = {k: v for k, v in os.environ.items() if not k.startswith("LLAMA_ARG_")}
        self._process = subprocess.Popen(
            [binary, *common, *flags],
            stdout=self._log,
            stderr=self._log,
            env=environ,
            start_new_session=True,  # Ctrl-C is for this program
        )

    def __enter__(self) -> Self:
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def answer(self, request: Request) -> Timings:
        """The server's own timings; the first token's time is in `prompt_ms`."""
        sampling = request.sampling
        body = {
            "prompt": request.tokens,
            "n_predict": request.n_predict,
            "temperature": sampling.temp,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "min_p": sampling.min_p,
            "seed": request.seed,
            "cache_prompt": False,
        }
        try:
            status, reply = self._ask("POST", "/completion", json.dumps(body))
        except OSError as error:
            raise RuntimeError(f"llama-server died: {error}\n{self._log_end()}") from error
        if status != 200:
            raise RuntimeError(f"llama-server answered {status}: {reply}")
        timings = reply["timings"]
        if timings["prompt_n"] != len(request.tokens):
            raise RuntimeError(f"llama-server evaluated another prompt: {timings}")
        return Timings(
            prompt_ms=timings["prompt_ms"],
            predicted_ms=timings["predicted_ms"],
            predicted_n=timings["predicted_n"],
            timed_n=timings["predicted_n"] - 1,
            draft_n=timings.get("draft_n", 0),
            draft_n_accepted=timings.get("draft_n_accepted", 0),
        )

    def _wait(self) -> None:
        limit = time.monotonic() + _LOAD_LIMIT_S
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > limit:
                raise RuntimeError(f"llama-server did not start:\n{self._log_end()}")
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        try:
            return self._ask("GET", "/health", None)[0] == 200
        except OSError:
            return False

    def _ask(self, method: str, path: str, body: str | None) -> tuple[int, Any]:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=_ANSWER_LIMIT_S)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def _log_end(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-2000:]


class SpecCli:
    """This project's own decoding, in this process; `settings` say who drafts."""

    def __init__(
        self, target: Path, draft: Path | None, settings: SessionSettings, environment: Environment
    ) -> None:
        self._session = Session(target, draft, settings, environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._session.close()

    def answer(self, request: Request) -> Timings:
        """The session's own times."""
        generation = GenerationSettings(
            seed=request.seed, sampling=request.sampling, max_tokens=request.n_predict
        )
        self._session.prepare(len(request.tokens), request.n_predict)
        self._session.forget()
        *_, finished = self._session.generate(request.tokens, generation)
        assert isinstance(finished, Finished)
        stats = finished.stats
        return Timings(
            prompt_ms=stats.prefill_s * 1e3,
            predicted_ms=stats.decode_s * 1e3,
            predicted_n=stats.n_emitted,
            timed_n=stats.n_emitted,
            draft_n=stats.n_drafted,
            draft_n_accepted=stats.n_accepted,
        )
