"""Set up this checkout: `.venv` with the locked dependencies and llama.cpp built for this machine.

Needs Python alone. `.venv/.setup` records what the environment was made from; while that holds
there is nothing to do, and when it no longer holds the environment is made anew.
"""

# No `from __future__ import annotations`: an old Python must get as far as this check.
import sys

if sys.version_info < (3, 11):  # noqa: UP036
    raise SystemExit(
        "error: spec-cli needs Python 3.11 or newer, and this is {}.{}\n"
        "hint: name a newer one: `make setup PYTHON=python3.12`".format(*sys.version_info)
    )

import hashlib
import json
import os
import platform
import signal
import time
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from llama_wheel import build_wheel, cached_wheel, plan, this_machine
from shell import Console, SetupError, Shell, exclusive

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
INPUTS = (
    "pyproject.toml",
    "constraints.txt",
    "scripts/bootstrap.py",
    "scripts/llama_wheel.py",
    "scripts/llama_prelude.cmake",
    "scripts/llama_amx.h",
)
LOADS = "import llama_cpp as c; raise SystemExit(not c.llama_supports_rpc())"


def recipe(environ: Mapping[str, str], machine: tuple[str, ...]) -> str:
    """What `.venv` is made from, as text: while it stays the same there is nothing to do."""
    inputs = [hashlib.sha256((ROOT / name).read_bytes()).hexdigest() for name in INPUTS]
    wishes = [environ.get(name, "") for name in ("SPEC_CLI_BACKEND", "CMAKE_ARGS")]
    return json.dumps([str(ROOT), sys.version_info[:2], inputs, wishes, machine], indent=1)


def is_made_from(venv: Path, text: str) -> bool:
    """Whether the environment is whole and was made from this recipe."""
    stamp = venv / ".setup"
    return (venv / "bin/python").exists() and stamp.exists() and stamp.read_text() == text


def pinned_llama(pyproject: str) -> str:
    """The version of llama-cpp-python that the project asks for."""
    pins: list[str] = tomllib.loads(pyproject)["project"]["dependencies"]
    return next(pin.partition("==")[2] for pin in pins if pin.startswith("llama-cpp-python=="))


def cache_dir(environ: Mapping[str, str], system: str) -> Path:
    """Where this user's wheels, the set-up log and its lock are."""
    home = Path.home() / ("Library/Caches" if system == "Darwin" else ".cache")
    return Path(environ.get("XDG_CACHE_HOME") or home) / "spec-cli"


def pip_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The user's environment, pip's settings included, with the lock added to the constraints.

    The lock holds for build tools too: older pips hand them the first variable, newer ones the
    second. Its path is relative because pip splits these values at spaces.
    """
    constraints = f"{environ.get('PIP_CONSTRAINT', '')} constraints.txt".strip()
    lock = {"PIP_CONSTRAINT": constraints, "PIP_BUILD_CONSTRAINT": "constraints.txt"}
    quiet = {"PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_PROGRESS_BAR": "off"}
    return {**environ, **lock, **quiet, "PIP_USER": "0"}


def make_venv(shell: Shell, cache: Path, machine: tuple[str, ...]) -> None:
    """Make the environment from nothing. Raises SetupError."""
    python = VENV / "bin/python"
    build = plan(pinned_llama((ROOT / "pyproject.toml").read_text()), shell.environ, machine)
    shell.console.say(f"making .venv with Python {platform.python_version()}")
    shell.run("making .venv", sys.executable, "-I", "-m", "venv", "--clear", VENV)
    wheel = cached_wheel(cache / "wheels", build, partial(build_wheel, shell, python, build))
    shell.console.say(f"installing {build.name} and the other dependencies")
    shell.run("installing", python, "-I", "-m", "pip", "install", wheel, "--editable", ".[dev]")
    try:
        shell.run("loading llama.cpp", python, "-I", "-c", LOADS)
    except SetupError as error:
        error.hint = f"`rm -r {wheel.parent}`, then `make setup` builds it again"
        raise


def set_up(environ: Mapping[str, str], console: Console) -> None:
    """Make `.venv` what the recipe says. Raises SetupError."""
    machine = this_machine()
    wanted = recipe(environ, machine)
    if is_made_from(VENV, wanted):
        return
    cache = cache_dir(environ, platform.system())
    with exclusive(cache / "setup.lock", partial(console.say, "waiting for another set-up to end")):
        if is_made_from(VENV, wanted):
            return
        log = cache / "setup.log"
        log.write_text("")
        make_venv(Shell(ROOT, pip_environ(environ), log, console), cache, machine)
        (VENV / ".setup").write_text(wanted)
        console.say("done")


def stop(signum: int, frame: object) -> None:
    """Leave as if interrupted: what runs is ended, what is half made goes away."""
    raise SystemExit(128 + signum)


def main() -> int:
    """Set up, telling of it on stderr. Returns the exit status."""
    animate = sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI")
    console = Console(sys.stderr, animate=animate, clock=time.monotonic)
    for signum in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signum) != signal.SIG_IGN:  # `nohup make setup`
            signal.signal(signum, stop)
    try:
        set_up(os.environ, console)
    except SetupError as error:
        console.fail(error)
        return 1
    except KeyboardInterrupt:
        console.say("interrupted; `make setup` starts again")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
