"""Settings by name, and the file that a chat is saved in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.chat.archive import SCHEMA, Saved, dump, load
from spec_cli.chat.conversation import Conversation, Turn
from spec_cli.chat.settings import SETTING_NAMES, ChatSettings
from spec_cli.errors import UsageError
from spec_cli.spec.settings import Accept

DEFAULT = ChatSettings()


@pytest.mark.parametrize(
    ("name", "word", "value"),
    [
        ("temp", "0.5", lambda s: s.sampling.temp == 0.5),
        ("top-k", "7", lambda s: s.sampling.top_k == 7),
        ("frequency-penalty", "-1", lambda s: s.sampling.frequency_penalty == -1),
        ("accept", "block", lambda s: s.accept is Accept.BLOCK),
        ("seed", "12", lambda s: s.generation(5).seed == 12),
        ("max-tokens", "9", lambda s: s.generation(5).max_tokens == 9),
        ("draft-tokens", "0", lambda s: s.draft_tokens == 0),
        ("stats", "off", lambda s: s.stats is False),
        ("drop-oldest", "on", lambda s: s.drop_oldest is True),
        ("reasoning", "off", lambda s: s.reasoning is False),
        ("think", "on", lambda s: s.think is True),
        ("think", "off", lambda s: s.think is False),
    ],
)
def test_a_setting_is_changed_by_its_name_and_shown_by_it(name: str, word: str, value: Any) -> None:
    changed = DEFAULT.with_word(name, word)
    assert value(changed) and not value(DEFAULT)
    assert str(changed.word(name)) in (word, f"{word}.0")
    unchanged = {n: w for n, w in changed.words().items() if n != name}
    assert unchanged == {n: w for n, w in DEFAULT.words().items() if n != name}


def test_a_word_takes_back_what_a_number_set() -> None:
    for name, word in (("seed", "random"), ("max-tokens", "none"), ("draft-tokens", "auto")):
        assert DEFAULT.word(name) == word
        assert DEFAULT.with_word(name, "3").with_word(name, word) == DEFAULT


def test_without_a_seed_every_answer_gets_the_one_that_is_drawn() -> None:
    assert DEFAULT.generation(77).seed == 77


@pytest.mark.parametrize(
    ("name", "word", "fragment"),
    [
        ("temp", "-1", "--temp is -1"),
        ("temp", "warm", "temp is `warm`, but must be a number"),
        ("temp", "nan", "--temp is nan"),
        ("top-k", "1.5", "must be a whole number"),
        ("seed", "x", "must be `random` or a whole number"),
        ("seed", "-1", "--seed is -1"),
        ("accept", "always", "must be `coupled` or `rejection` or `block`"),
        ("stats", "maybe", "must be `on` or `off`"),
        ("draft-tokens", "64", "must be from 0 to 63"),
        ("tmp", "1", "there is no setting `tmp`"),
    ],
)
def test_what_is_no_setting_is_refused_in_words(name: str, word: str, fragment: str) -> None:
    with pytest.raises(UsageError, match=fragment):
        DEFAULT.with_word(name, word)


def test_the_nearest_name_is_suggested() -> None:
    for name, hint in (("topk", "did you mean `top-k`?"), ("colour", "`/set` shows them all")):
        with pytest.raises(UsageError) as caught:
            DEFAULT.word(name)
        assert caught.value.hint == hint


text = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
turns = st.lists(st.builds(Turn, text, text), max_size=4).map(tuple)


@given(conversation=st.builds(Conversation, st.none() | text, turns), temp=st.floats(0, 5))
def test_a_saved_chat_comes_back_as_it_was(conversation: Conversation, temp: float) -> None:
    settings = DEFAULT.with_word("temp", repr(temp)).with_word("seed", "5")
    saved = dump(conversation, settings, "a model")
    assert load(saved, DEFAULT, "x.json") == Saved(conversation, settings, "a model")
    whole = json.loads(saved)
    assert whole["schema"] == SCHEMA and whole["model"] == "a model"
    assert set(whole["settings"]) == set(SETTING_NAMES)


def test_settings_that_a_file_does_not_name_stay_and_unknown_ones_are_passed_over() -> None:
    mine = DEFAULT.with_word("temp", "0.1")
    loaded = load(saved(settings={"top-k": 3, "of-the-future": 1}), mine, "x.json")
    assert loaded.settings == mine.with_word("top-k", "3") and loaded.model is None


def saved(**changes: Any) -> str:
    whole = {"schema": SCHEMA, "messages": [], "settings": {}} | changes
    return json.dumps(whole)


def message(role: str, content: Any = "x") -> dict[str, Any]:
    return {"role": role, "content": content}


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        ("{", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[1]", "its `schema` is null"),
        (saved(schema="spec-cli/chat/2"), "is of another version of spec-cli"),
        (saved(schema="spec-cli/bench/1"), 'its `schema` is "spec-cli/bench/1"'),
        (saved(messages=3), "its `messages` are not a list"),
        (saved(messages=["hello"]), "message 1 has no `role` and `content`"),
        (saved(messages=[message("user", 3)]), "message 1 has no `role` and `content`"),
        (saved(messages=[message("user")]), "do not alternate"),
        (saved(messages=[message("assistant"), message("user")]), "do not alternate"),
        (saved(messages=[message("user"), message("tool")]), "do not alternate"),
        (saved(messages=[message("user"), message("system")]), "do not alternate"),
        (saved(messages=[message("user", "\ud800"), message("assistant")]), "not valid UTF-8"),
        (saved(settings=[]), "its `settings` are not an object"),
        (saved(settings={"temp": "hot"}), "temp is `hot`"),
        (saved(settings={"stats": None}), "stats is `None`"),
    ],
)
def test_a_file_that_is_no_saved_chat_is_refused_in_words(content: str, fragment: str) -> None:
    with pytest.raises(UsageError, match=fragment) as caught:
        load(content, DEFAULT, "x.json")
    assert "x.json" in caught.value.message
