"""Whether a conversation fits a context, and what to drop where it does not."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from spec_cli.chat.conversation import Conversation
from spec_cli.errors import UsageError
from spec_cli.spec.counts import counted

_RESERVED_SHARE = 16  # one part in so many of a context is kept free for an answer


def n_reserved(n_ctx: int, max_tokens: int | None) -> int:
    """Tokens of a context that a prompt must leave to its answer."""
    reserved = n_ctx // _RESERVED_SHARE
    return reserved if max_tokens is None else min(reserved, max_tokens)


def n_to_drop(conversation: Conversation, fits: Callable[[Conversation], bool]) -> int:
    """How many of the oldest turns must go so that the rest fits; all of them at most.

    A conversation without its oldest turn must not be longer than it was with it.
    """
    numbers = range(len(conversation.turns))
    return bisect_left(numbers, True, key=lambda n: fits(conversation.without_oldest(n)))


def too_long(
    n_prompt: int, n_ctx: int, reserved: int, *, has_turns: bool, n_ctx_train: int
) -> UsageError:
    """The refusal of a prompt of `n_prompt` tokens, with the ways out."""
    ways = ["`/compact` drops the oldest turns, `/clear` all"] if has_turns else ["shorten it"]
    if n_ctx < n_ctx_train:
        larger = min(n_ctx_train, 2 * max(n_ctx, n_prompt))
        ways.append(f"`/save` it and start with `--ctx-size {larger}`")
    return UsageError(
        f"the conversation would have {counted(n_prompt, 'token')}; of the {n_ctx:,} that the "
        f"context holds {reserved:,} are kept for an answer",
        hint="; ".join(ways),
    )
