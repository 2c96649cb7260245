"""Before the answer anything goes but its end; the answer follows its grammar."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_cli.free_reasoning import FreeReasoning
from spec_cli.spec.interfaces import Constraint
from tests.toy_constraint import Toy
from tests.toy_thinker import CONTROL, END, PIECES, TEXTS, follows, is_whole, text_of, thinker
from tests.unit.test_reasoning import expected

choices = st.lists(st.integers(0, 10**6), max_size=30)


def ids(*texts: str) -> list[int]:
    return [TEXTS.index(text) for text in texts]


def walk(*texts: str, has_begun: bool = True) -> Constraint:
    state: Constraint = thinker(has_begun=has_begun)
    for token in ids(*texts):
        state = state.after(token)
    return state


def allows(state: Constraint, *texts: str) -> list[bool]:
    return [bool(flag) for flag in state.allows(np.array(ids(*texts)))]


@given(choices=choices, has_begun=st.booleans())
def test_every_text_that_may_come_has_an_answer_that_follows_the_grammar(
    choices: list[int], has_begun: bool
) -> None:
    state: Constraint = thinker(has_begun=has_begun)
    tokens: list[int] = []
    for choice in choices:
        allowed = state.allowed()
        token = int(allowed[choice % allowed.size])
        state = state.after(token)
        if token == END:
            break
        tokens.append(token)
    _, answer = expected(text_of(tuple(tokens)), has_begun=has_begun)
    if not (isinstance(state, FreeReasoning) and state._splitter.held.strip()):
        assert follows(answer)
    if state.is_complete:
        assert is_whole(answer)
    if tokens and choices and token == END:
        assert state.is_complete


@given(choices=choices, has_begun=st.booleans())
def test_what_is_listed_is_what_each_token_is_told(choices: list[int], has_begun: bool) -> None:
    state: Constraint = thinker(has_begun=has_begun)
    every = np.arange(len(PIECES))
    for choice in choices:
        allowed = state.allowed()
        assert allowed.tolist() == every[state.allows(every)].tolist()
        assert allowed.tolist() == [x for x in every if state.allows(np.array([x]))[0]]
        for x in set(every) - set(allowed.tolist()):
            if isinstance(state, FreeReasoning):
                with pytest.raises(ValueError, match="not allowed"):
                    state.after(int(x))
        following = state.after(int(allowed[choice % allowed.size]))
        if following is state:
            return
        state = following


def test_reasoning_is_free_and_cannot_end_the_generation() -> None:
    for state in (walk(), walk("b", " ", "<t>", "<a>"), walk("<t>", has_begun=False)):
        assert allows(state, "b", "/", " ", "\n\n", "<a>", "é", "</t>", "</t>\n") == [True] * 8
        assert state.allows(np.array([CONTROL]))[0]
        assert not state.allows(np.array([END]))[0] and not state.is_complete


def test_no_token_ends_the_block_and_begins_the_answer() -> None:
    state = walk("b", "<", "/", "t")
    assert allows(state, ">", ">a", "</t>a", "a") == [True, False, False, True]
    halves = [PIECES.index(piece) for piece in (b"\xc3", b"</t>\xc3")]
    assert state.allows(np.array(halves)).tolist() == [True, False]
    assert allows(walk("b"), ">a", "t>") == [True, True]


def test_after_the_block_one_token_of_white_space_is_free_and_then_the_grammar_counts() -> None:
    state = walk("b", "</t>")
    assert allows(state, "\n\n", "a", "ab", "b", " a", "</t>") == [
        True, True, True, False, False, False,
    ]  # fmt: skip
    state = state.after(TEXTS.index("\n\n"))
    assert isinstance(state, Toy) and state.tokens == ()
    assert allows(state, "\n\n", "a") == [False, True]


def test_an_answer_may_begin_at_once_or_after_a_block_that_its_mark_begins() -> None:
    state = thinker(has_begun=False)
    assert allows(state, "a", "<t>", "<", "<a>", "b", "t", "</t>") == [True] * 4 + [False] * 3
    assert allows(walk("<", has_begun=False), "t", "t>", "b", "/") == [True, True, False, False]
    assert isinstance(walk("a", has_begun=False), Toy)
    assert allows(walk("<a>", has_begun=False), "a", "b", "\n\n") == [True, False, True]


def test_a_grammar_that_may_begin_as_the_mark_does_leaves_both_open() -> None:
    state = thinker(has_begun=False)
    start = Toy(lambda tokens, x: text_of((*tokens, x)) in ("<", "</"), len(PIECES))
    state = FreeReasoning(state._tokens, state._splitter, start=start, grammar=start)
    state = state.after(TEXTS.index("<"))
    assert allows(state, "/", "t", "b") == [True, True, False]
    assert isinstance(state.after(TEXTS.index("/")), Toy)
    assert allows(state.after(TEXTS.index("t")), ">", "/") == [True, False]
