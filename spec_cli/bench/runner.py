"""Makes the runs of a matrix, group by group, on a prepared session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from spec_cli.bench.archive import Archive, sha256_of
from spec_cli.bench.limits import Limits
from spec_cli.bench.matrix import PLAIN, Arm, Group, Matrix
from spec_cli.bench.measure import Measure, Run, measure_of
from spec_cli.bench.trace import limits_of
from spec_cli.errors import Cancelled
from spec_cli.events import Finished, FinishReason
from spec_cli.session import Session
from spec_cli.settings import DrafterKind
from spec_cli.spec.settings import Accept

MAX_NOISE = 0.05  # of a group, above which it is measured again
_N_WARM_UP = 8  # tokens


@dataclass(frozen=True, slots=True)
class Step:
    """What is run now: `what`, `n_done` of `n_runs`, and the seconds that are left if known."""

    what: str
    n_done: int
    n_runs: int
    left_s: float | None


class Runner:
    """Runs each group's arms one after another, between two runs of plain decoding.

    What the archive has is not run again. A group whose two plain runs differ by more than
    `MAX_NOISE` is measured once more at the end. `prompts` are token ids by the prompt's id;
    `load` gives the machine's load average, `clock` seconds.
    """

    def __init__(
        self,
        session: Session,
        matrix: Matrix,
        prompts: Mapping[str, Sequence[int]],
        archive: Archive,
        *,
        clock: Callable[[], float],
        load: Callable[[], float | None],
        progress: Callable[[Step], None],
    ) -> None:
        self._session, self._matrix = session, matrix
        self._prompts, self._archive = prompts, archive
        self._clock, self._load, self._progress = clock, load, progress
        self._limits: dict[tuple[DrafterKind, str, float], Limits | None] = {}
        self._n_done = self._n_runs = 0
        self._started = 0.0

    def run(self) -> None:
        """Make all runs. Raises Cancelled, and what Session raises."""
        groups = self._matrix.groups()
        todo = {group: self._missing(group) for group in groups}
        self._n_runs = sum(len(arms) + 2 for arms in todo.values() if arms)
        if self._n_runs:
            self._warm_up(groups[0])
        self._started = self._clock()
        self._run_all(todo)
        again = {replace(group, attempt=1): self._noisy(group) for group in groups}
        self._n_runs += sum(len(arms) + 2 for arms in again.values() if arms)
        self._run_all(again)

    def _missing(self, group: Group) -> list[Arm]:
        arms = self._matrix.arms_at(group.temp)
        return [arm for arm in arms if self._archive.find(group, arm) is None]

    def _noisy(self, group: Group) -> list[Arm]:
        """The arms of a group that are to be measured again."""
        runs = ((arm, self._archive.find(group, arm)) for arm in self._matrix.arms_at(group.temp))
        noisy = [arm for arm, run in runs if run and run.noise > MAX_NOISE]
        again = replace(group, attempt=1)
        return [arm for arm in noisy if self._archive.find(again, arm) is None]

    def _warm_up(self, group: Group) -> None:
        """Run each arm for a moment: caches fill, files are read, and nothing is measured."""
        matrix = replace(self._matrix, max_tokens=min(self._matrix.max_tokens, _N_WARM_UP))
        for arm in (PLAIN, *matrix.arms_at(group.temp)):
            self._progress(Step("warming up", 0, self._n_runs, None))
            self._generate(matrix, group, arm)

    def _run_all(self, todo: Mapping[Group, Sequence[Arm]]) -> None:
        for group, arms in todo.items():
            if arms:
                self._archive.add(self._measure(group, arms))

    def _measure(self, group: Group, arms: Sequence[Arm]) -> list[Run]:
        """The runs of a group."""
        load = self._load()
        order = [PLAIN, *self._matrix.order(group, arms), PLAIN]
        finished = [self._step(group, arm) for arm in order]
        plain = finished[0].tokens
        measures = [measure_of(run, plain) for run in finished]
        plain_s = measures[0].token_s, measures[-1].token_s

        def run(i: int, arm: Arm, measure: Measure) -> Run:
            return Run(
                arm=arm,
                prompt=group.prompt.id,
                kind=group.prompt.kind,
                prompt_sha256=sha256_of(group.prompt.text),
                temp=group.temp,
                round=group.round,
                attempt=group.attempt,
                turn=int(i == len(order) - 1),
                load=load,
                plain_token_s=sum(plain_s) / 2,
                noise=max(plain_s) / min(plain_s) - 1,
                measure=measure,
                limits=self._limits_of(group, arm, plain),
            )

        return [run(i, *pair) for i, pair in enumerate(zip(order, measures, strict=True))]

    def _step(self, group: Group, arm: Arm) -> Finished:
        name = f"{group.prompt.id}, temp {group.temp:g}, {arm.name}"
        elapsed = self._clock() - self._started
        n_left = self._n_runs - self._n_done
        left_s = elapsed / self._n_done * n_left if self._n_done else None
        self._progress(Step(name, self._n_done, self._n_runs, left_s))
        finished = self._generate(self._matrix, group, arm)
        self._n_done += 1
        return finished

    def _generate(self, matrix: Matrix, group: Group, arm: Arm) -> Finished:
        generation = matrix.generation(group.temp, arm)
        self._session.forget()
        decoding = self._session.arm(generation, arm.draft_tokens, self._kind(arm))
        *_, finished = self._session.generate(self._prompts[group.prompt.id], generation, decoding)
        assert isinstance(finished, Finished)
        if finished.reason is FinishReason.INTERRUPTED:
            raise Cancelled
        return finished

    def _kind(self, arm: Arm) -> DrafterKind:
        """The drafter that runs; `auto` is the session's."""
        is_auto = arm.drafter is DrafterKind.AUTO
        return DrafterKind(self._session.drafter_name) if is_auto else arm.drafter

    def _limits_of(self, group: Group, arm: Arm, plain: Sequence[int]) -> Limits | None:
        """The limits of an arm whose accepted tokens are those of plain decoding."""
        if arm.is_plain or arm.accept is not Accept.COUPLED:
            return None
        key = (self._kind(arm), group.prompt.id, group.temp)
        if key not in self._limits:
            longest = max(arm.draft_tokens or 0 for arm in self._matrix.arms)
            k_max = max(longest, self._session.k_max)
            prompt = self._prompts[group.prompt.id]
            rule = self._session.rule(self._matrix.generation(group.temp, arm))
            self._limits[key] = limits_of(self._session, key[0], prompt, plain, rule, k_max)
        return self._limits[key]
