"""Commands whose usage errors are the program's own: what is wrong, and what to type instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

# Typer has its own copy of Click, and no public name for most of its exceptions.
from typer._click import exceptions as click
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from spec_cli.cli.accepted import Accepted, Parameter
from spec_cli.errors import UsageError
from spec_cli.names import nearest
from spec_cli.spec.counts import counted

_MAX_CHARS = 60  # of a word that is quoted


class Command(TyperCommand):
    """A command that raises UsageError for a command line that it cannot read."""

    allow_extra_args = True  # they are refused in `parse_args`

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read `args` into the parameters of `ctx`."""
        line = _Line(ctx, (*args,))
        with line.explained():
            extra = super().parse_args(ctx, args)
        if extra and not ctx.resilient_parsing:
            raise line.extra_arguments(extra)
        return extra

    def get_params(self, ctx: Any) -> list[Any]:
        """Its options and arguments."""
        return _without_types_of_flags(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands that raises UsageError for a command line that it cannot read."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options before the command into the parameters of `ctx`."""
        with _Line(ctx, (*args,)).explained():
            return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """The options before the command."""
        return _without_types_of_flags(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Call the command."""
        with _Line(ctx, ()).explained():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The name of the command, the command, and its arguments."""
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            near = nearest(name, self.commands)
            hint = f"did you mean `{near}`?" if near else _see_help(ctx, "commands")
            raise UsageError(f"unknown command `{_short(name)}`", hint=hint)
        return super().resolve_command(ctx, args)


def _without_types_of_flags(params: list[Any]) -> list[Any]:
    """`params`; a flag takes no value, but Typer's help shows it as a `<bool>`."""
    for option in params:
        if getattr(option, "is_flag", False):
            option.metavar = ""
    return params


@dataclass(frozen=True, slots=True)
class _Line:
    """What was typed after a command: `words` are to be read into the parameters of `context`."""

    context: Any
    words: tuple[str, ...]

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise Typer's errors in our words."""
        try:
            yield
        except click.NoArgsIsHelpError:
            raise
        except click.UsageError as error:
            raise self._explanation(error) from None

    def extra_arguments(self, extra: Sequence[str]) -> UsageError:
        """More arguments were typed than the command takes."""
        message = f"{counted(len(extra), 'argument')} too many: `{_short(extra[0])}`"
        message += " and so on" if len(extra) > 1 else ""
        hint = _see_help(self.context)
        if any(argument.name == "prompt" for argument in self._arguments):
            hint = "put a prompt of several words in quotes"
        return UsageError(message, hint=hint)

    def _explanation(self, error: click.UsageError) -> UsageError:
        match error:
            case click.NoSuchOption(option_name=name):
                return self._unknown_option(name)
            case click.BadOptionUsage(option_name=name):
                return self._bad_usage(name)
            case click.MissingParameter(param=TyperOption() | TyperArgument() as parameter):
                return self._missing(parameter)
            case click.BadParameter(param=TyperOption() | TyperArgument() as parameter):
                return self._wrong_value(parameter)
        message = error.format_message().rstrip(".")
        return UsageError(message[:1].lower() + message[1:], hint=_see_help(self.context))

    def _unknown_option(self, name: str) -> UsageError:
        word = self._cluster(name) or name
        where = f" in `{word}`" if word != name else ""
        return UsageError(
            f"unknown option `{_short(name)}`{where}", hint=self._other_option(name, word)
        )

    def _other_option(self, name: str, word: str) -> str:
        path = self.context.command_path
        for argument in self._arguments:
            if name == f"--{argument.name}":
                return f"{_name(argument)} needs no option: `{path} {_name(argument)}`"
        if near := self._nearest_option(word):
            return f"did you mean `{near}`?"
        if isinstance(self.context.command, TyperGroup):
            return f"the options of a command stand after it: `{path} COMMAND {name}`"
        return _see_help(self.context, "options")

    def _bad_usage(self, flag: str) -> UsageError:
        option = next(p for p in self._parameters if flag in (*p.opts, *p.secondary_opts))
        if isinstance(option, TyperOption) and option.is_flag:
            return UsageError(f"{flag} takes no value", hint=f"write `{flag}` alone")
        kind = f"`{flag} {option.metavar}`" if option.metavar else Accepted(option).words
        return UsageError(f"{flag} needs a value", hint=f"give {kind}")

    def _missing(self, parameter: Parameter) -> UsageError:
        needed = " ".join(_name(argument) for argument in self._arguments if argument.required)
        hint = f"write `{self.context.command_path} {needed}`"
        return UsageError(f"{_name(parameter)} is missing", hint=hint)

    def _wrong_value(self, parameter: Parameter) -> UsageError:
        values, _, _ = self.context.command.make_parser(self.context).parse_args([*self.words])
        value = _short(values[parameter.name])
        error = Accepted(parameter).refusal(self._flag(parameter), value)
        error.hint = error.hint or self._reading(parameter, value)
        return error

    def _reading(self, option: Parameter, value: str) -> str | None:
        """How `-temp` was read, which stands for no `--temp`."""
        for flag in option.opts:
            if len(flag) == 2 and (word := f"{flag}{value}") in self.words:
                near = self._nearest_option(word)
                return f"did you mean `{near}`?" if near else f"`{word}` means `{flag} {value}`"
        return None

    def _flag(self, parameter: Parameter) -> str:
        """The long flag that was typed, or would usually be."""
        flags = [flag for flag in parameter.opts if flag.startswith("--")]
        typed = {word.partition("=")[0] for word in self.words}
        return next((flag for flag in flags if flag in typed), _name(parameter))

    def _cluster(self, flag: str) -> str | None:
        """The word of several letters behind one hyphen that has this one in it."""
        if len(flag) > 2:
            return None
        words = (w for w in self.words if len(w) > 2 and w[0] == "-" and w[1] != "-")
        return next((word for word in words if flag[1] in word), None)

    def _nearest_option(self, word: str) -> str | None:
        flags = [flag for p in self._parameters for flag in (*p.opts, *p.secondary_opts)]
        near = nearest(word.lstrip("-"), [flag[2:] for flag in flags if flag.startswith("--")])
        return near and f"--{near}"

    @property
    def _parameters(self) -> list[Parameter]:
        parameters: list[Parameter] = self.context.command.get_params(self.context)
        return parameters

    @property
    def _arguments(self) -> list[TyperArgument]:
        return [p for p in self._parameters if isinstance(p, TyperArgument)]


def _name(parameter: Parameter) -> str:
    """The usual flag of an option; what stands for an argument in the help."""
    if isinstance(parameter, TyperArgument):
        return parameter.metavar or parameter.name.upper()
    return next((flag for flag in parameter.opts if flag.startswith("--")), parameter.opts[0])


def _short(word: str) -> str:
    """`word` on one line, and not all of a long one."""
    line = " ".join(word.split())
    return line if len(line) <= _MAX_CHARS else f"{line[: _MAX_CHARS - 3]}..."


def _see_help(context: Any, what: str = "usage") -> str:
    return f"`{context.command_path} --help` shows the {what}"
