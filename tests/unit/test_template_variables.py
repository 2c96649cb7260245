"""Variables of a chat template: JSON or text, and only those that it reads."""

from __future__ import annotations

from datetime import datetime

import pytest

from spec_cli.errors import ModelError, UsageError
from spec_cli.prompt import ChatTemplate, Message, render_chat
from spec_cli.template_variables import parse_variables, with_variables

SWITCHED = (
    "{{ messages[0].content }}{% if enable_thinking is defined and not enable_thinking %}"
    "<think></think>{% endif %}{{ style }}"
)


def template(source: str = SWITCHED) -> ChatTemplate:
    return ChatTemplate(source, False, "<s>", "</s>", datetime(2026, 3, 1), {})


def rendered(of: ChatTemplate) -> str:
    return render_chat(of, [Message("user", "hi")])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("x=false", False),
        ("x=3", 3),
        ('x="3"', "3"),
        ('x={"a": [1]}', {"a": [1]}),
        ("x=low", "low"),
        ("x=a=b", "a=b"),
        ("x=", ""),
        ("x=NaN", "NaN"),
        ("x=[1", "[1"),
    ],
)
def test_a_value_is_json_where_it_can_be_and_text_else(option: str, value: object) -> None:
    assert parse_variables([option]) == {"x": value}


@pytest.mark.parametrize(
    "option",
    ["x", "=1", "a b=1", "", "messages=[]", "x=\udcff", r'x="\ud800"', r'x=[{"\udfff": 1}]'],
)
def test_what_is_no_variable_is_refused(option: str) -> None:
    with pytest.raises(UsageError, match="--template-var"):
        parse_variables([option])


def test_without_variables_a_template_is_left_alone() -> None:
    broken = template("{% if %}")
    assert with_variables(broken, {}, think=None) is broken


@pytest.mark.parametrize(("name", "value"), [("messages", []), ("style", ["\ud800"])])
def test_what_a_program_cannot_set_is_its_own_fault(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"--template-var.*{name}"):
        with_variables(template(), {name: value}, think=None)


def test_variables_reach_the_template() -> None:
    assert rendered(with_variables(template(), {"style": "!"}, think=None)) == "hi!"


def test_a_variable_that_the_template_does_not_read_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="`enable_thinkin`") as caught:
        with_variables(template(), {"enable_thinkin": False}, think=None)
    assert caught.value.hint == "did you mean `enable_thinking`?"
    with pytest.raises(UsageError) as caught:
        with_variables(template(), {"zzz": 1}, think=None)
    assert caught.value.hint == "it reads `enable_thinking`, `messages`, `style`"


def test_the_switch_for_thinking_is_set_whatever_it_is_called() -> None:
    assert rendered(with_variables(template(), {}, think=False)) == "hi<think></think>"
    assert rendered(with_variables(template(), {}, think=True)) == "hi"
    other = template("{{ messages[0].content }}{% if thinking %}<think>{% endif %}")
    assert rendered(with_variables(other, {}, think=True)) == "hi<think>"


def test_a_template_without_a_switch_says_so() -> None:
    none = template("{% for m in messages %}{{ m.thinking }}{{ m.content }}{% endfor %}")
    with pytest.raises(UsageError, match="no switch for thinking"):
        with_variables(none, {}, think=True)


def test_a_switch_is_not_set_twice() -> None:
    with pytest.raises(UsageError, match="--no-think and --template-var enable_thinking"):
        with_variables(template(), {"enable_thinking": True}, think=False)


def test_a_template_that_does_not_work_says_where() -> None:
    with pytest.raises(ModelError, match="in line 1"):
        with_variables(template("{% if %}"), {"x": 1}, think=None)
