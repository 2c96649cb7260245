"""What llama.cpp remembers of a text, and how far that can go back.

A KV cache drops any tail. A recurrent memory (a hybrid has both) holds one state, which each token
overwrites: it goes back to nothing, to a mark, or by a few tokens of its last pass.

Of each of the last tokens of a pass some architectures write a snapshot of the state, and a context
may keep `n_rs_seq` of them. llama.cpp goes back to one of them once after a pass, and it does not
check that the pass was long enough to write it: else it is one of an earlier pass.

A mark is a second sequence. It shares the state of the text until the next pass, which writes to a
place of its own (llama_memory_recurrent::find_slot). That works for every architecture.
"""

from __future__ import annotations

from spec_cli.errors import ResourceError
from spec_cli.llama.native import NativeContext

N_SNAPSHOTS = 7  # of a target: each is as large as the state, and longer drafts seldom hold
TEXT, OTHER = 0, 1  # sequences: the text, and a mark or what is copied into the text


class Memory:
    """The memory of a context, of which a text has the positions 0..n_past-1.

    Invariant: llama.cpp holds the positions 0.._n_held-1. Those from `n_past` on are dropped: it
    forgets them before the next pass, all at once, since snapshots serve but once after a pass.
    """

    def __init__(self, native: NativeContext, *, is_recurrent: bool, n_sequences: int) -> None:
        """More than one sequence is for marks and copies."""
        self._native = native
        self._is_recurrent, self._n_sequences = is_recurrent, n_sequences
        self.n_snapshots = native.n_snapshots
        self.n_past = 0
        self._n_held = 0
        self._n_undoable = 0  # tokens of the last pass that snapshots can take back
        self._is_taken_back = False  # to a snapshot, from which the next pass goes on
        self._mark = 0

    def nearest(self, n_past: int) -> int:
        """The longest beginning, of at most `n_past` tokens, that it can go back to."""
        n_dropped = self._n_held - n_past
        if not self._is_recurrent or n_dropped <= self._n_undoable:
            return n_past
        return self._mark if self._mark <= n_past else 0

    def drop(self, n_past: int) -> None:
        """Drop every position from `n_past` on. Raises ResourceError where it cannot."""
        if self.nearest(n_past) != n_past:
            raise ResourceError("this model's memory cannot drop its last tokens")
        self.n_past = n_past

    def begin_pass(self, n: int) -> None:
        """A pass over `n` tokens is about to write to it."""
        self.settle()
        self._n_held += n
        self._n_undoable = 0

    def end_pass(self, n: int) -> None:
        """The pass succeeded."""
        self.n_past += n
        self._n_undoable = min(n - 1, self.n_snapshots)
        self._is_taken_back = False

    def settle(self) -> None:
        """Let llama.cpp forget what was dropped."""
        if self.n_past == self._n_held:
            return
        if self.n_past < self._mark:
            self.unmark()
        if 0 < self.n_past == self._mark:
            self._forget(TEXT, 0)
            self._native.copy(OTHER, TEXT)
            self._is_taken_back = False
        else:
            self._forget(TEXT, self.n_past)
            self._is_taken_back = self._is_recurrent and self.n_past > 0
        self._n_held, self._n_undoable = self.n_past, 0

    def mark(self) -> None:
        """Let a recurrent memory go back to here later on, in place of an earlier mark.

        Without a second sequence, or right after snapshots took tokens back, it stays as it is.
        """
        if not self._is_recurrent or self._n_sequences == 1:
            return
        self.settle()
        if self.n_past != self._mark and not self._is_taken_back:
            self.unmark()
            self._native.copy(TEXT, OTHER)
            self._mark = self.n_past

    def unmark(self) -> None:
        """Give the mark up, and the second sequence free."""
        if self._n_sequences > 1:
            self._forget(OTHER, 0)
        self._mark = 0

    def fill(self, n_past: int, *, is_whole: bool) -> bool:
        """Whether it holds `n_past` positions, after something was written into it while empty.

        Else, and where not `is_whole`, it is emptied again.
        """
        if is_whole and self._native.last_position(TEXT) == n_past - 1:
            self.n_past = self._n_held = n_past
            return True
        self._forget(TEXT, 0)
        return False

    def take_copy(self) -> None:
        """Add to the text what was written into the second sequence."""
        assert not self._is_taken_back
        self._native.copy(OTHER, TEXT)
        self._forget(OTHER, 0)
        self._n_undoable = 0

    def _forget(self, sequence: int, n_past: int) -> None:
        if not self._native.forget_from(n_past, sequence):
            raise ResourceError("this model's memory cannot drop its last tokens")
