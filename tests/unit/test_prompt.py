from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.errors import Cancelled, ExitCode, ModelError, UsageError
from spec_cli.prompt import (
    ChatTemplate,
    Message,
    chat_tokens,
    check_text,
    choose_template,
    compose_prompt,
    decode_text,
    raw_tokens,
    read_template,
    render_chat,
)
from spec_cli.template import MAX_CPU_S, BrokenError, TemplateProcess

NOW = datetime(2026, 3, 1, 12, 0)

CHATML = """\
  {% if messages[0].role != 'system' %}
<|im_start|>system
You are helpful.<|im_end|>
  {% endif %}
{% for message in messages %}
{{ '<|im_start|>' + message.role + '\n' + message['content'] + '<|im_end|>' + '\n' }}
{%- endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% endif %}
"""
LLAMA3 = """\
{{- bos_token }}
{%- for m in messages %}
{{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + m['content'] | trim + '<|eot|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
"""
GEMMA = """\
{{ bos_token }}{% if messages[0]['role'] == 'system' %}\
{{ raise_exception('System role\n not supported') }}{% endif %}\
{% for m in messages %}{% set role = 'model' if m['role'] == 'assistant' else m['role'] %}\
{{ '<start_of_turn>' + role + '\n' + m['content'] | trim + '<end_of_turn>\n' }}{% endfor %}\
{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"""
MISTRAL = """\
{{ bos_token }}{% for m in messages %}\
{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}\
{{ raise_exception('Roles must alternate') }}{% endif %}\
{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}\
{% else %}{{ m['content'] + eos_token }}{% endif %}{% endfor %}"""

CONTROL = (
    "<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>",
    "<|end_header_id|>", "<|eot|>", "<start_of_turn>", "<end_of_turn>", "[INST]", "[/INST]",
)  # fmt: skip
FIRST_PIECE = 100


class WordTokenizer:
    """Cuts text at control tokens as llama.cpp does, then into words with the space before them.

    Ids of control tokens are below 100. `decode` is the exact inverse.
    """

    def __init__(self, *, add_bos: bool = False) -> None:
        self.add_bos = add_bos
        self.pieces: list[str] = []
        self.calls: list[tuple[str, bool, bool]] = []

    def control_texts(self) -> Sequence[str]:
        return CONTROL

    def tokenize(self, text: str, *, special: bool, bos: bool) -> list[int]:
        self.calls.append((text, special, bos))
        tokens = [0] if bos and self.add_bos else []
        parts = re.split(f"({'|'.join(map(re.escape, CONTROL))})", text) if special else [text]
        for i, part in enumerate(parts):
            if i % 2:
                tokens.append(CONTROL.index(part))
            else:
                tokens += map(self._id, re.findall(r" ?\w+|\s+(?=\s)| ?[^\w\s]+|\s", part))
        return tokens

    def _id(self, piece: str) -> int:
        if piece not in self.pieces:
            self.pieces.append(piece)
        return FIRST_PIECE + self.pieces.index(piece)

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(
            CONTROL[t] if t < FIRST_PIECE else self.pieces[t - FIRST_PIECE] for t in tokens
        )


def chat_template(source: str, *, is_users: bool = False, **variables: object) -> ChatTemplate:
    return ChatTemplate(source, is_users, "<s>", "</s>", NOW, variables)


def user(content: str) -> list[Message]:
    return [Message("user", content)]


def control_ids(tokens: Sequence[int]) -> list[int]:
    return [token for token in tokens if token < FIRST_PIECE]


# Rendering


