"""The first load of a file, in a process of its own: `python -m spec_cli.llama.rehearsal FILE`.

llama.cpp checks much of a file by assertions, and one that fails ends the process it is in.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from signal import SIGKILL

from spec_cli.errors import ModelError, ResourceError, SpecError
from spec_cli.llama.apart import run_apart
from spec_cli.llama.context import LlamaContext
from spec_cli.llama.model import LlamaModel, LoadSettings
from spec_cli.llama.native import ContextSettings

_SOURCE = re.compile(r"^/\S*/(?=[\w.-]+:\d+: )")  # where llama.cpp was built
# Every byte that UTF-8 has: a vocabulary that lacks one may end the process, too.
_TEXT = "".join(
    map(chr, [*range(0x800), *range(0x800, 0xD800, 0x800), *range(0xE000, 0x110000, 0x800)])
)


def rehearse(path: Path, *, cancelled: Callable[[], bool]) -> bool:
    """Whether another process loads the model at `path` and evaluates tokens with it.

    False where llama.cpp refuses the model: it will say why when it is loaded. Raises ModelError
    when the process crashes, ResourceError when it is killed, as for its memory, and Cancelled.
    """
    ended = run_apart("spec_cli.llama.rehearsal", str(path), cancelled=cancelled)
    if ended.exit_code == -SIGKILL:
        raise ResourceError(
            f"the process that tried {path.name} was killed",
            hint="check that there is enough memory for it",
        )
    if ended.exit_code < 0:
        raise ModelError(
            f"{path.name} makes llama.cpp crash: {_SOURCE.sub('', ended.reason)}",
            hint="the file may be damaged, or of a kind that this version does not know",
        )
    return ended.exit_code == 0


def main() -> None:
    """Do with the model in the first argument what every run does with one."""
    settings = ContextSettings(
        n_ctx=256, n_threads=1, n_batch=8, n_rows=4, n_sequences=2, n_snapshots=2
    )
    try:
        with (
            LlamaModel(Path(sys.argv[1]), LoadSettings(repack=False)) as model,
            LlamaContext(model, settings) as context,
        ):
            model.tokenize(_TEXT, special=True, bos=True)
            context.eval([0] * min(4, model.n_vocab))
            for _ in range(2):  # by a snapshot and by a mark, where its memory is recurrent
                context.keep(context.evaluated[:-1])
                context.eval([0])
                context.keep(context.evaluated)
                context.eval([0])
    except SpecError as error:
        sys.exit(error.message)


if __name__ == "__main__":
    main()
