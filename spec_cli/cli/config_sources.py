"""What the environment and the files say about the commands' options, and who prevails.

A variable of the environment, then the project's file, then the user's; in a file, the command's
own table before the keys at the top.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from platformdirs import user_config_path

from spec_cli.cli.config_file import ConfigFile, Given, Keys, Origin, read_config_file
from spec_cli.cli.config_settings import PREFIX, Scope, Setting
from spec_cli.errors import UsageError
from spec_cli.events import Notice
from spec_cli.files import is_file
from spec_cli.names import nearest

CONFIG_VARIABLE = f"{PREFIX}CONFIG"
NO_CONFIG = "none"
PROJECT_FILE = Path("spec-cli.toml")

_OTHER_VARIABLES = (CONFIG_VARIABLE, f"{PREFIX}DEBUG", f"{PREFIX}BACKEND")

Commands = Mapping[str, Mapping[str, Setting]]
"""The settings of each command, by all their names in files."""


class Configuration:
    """The values given beforehand. Invariant: each is one of an option that may be set there."""

    def __init__(
        self, commands: Commands, environ: Mapping[str, str], files: Iterable[ConfigFile]
    ) -> None:
        """`files`: those that prevail first. Raises UsageError, naming the line of a bad key."""
        self._commands, self._environ = commands, environ
        self._at_top = _at_top(commands)
        self._layers = [self._checked(file) for file in files]

    def given(self, command: str, setting: Setting) -> Given | None:
        """What was given for an option of `command`; None when nothing was.

        The environment, and the keys at the top of a file, speak of the first command that has
        an option of that name, and of those whose option means the same.
        """
        is_shared = self._at_top[setting.key].declared == setting.declared
        if is_shared and setting.refusal(Scope.ENVIRONMENT) is None:
            for name in setting.variables:
                if text := self._environ.get(name):
                    return Given(text, Origin(Scope.ENVIRONMENT, name))
        places: list[Keys] = [(command, setting.key)]
        if is_shared:
            places.append((setting.key,))
        return next((layer[p] for layer in self._layers for p in places if p in layer), None)

    def notices(self) -> Iterator[Notice]:
        """What is wrong with the environment: it may be meant for another program or version."""
        settings = {name: s for s in self._at_top.values() for name in s.variables}
        for name in sorted(self._environ):
            if not name.startswith(PREFIX) or name in _OTHER_VARIABLES:
                continue
            if name not in settings:
                near = nearest(name, [*settings, *_OTHER_VARIABLES])
                hint = f"did you mean `{near}`?" if near else None
                yield Notice(f"`{name}` is set, but means nothing here", hint, "warning")
            elif reason := settings[name].refusal(Scope.ENVIRONMENT):
                flag = settings[name].flag
                yield Notice(f"`{name}` has no effect: {reason}", f"use `{flag}`", "warning")

    def _checked(self, file: ConfigFile) -> dict[Keys, Given]:
        """The values of `file` by the usual names of their options. Raises UsageError."""
        values: dict[Keys, Given] = {}
        for keys, given in file.values.items():
            if keys[0] in self._commands and given.value == {}:
                continue
            setting = self._setting(keys, given)
            if reason := setting.refusal(file.scope):
                raise _refused(setting, reason, given.origin)
            usual = (*keys[:-1], setting.key)
            if usual in values:
                raise UsageError(
                    f"{given.origin}: `{keys[-1]}` is already set in line "
                    f"{values[usual].origin.line}"
                )
            values[usual] = given
        return values

    def _setting(self, keys: Keys, given: Given) -> Setting:
        """The option that `keys` name. Raises UsageError, with the nearest name, for none."""
        *table, key = keys
        known = self._at_top
        if table:
            if table[0] not in self._commands:
                raise _unknown(f"table `[{table[0]}]`", table[0], self._commands, given.origin)
            known = dict(self._commands[table[0]])
        if key.replace("_", "-") not in known:
            what = f"key `{key}`" + (f" in `[{table[0]}]`" if table else "")
            raise _unknown(what, key, known, given.origin)
        return known[key.replace("_", "-")]


def user_file(environ: Mapping[str, str]) -> Path:
    """The user's file of settings, be it there or not."""
    named = environ.get(CONFIG_VARIABLE)
    return Path(named) if named else user_config_path("spec-cli", appauthor=False) / "config.toml"


def read_files(environ: Mapping[str, str]) -> list[ConfigFile]:
    """The files there are, those that prevail first. Raises UsageError.

    A file that the user names must be there, and is the user's wherever it lies.
    """
    if environ.get(CONFIG_VARIABLE) == NO_CONFIG:
        return []
    users = user_file(environ)
    has_users = bool(environ.get(CONFIG_VARIABLE)) or is_file(users)
    files = [read_config_file(users, Scope.USER)] if has_users else []
    if is_file(PROJECT_FILE) and not (has_users and PROJECT_FILE.samefile(users)):
        files.insert(0, read_config_file(PROJECT_FILE, Scope.PROJECT))
    return files


def is_anything_given(environ: Mapping[str, str]) -> bool:
    """Whether a variable of the environment or a file may set something."""
    if any(name.startswith(PREFIX) for name in environ):
        return True
    return is_file(PROJECT_FILE) or is_file(user_file(environ))


def _at_top(commands: Commands) -> dict[str, Setting]:
    """What a key without a table stands for: the first command's option of that name."""
    first: dict[str, Setting] = {}
    for settings in commands.values():
        first = {**settings, **first}
    return first


def _unknown(what: str, name: str, known: Iterable[str], origin: Origin) -> UsageError:
    near = nearest(name.replace("_", "-"), known)
    hint = f"did you mean `{near}`?" if near else "`spec-cli config show` lists the keys"
    return UsageError(f"{origin}: unknown {what}", hint=hint)


def _refused(setting: Setting, reason: str, origin: Origin) -> UsageError:
    of = "a project's file" if setting.refusal(Scope.USER) is None else "a file"
    hint = f"use `{setting.flag}`"
    if setting.refusal(Scope.USER) is None:
        hint += ", or your own file: `spec-cli config path`"
    return UsageError(f"{origin}: `{setting.key}` cannot be set in {of}: {reason}", hint=hint)