@pytest.mark.parametrize(
    ("source", "rendered"),
    [
        (
            CHATML,
            "<|im_start|>system\nYou are helpful.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
            "<|im_start|>assistant\n",
        ),
        (
            LLAMA3,
            "<s><|start_header_id|>user<|end_header_id|>\n\nhi<|eot|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        (GEMMA, "<s><start_of_turn>user\nhi<end_of_turn>\n<start_of_turn>model\n"),
        (MISTRAL, "<s>[INST] hi [/INST]"),
    ],
)
def test_templates_render_as_their_models_expect(source: str, rendered: str) -> None:
    assert render_chat(chat_template(source), user("hi")) == rendered


def test_conversation_can_be_rendered_without_the_next_turn() -> None:
    rendered = render_chat(chat_template(GEMMA), user("hi"), add_generation_prompt=False)
    assert rendered == "<s><start_of_turn>user\nhi<end_of_turn>\n"


@pytest.mark.parametrize(
    ("source", "rendered"),
    [
        ("{{ strftime_now('%d %b %Y') }}", "01 Mar 2026"),
        ("{{ {'b': 'é<', 'a': 1} | tojson }}", '{"b": "é<", "a": 1}'),
        ("{{ [1] | tojson(indent=2) }}", "[\n  1\n]"),
        ("{{ 'é' | tojson(ensure_ascii=True) }}", '"\\u00e9"'),
        ("{{ {'b': 1, 'a': 2} | tojson(separators=(',', ':'), sort_keys=true) }}", '{"a":2,"b":1}'),
        ("a \n{%- generation -%} {{ eos_token }} \n{%- endgeneration -%}\n b", "a</s>b"),
        ("{% generation %}{% set x = 1 %}{{ x }}\n{% endgeneration %}{{ x }}", "1\n"),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{% if tools is none and documents is none %}none{% endif %}", "none"),
        ("{{ eos_token }}{{ enable_thinking }}", "</s>False"),
        ("{{ messages[0] | tojson }}", '{"role": "user", "content": "hi"}'),
    ],
)
def test_template_finds_what_hugging_face_gives_it(source: str, rendered: str) -> None:
    template = chat_template(source, enable_thinking=False)
    assert render_chat(template, user("hi")) == rendered


def test_variables_win() -> None:
    template = chat_template("{{ add_generation_prompt }}", add_generation_prompt=False)
    assert render_chat(template, user("hi")) == "False"


def test_refused_system_role_is_a_usage_error_in_the_templates_words() -> None:
    with pytest.raises(UsageError) as caught:
        render_chat(chat_template(GEMMA), [Message("system", "s"), *user("hi")])
    assert caught.value.message == (
        "the chat template refuses the messages: System role not supported"
    )
    assert "`--system`" in (caught.value.hint or "")


BROKEN = [
    ("{% if %}", "in line 1"),
    ("\n\n{{ 1 +", "in line 3"),
    ("{{ 1 / 0 }}", "ZeroDivisionError: division by zero"),
    ("{{ missing.attribute }}", "UndefinedError: 'missing' is undefined"),
    ("{{ messages.append(1) }}", "SecurityError"),
    ("{{ ''.__class__.__mro__ }}", "SecurityError"),
    ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
    ("{% for i in range(10 ** 9) %}x{% endfor %}", "OverflowError"),
    ("{{ '\\ud800' }}", "UnicodeEncodeError"),
    ("{% if false %}x{% endif %}", "it gives an empty prompt"),
    ("{% for i in range(99999) %}{{ 'x' * 999 }}{% endfor %}", "OverflowError: more than"),
    ("{{ 'a' * 10**12 }}", "MemoryError"),
    ("{{ '%999999999999d' | format(1) }}", "MemoryError"),
]

ESCAPES = [
    "{% include '/etc/passwd' %}",
    "{% extends '/etc/passwd' %}",
    "{% from 'os' import environ %}{{ environ }}",
    "{{ lipsum.__globals__['os'].environ }}",
    "{{ lipsum.__globals__ }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ strftime_now.__self__.__class__ }}",
    "{{ raise_exception.__globals__ }}",
    "{{ ''.__class__.__subclasses__() }}",
    "{{ '{0.__class__.__mro__}'.format(1) }}",
    "{{ messages[0] | attr('__class__') }}",
    "{{ self.__init__.__globals__ }}",
    "{{ namespace().__class__ }}",
]

FOREVER = [
    "{{ 10 ** (10 ** 9) }}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{{ (range(99999) | list * 99) | sort | length }}" * 99,
]


@pytest.mark.parametrize(("source", "cause"), BROKEN)
def test_broken_template_of_a_model_is_a_model_error(source: str, cause: str) -> None:
    with pytest.raises(ModelError) as caught:
        render_chat(chat_template(source), user("hi"))
    assert caught.value.message.startswith("the chat template does not work: ")
    assert cause in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("source", ESCAPES)
def test_a_template_gets_at_nothing_but_the_messages(source: str) -> None:
    with pytest.raises(ModelError):
        render_chat(chat_template(source), user("hi"))


@pytest.mark.parametrize("source", FOREVER)
def test_a_template_that_takes_forever_is_stopped(source: str) -> None:
    with pytest.raises(ModelError, match=f"it takes more than {MAX_CPU_S} s"):
        render_chat(chat_template(source), user("hi"))
    assert render_chat(chat_template("{{ 1 }}"), user("hi")) == "1"


def test_the_user_can_stop_a_template() -> None:
    with pytest.raises(Cancelled):
        render_chat(chat_template(FOREVER[0]), user("hi"), cancelled=lambda: True)
    assert render_chat(chat_template("{{ 1 }}"), user("hi")) == "1"


def test_an_exception_while_a_template_is_rendered_leaves_no_answer_to_the_wrong_question() -> None:
    def interrupted() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        render_chat(chat_template(FOREVER[1]), user("hi"), cancelled=interrupted)
    assert render_chat(chat_template("{{ 1 }}"), user("hi")) == "1"


def test_an_answer_that_the_end_of_the_process_cut_short_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def half() -> subprocess.Popen[str]:
        code = "import sys; sys.stdin.readline(); print('{\"result\": \"a', end='')"
        command = [sys.executable, "-c", code]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    monkeypatch.setattr("spec_cli.template._start", half)
    with pytest.raises(BrokenError, match="it takes more than"):
        TemplateProcess().variables("{{ x }}")


def test_broken_template_of_the_user_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        render_chat(chat_template("{% if %}", is_users=True), user("hi"))


def test_jinja_is_imported_only_when_a_template_is_rendered() -> None:
    code = "import sys, spec_cli.prompt; sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Choosing the template


def choose(models: str | None, users: str | None) -> ChatTemplate:
    return choose_template(models, users, bos_token="<s>", eos_token="</s>", now=NOW)


def test_template_of_the_model_is_the_default() -> None:
    assert choose(GEMMA, None) == chat_template(GEMMA)


def test_option_is_jinja_source_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "chat.jinja"
    file.write_text(MISTRAL)
    assert read_template(MISTRAL) == read_template(str(file)) == MISTRAL


def test_template_of_the_user_wins() -> None:
    assert choose(GEMMA, MISTRAL) == chat_template(MISTRAL, is_users=True)


def test_model_without_template_is_a_usage_error_with_both_ways_out() -> None:
    with pytest.raises(UsageError) as caught:
        choose(None, None)
    assert caught.value.message == "the model has no chat template"
    assert caught.value.hint == "use `--raw`, or `--chat-template FILE`"


def test_unreadable_template_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_template(str(tmp_path / "none"))
    (tmp_path / "latin").write_bytes(b"{{ 'caf\xe9' }}")
    with pytest.raises(UsageError, match="0xe9 at offset 7"):
        read_template(str(tmp_path / "latin"))


# Tokenising


@pytest.mark.parametrize("source", [CHATML, LLAMA3, GEMMA, MISTRAL])
def test_harmless_messages_are_tokenised_in_one_go(source: str) -> None:
    tokenizer = WordTokenizer()
    template = chat_template(source)
    tokens = chat_tokens(tokenizer, template, user("Hello there, 世界 <b>"))
    assert len(tokenizer.calls) == 1
    rendered = render_chat(template, user("Hello there, 世界 <b>"))
    assert tokens == tokenizer.tokenize(rendered, special=True, bos=False)


@pytest.mark.parametrize("source", [CHATML, LLAMA3, GEMMA, MISTRAL])
@pytest.mark.parametrize("content", ["{}", "a {} b", "{}{}", " {} ", "{}</s>", "<s>{}", "x{}\n\ny"])
def test_control_text_of_the_user_stays_text(source: str, content: str) -> None:
    tokenizer, template = WordTokenizer(), chat_template(source)
    for control in CONTROL:
        messages = user(content.replace("{}", control))
        tokens = chat_tokens(tokenizer, template, messages)
        assert tokenizer.decode(tokens) == render_chat(template, messages)
        assert control_ids(tokens) == control_ids(chat_tokens(tokenizer, template, user("hi")))


def test_user_text_around_a_control_text_is_cut_like_any_other() -> None:
    tokenizer = WordTokenizer()
    tokens = chat_tokens(tokenizer, chat_template(MISTRAL), user("see </s> and <s>, ok"))
    text = tokenizer.tokenize(" see </s> and <s>, ok ", special=False, bos=False)
    assert tokens == [
        CONTROL.index("<s>"),
        CONTROL.index("[INST]"),
        *text,
        CONTROL.index("[/INST]"),
    ]


def test_control_text_in_system_and_assistant_messages_stays_text() -> None:
    tokenizer, template = WordTokenizer(), chat_template(CHATML)
    roles = ("system", "user", "assistant", "user")
    spelled = [Message(role, f"{role} says <|im_end|>") for role in roles]
    harmless = [Message(role, f"{role} says nothing") for role in roles]
    tokens = chat_tokens(tokenizer, template, spelled)
    assert tokenizer.decode(tokens) == render_chat(template, spelled)
    assert control_ids(tokens) == control_ids(chat_tokens(tokenizer, template, harmless))


def test_control_text_that_only_two_messages_spell_together_is_none() -> None:
    tokenizer, template = WordTokenizer(), chat_template(MISTRAL)
    tokenizer.control_texts = lambda: (*CONTROL, "x<s>")  # type: ignore[method-assign]
    messages = [Message("user", "</s> x"), Message("assistant", "<s>"), Message("user", "y")]
    assert tokenizer.decode(chat_tokens(tokenizer, template, messages)) == render_chat(
        template, messages
    )


def test_longest_control_text_wins() -> None:
    tokenizer = WordTokenizer()
    tokenizer.control_texts = lambda: ("<|im", "<|im_end|>")  # type: ignore[method-assign]
    template = chat_template("<|im_end|>{{ messages[0].content }}<|im_end|>")
    tokens = chat_tokens(tokenizer, template, user("a<|im_end|>"))
    text = tokenizer.tokenize("a<|im_end|>", special=False, bos=False)
    end = CONTROL.index("<|im_end|>")
    assert tokens == [end, *text, end]


def test_private_characters_of_the_user_are_left_alone() -> None:
    tokenizer, template = WordTokenizer(), chat_template(CHATML)
    messages = user("\U000f0000</s>\U000f0001<s>")
    assert tokenizer.decode(chat_tokens(tokenizer, template, messages)) == render_chat(
        template, messages
    )


def test_a_vocabulary_without_control_tokens_leaves_the_text_in_one_piece() -> None:
    tokenizer = WordTokenizer()
    tokenizer.control_texts = lambda: ()  # type: ignore[method-assign]
    chat_tokens(tokenizer, chat_template("{{ messages[0].content }}"), user("hello there"))
    assert tokenizer.calls == [("hello there", True, True)]


@given(
    st.lists(st.sampled_from([*CONTROL, "a", " ", "\n", "<", "|", ">", "世", "\U000f0000"])),
    st.sampled_from([CHATML, LLAMA3, GEMMA, MISTRAL]),
)
def test_no_text_of_a_message_becomes_a_control_token(parts: list[str], source: str) -> None:
    tokenizer, template = WordTokenizer(), chat_template(source)
    messages = user("".join(parts))
    tokens = chat_tokens(tokenizer, template, messages)
    assert tokenizer.decode(tokens) == render_chat(template, messages)
    assert control_ids(tokens) == control_ids(chat_tokens(tokenizer, template, user("a")))


@pytest.mark.parametrize("content", ["hi", "<|eot|>", "<s>"])
def test_prompt_has_one_bos_token(content: str) -> None:
    tokenizer = WordTokenizer(add_bos=True)
    for source in (LLAMA3, MISTRAL, CHATML):  # the last one writes none itself
        tokens = chat_tokens(tokenizer, chat_template(source), user(content))
        assert tokens[0] == 0
        assert tokens.count(0) == 1


def test_bos_text_of_the_user_does_not_replace_the_bos_token() -> None:
    tokenizer = WordTokenizer(add_bos=True)
    tokens = chat_tokens(tokenizer, chat_template("{{ messages[0].content }}"), user("<s>hi"))
    assert tokens == [0, *tokenizer.tokenize("<s>hi", special=False, bos=False)]


def test_vocabulary_without_bos_text_is_asked_for_its_bos() -> None:
    tokenizer = WordTokenizer(add_bos=True)
    chat_tokens(tokenizer, replace(chat_template(CHATML), bos_token=""), user("hi"))
    raw_tokens(tokenizer, "hi", bos_token="")
    assert [bos for _, special, bos in tokenizer.calls if special] == [True, True]


def test_raw_prompt_may_write_control_tokens_but_has_one_bos() -> None:
    tokenizer = WordTokenizer(add_bos=True)
    end = CONTROL.index("</s>")
    hi = tokenizer.tokenize("hi", special=False, bos=False)
    assert raw_tokens(tokenizer, "hi</s>", bos_token="<s>") == [0, *hi, end]
    assert raw_tokens(tokenizer, "<s>hi</s>", bos_token="<s>") == [0, *hi, end]


# Reading the prompt


@pytest.mark.parametrize(
    ("argument", "material", "prompt"),
    [
        ("Say hi", None, "Say hi"),
        ("Say hi", b"", "Say hi"),
        ("Say hi", b" \n", "Say hi"),
        (None, b"material\n", "material"),
        ("", b"material\r\n", "material"),
        ("  ", b"material", "material"),
        (None, b"two lines\n\n", "two lines\n"),
        (None, b"  indented", "  indented"),
        ("Explain", b"def f():\n    pass\n", "def f():\n    pass\n\nExplain"),
        ("-5 + 3?", b"\xef\xbb\xbfbom", "bom\n\n-5 + 3?"),
        (None, "世界\x00 🙂".encode(), "世界\x00 🙂"),
    ],
)
def test_chat_prompt_is_material_a_blank_line_and_the_instruction(
    argument: str | None, material: bytes | None, prompt: str
) -> None:
    assert compose_prompt(argument, material) == prompt


@pytest.mark.parametrize(
    ("argument", "material", "prompt"),
    [
        (None, b"def add(a, b):\n", "def add(a, b):\n"),
        (None, b"Once upon a time ", "Once upon a time "),
        ("def add", None, "def add"),
        ("  return", b"def add(a, b):\n", "def add(a, b):\n  return"),
        ("  return", b"def add(a, b):", "def add(a, b):\n  return"),
        ("x\n", b"\r\n", "\r\nx\n"),
    ],
)
def test_raw_prompt_keeps_every_character(
    argument: str | None, material: bytes | None, prompt: str
) -> None:
    assert compose_prompt(argument, material, raw=True) == prompt


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(
    ("argument", "material"),
    [(None, None), ("", None), (" \t", None), (None, b""), ("", b"\n \n"), (None, b"\xef\xbb\xbf")],
)
def test_empty_prompt_is_a_usage_error(
    argument: str | None, material: bytes | None, raw: bool
) -> None:
    with pytest.raises(UsageError) as caught:
        compose_prompt(argument, material, raw=raw)
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.message == "no prompt"
    for way in ('`spec-cli run "PROMPT"`', "`COMMAND | spec-cli run`", "`spec-cli run -f FILE`"):
        assert way in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("data", "offset"), [(b"a\xff\xfeb", 1), ("é".encode() + b"\xe9", 2), (b"\xef\xbb\xbf\x80", 3)]
)
def test_invalid_utf8_is_a_usage_error_with_the_offset(data: bytes, offset: int) -> None:
    with pytest.raises(UsageError) as caught:
        compose_prompt(None, data)
    assert caught.value.message == (
        f"the input is not valid UTF-8: byte 0x{data[offset]:02x} at offset {offset}"
    )
    assert "`iconv " in (caught.value.hint or "")


def test_what_an_encoding_is_likely_to_be_is_in_the_hint() -> None:
    for data, likely in ((b"na\xefve", "WINDOWS-1252"), ("é".encode("utf-16"), "UTF-16")):
        with pytest.raises(UsageError) as caught:
            decode_text(data, "the input")
        assert f"`iconv -f {likely} -t UTF-8`" in (caught.value.hint or "")


def test_cut_character_is_invalid_utf8() -> None:
    with pytest.raises(UsageError, match="byte 0xe4 at offset 1"):
        decode_text("a世".encode()[:-1], "the input")


@pytest.mark.parametrize("argument", ["é\udcff", "é\ud800"])
def test_argument_with_undecodable_bytes_is_a_usage_error(argument: str) -> None:
    with pytest.raises(UsageError) as caught:
        compose_prompt(argument, None)
    assert caught.value.message == "the prompt is not valid UTF-8 at offset 2"


@given(st.text())
def test_valid_text_is_returned_as_it_is(text: str) -> None:
    assert check_text(text, "the prompt") == text
    assert decode_text(text.encode(), "the input") == text.removeprefix("\ufeff")
