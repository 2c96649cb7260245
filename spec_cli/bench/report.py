"""What a measurement found, as a whole."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from spec_cli.bench.figures import Figures, figures
from spec_cli.bench.matrix import PLAIN, Arm, Matrix
from spec_cli.bench.measure import Run
from spec_cli.bench.ratios import PromptKey, Ratios, Score, kept, of_kind, ratios_of, score
from spec_cli.bench.runner import MAX_NOISE
from spec_cli.bench.verdict import Verdict, verdict
from spec_cli.spec.counts import counted
from spec_cli.spec.exactness import ExactnessPlan
from spec_cli.spec.settings import Accept


@dataclass(frozen=True, slots=True)
class Report:
    """`runs` are all that were made for `matrix`, repeated ones too; all of them unless
    `interrupted`. Scores and figures are of those that `kept` leaves.
    """

    matrix: Matrix
    runs: tuple[Run, ...]
    plan: ExactnessPlan
    interrupted: bool = False

    @property
    def kept(self) -> list[Run]:
        """The runs that count."""
        return kept(self.runs)

    @property
    def kinds(self) -> list[str]:
        """The kinds of the prompts, in their order."""
        return list(dict.fromkeys(prompt.kind for prompt in self.matrix.prompts))

    def score(self, arm: Arm, temp: float, kind: str | None = None) -> Score | None:
        """What `arm` gains at `temp` on prompts of `kind`, or on all."""
        ratios: Ratios = ratios_of(self.kept, arm, (temp,))
        return score(ratios if kind is None else of_kind(ratios, kind), self.matrix.seed)

    def figures(self, arm: Arm, temp: float) -> Figures | None:
        """What the runs of `arm` at `temp` did."""
        return figures([run for run in self.kept if (run.arm, run.temp) == (arm.at(temp), temp)])

    @property
    def verdict(self) -> Verdict:
        """Which arm to use; the sentence tells how many groups are noisy."""
        ratios = {arm: ratios_of(self.kept, arm, self.matrix.temps) for arm in self.matrix.distinct}
        common = set.intersection(*(set(of_arm) for of_arm in ratios.values()))
        found = verdict({arm: _only(r, common) for arm, r in ratios.items()}, self.matrix.seed)
        if not self.n_noisy:
            return found
        noise = f"; {self.n_noisy:,} of {self.n_groups:,} groups of runs are noisy"
        return replace(found, sentence=found.sentence + noise)

    @property
    def n_groups(self) -> int:
        """The groups that were measured, each once."""
        return len({_group_of(run) for run in self.runs})

    @property
    def n_repeated(self) -> int:
        """The groups that were measured again because they were noisy."""
        return len(self._repeated)

    @property
    def n_noisy(self) -> int:
        """The groups that count though they are noisy."""
        return len(self._noisy)

    @property
    def n_ever_noisy(self) -> int:
        """The groups that were noisy at first, whether or not they were measured again."""
        return len(self._repeated | self._noisy)

    @property
    def _repeated(self) -> set[Hashable]:
        return {_group_of(run) for run in self.runs if run.attempt}

    @property
    def _noisy(self) -> set[Hashable]:
        return {_group_of(run) for run in self.kept if run.noise > MAX_NOISE}

    @property
    def comparable(self) -> list[Run]:
        """The runs, besides the plain ones they are compared with, whose text should be plain's."""
        return [
            run
            for run in self.runs
            if run.arm.accept is Accept.COUPLED and (run.arm != PLAIN or run.turn)
        ]

    @property
    def different(self) -> list[Run]:
        """Those of them whose token ids are others."""
        return [run for run in self.comparable if run.measure.first_difference is not None]

    @property
    def failure(self) -> str | None:
        """What is wrong, in one sentence; None when nothing is."""
        if not self.different or not self.plan.is_exact:
            return None
        n, texts = len(self.different), counted(len(self.comparable), "text")
        differ = "differs" if n == 1 else "differ"
        return f"{n:,} of {texts} {differ} from plain decoding, though passes should be bit-exact"


def _only(ratios: Ratios, prompts: set[PromptKey]) -> Ratios:
    return {prompt: ratio for prompt, ratio in ratios.items() if prompt in prompts}


def _group_of(run: Run) -> Hashable:
    return (run.prompt, run.prompt_sha256, run.temp, run.round)
