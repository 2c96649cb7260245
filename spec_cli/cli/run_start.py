"""A run once its options are read: it comes to an answer, one for each line, or an estimate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spec_cli.cli.answer import answer
from spec_cli.cli.batch import Batch, answer_lines
from spec_cli.cli.batch_options import BatchOptions
from spec_cli.cli.estimate import print_estimate
from spec_cli.cli.inputs import PromptInput
from spec_cli.cli.pairs import fetch_pair
from spec_cli.cli.records import open_records
from spec_cli.modelref import Pair
from spec_cli.pairs import LocalPair
from spec_cli.render.options import RenderOptions
from spec_cli.settings import GenerationSettings, SessionSettings
from spec_cli.terminal import Terminal


@dataclass(frozen=True, slots=True)
class Run:
    """A pair by its name, what it is asked, and how the answer is shown.

    An answer needs the files, which are fetched: DownloadError or ModelError is raised.
    """

    pair: Pair
    prompt: PromptInput
    settings: SessionSettings
    generation: GenerationSettings
    terminal: Terminal
    render: RenderOptions
    offline: bool

    def estimate(self) -> None:
        """Print how much memory the pair takes. Raises what `print_estimate` raises."""
        print_estimate(
            self.pair,
            self.settings,
            self.terminal,
            offline=self.offline,
            quiet=self.render.quiet,
            as_json=self.render.json,
        )

    def answer_lines(self, options: BatchOptions) -> None:
        """Answer each line of an input. Raises what `answer_lines` raises."""
        batch = Batch(self._fetch(), self.prompt, self.settings, self.generation, options)
        answer_lines(batch, self.terminal)

    def answer(self, output: Path | None, trace: Path | None, prompt_cache: Path | None) -> None:
        """Answer the prompt; the paths are those of the options. Raises what `answer` raises."""
        with open_records(self.terminal, output, trace, prompt_cache) as records:
            files = self._fetch()
            answer(files, self.prompt, self.settings, self.generation, records, self.render)

    def _fetch(self) -> LocalPair:
        return fetch_pair(self.pair, self.terminal, offline=self.offline, quiet=self.render.quiet)
