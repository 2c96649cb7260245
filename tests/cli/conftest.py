"""Tiny models, and `spec-cli` with nothing of the user's: as a process of its own, or called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import pytest

import spec_cli as package
from spec_cli.cli.app import app
from spec_cli.cli.guard import exit_code_of
from tests.cli.tiny_models import Models

TIMEOUT_S = 60
# What a user or a CI machine may have set, and what must not decide a test.
_FOREIGN = ("SPEC_CLI_", "HF_", "HUGGINGFACE", "XDG_", "LC_", "PYTHON", "PIP_")
_FOREIGN_NAMES = ("CI", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "GITHUB_ACTIONS", "LANG")
_STREAMS = ("stdin", "stdout", "stderr")

Word = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Done:
    """What a run left behind."""

    exit_code: int
    stdout: bytes
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object on stdout."""
        value = json.loads(self.stdout)
        assert isinstance(value, dict)
        return value

    @property
    def events(self) -> list[dict[str, Any]]:
        """The objects on stdout, one a line."""
        return [json.loads(line) for line in self.stdout.splitlines()]

    def fails(self, exit_code: int, *fragments: str) -> None:
        """Assert a failure told in words: the code, these fragments, no text and no traceback."""
        for fragment in fragments:
            assert fragment in self.stderr
        assert self.exit_code == exit_code, self.stderr
        assert self.stdout == b""
        assert "Traceback" not in self.stderr
        assert "error: unexpected" not in self.stderr


@dataclass(frozen=True, slots=True)
class SpecCli:
    """Starts `spec-cli` in `home`, which also holds its configuration, cache and state."""

    home: Path

    @property
    def program(self) -> list[str]:
        """The words that start the program."""
        return [sys.executable, "-m", "spec_cli"]

    @property
    def own(self) -> dict[str, str]:
        """The variables that keep it to itself and off the network."""
        return {
            "HOME": str(self.home),
            "HF_HOME": str(self.home / "hf"),
            **{f"XDG_{kind}_HOME": str(self.home / kind) for kind in ("CONFIG", "STATE", "CACHE")},
            "HF_ENDPOINT": "http://127.0.0.1:9",
            "PIP_NO_INDEX": "1",
            "PYTHONPATH": str(Path(package.__file__).parents[1]),
        }

    def environ(self, env: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of the process, `env` added to it."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(_FOREIGN) and name not in _FOREIGN_NAMES
        }
        return inherited | self.own | dict(env)

    def start(
        self,
        *args: Word,
        stdin: int = subprocess.DEVNULL,
        shell: str = "",
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start it, or the script `shell`, in which `"$@"` is the program with its arguments."""
        words: list[Word] = [*self.program, *args]
        return subprocess.Popen(
            ["/bin/sh", "-c", shell, "sh", *words] if shell else words,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environ(env or {}),
            cwd=self.home,
        )

    def __call__(
        self,
        *args: Word,
        stdin: bytes | None = None,
        shell: str = "",
        env: Mapping[str, str] | None = None,
    ) -> Done:
        """Run it to its end, `stdin` piped in (None: /dev/null)."""
        source = subprocess.DEVNULL if stdin is None else subprocess.PIPE
        return finished(self.start(*args, stdin=source, shell=shell, env=env), stdin)


def finished(process: subprocess.Popen[bytes], stdin: bytes | None = None) -> Done:
    """What `process` leaves behind; it is killed when it does not end."""
    try:
        stdout, stderr = process.communicate(stdin, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return Done(process.returncode, stdout, stderr.decode())


def wait_until(happened: Callable[[], object], process: subprocess.Popen[bytes]) -> None:
    """Wait for what `process` is about to do; it must not end before."""
    while not happened():
        assert process.poll() is None, finished(process)
        time.sleep(0.01)


@dataclass(frozen=True, slots=True)
class Call:
    """Calls the commands in this process: faster, where process and streams are not the point."""

    spec_cli: SpecCli

    def __call__(
        self, *args: Word, stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> Done:
        """Call with `args`, `stdin` piped in."""
        variables = {**dict.fromkeys(_FOREIGN_NAMES), **self.spec_cli.own, **(env or {})}
        with ExitStack() as stack:
            # Real files: whatever a program does with its standard streams can be done with them.
            streams = {name: stack.enter_context(TemporaryFile()) for name in _STREAMS}
            streams["stdin"].write(stdin)
            streams["stdin"].seek(0)
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            for name, value in variables.items():
                patch.delenv(name, raising=False)
                if value is not None:
                    patch.setenv(name, value)
            for name, file in streams.items():
                wrapper = TextIOWrapper(file, encoding="utf-8", write_through=True)
                stack.callback(wrapper.detach)
                patch.setattr(sys, name, wrapper)
            words = [os.fspath(arg) for arg in args]
            exit_code = exit_code_of(partial(app, words, prog_name="spec-cli"))
            stdout, stderr = (_content(streams[name]) for name in ("stdout", "stderr"))
        return Done(exit_code, stdout, stderr.decode())


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


N_TOKENS = 48
GREEDY = ("run", "hello there", "--temp", "0")


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def spec_cli(tmp_path_factory: pytest.TempPathFactory) -> SpecCli:
    return SpecCli(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def call(spec_cli: SpecCli) -> Call:
    return Call(spec_cli)


@pytest.fixture(scope="session")
def plain(spec_cli: SpecCli, models: Models) -> Done:
    """N_TOKENS of plain greedy decoding as JSON: what every other run has to repeat."""
    options = ("-n", str(N_TOKENS), "-m", models.target, "--no-draft", "--json")
    return spec_cli(*GREEDY, *options)
