"""A lab for detectors: a hundred small federations, and whether a detector does harm in any of them.

The law: a detector bans at most one honest client in a thousand, whatever the noise, the buffer, how data differ, and
who attacks, as long as they are fewer than half; nobody without attackers; and it costs no accuracy that the plain mean
would have had.

A federation's run with the detector shares every random stream with its run with the plain mean: a ban or a flag moves
nobody else's batches or noise. So what is gained is a difference of pairs. A cell is federations that differ by their
seed alone; its gain has an interval of Student's t over them. That of a single federation says what the luck of its 400
test samples may come to, nothing of the luck of training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import get_args

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from asyncfl.defences import Detector, Rule, Strikes
from asyncfl.privacy.estimators.intervals import interval, upper_bound
from asyncfl.testing.digits import TESTED, Skew
from asyncfl.testing.trials import ATTACKS, Noise, Trial, TrialResult, run_trial_with_predictions

MOST_BANNED = 1e-3
"""Share of honest clients that may be banned."""
MOST_LOST = 0.01
"""Accuracy that may be lost against the plain mean, on average over a row of the table or a cell."""
ANOTHER_SEED = 1_000_000
"""Between seeds of a cell: more than the grid has of its own."""
BUFFERS, SHARES = (5, 10, 40), (0.1, 0.25, 0.4, 0.45)
NOISES: tuple[Noise, ...] = get_args(Noise)
SKEWS: tuple[Skew, ...] = get_args(Skew)


def stress_grid(repeats: int = 1, *, root: bool = False, first: int = 0, seeds: int = 1) -> tuple[Trial, ...]:
    """The federations that detectors are tried in, 104 for each of `repeats` and `seeds`, each time with other seeds.

    Every skew without attackers at three buffers, each with another noise, and under every attack; buffers, noises and
    shares of attackers go round, so that all pairs of them occur. `root`: the server holds 100 samples of its own.
    `first`: number of the first repeat; those from another number on have seeds that none before it has. `seeds`:
    federations of each cell; all have one seed before any has two.
    """
    trials: list[Trial] = []
    for repeat in range(first, first + repeats):
        turn, own = repeat * 7, count(repeat * len(SKEWS) * (len(BUFFERS) + len(ATTACKS)))
        for skew in SKEWS:
            for place, buffer in enumerate(BUFFERS):
                noise = NOISES[(place + turn + SKEWS.index(skew)) % 3]
                trials.append(Trial(skew, buffer=buffer, noise=noise, root=root, seed=next(own)))
        for skew in SKEWS:
            for attack in ATTACKS:
                buffer, noise = BUFFERS[turn % 3], NOISES[turn // 3 % 3]
                trials.append(Trial(skew, attack, SHARES[turn // 9 % 4], buffer, noise, root=root, seed=next(own)))
                turn += 1
    return tuple(replace(trial, seed=trial.seed + ANOTHER_SEED * seed) for seed in range(seeds) for trial in trials)


@dataclass(frozen=True)
class StressCase:
    """A federation with the detector, with the plain mean, and with the plain mean and no attackers."""

    result: TrialResult
    mean: float
    """Final accuracy of the plain mean, 0..1."""
    clean: float
    """Of the plain mean where nobody attacks."""
    better: int
    """Test samples that the detector's model alone names rightly."""
    worse: int
    """Those that the plain mean's model alone does."""

    @property
    def gained(self) -> float:
        """Accuracy beyond the plain mean's."""
        return (self.better - self.worse) / TESTED

    @property
    def gained_between(self) -> tuple[float, float]:
        """95 % interval of `gained` for the luck of the test samples: exact, given on how many the models differ."""
        differ = self.better + self.worse
        if not differ:
            return 0.0, 0.0
        low, high = interval(self.better, differ)
        return (2 * low - 1) * differ / TESTED, (2 * high - 1) * differ / TESTED


@dataclass(frozen=True)
class StressCell:
    """Federations that differ by their seed alone."""

    trial: Trial
    """The first of them."""
    federations: int
    gained: float
    """Accuracy beyond the plain mean's, on average."""
    low: float
    """End of its 95 % interval, of Student's t over the federations; NaN: there is but one."""
    high: float


@dataclass(frozen=True)
class StressRow:
    """Federations of one kind, added up."""

    name: str
    honest: int
    """Honest clients."""
    honest_banned: int
    attackers: int
    attackers_banned: int
    honest_flagged: float
    """Share of the judged updates of honest clients that were left out or struck; NaN: none were judged."""
    attacks_flagged: float
    """Of those of attackers."""
    unjudged: float
    """Share of the updates of which the detector said nothing."""
    gained: float
    """Accuracy beyond the plain mean's, on average."""
    worst: float
    """In the federation where that is least."""
    lost: float
    """Accuracy short of the plain mean's without attackers, on average."""


@dataclass(frozen=True)
class StressReport:
    """What became of a detector on the grid."""

    cases: tuple[StressCase, ...]

    @property
    def honest(self) -> int:
        """Honest clients in all federations."""
        return sum(case.result.honest for case in self.cases)

    @property
    def honest_banned(self) -> int:
        """How many of them were banned."""
        return sum(case.result.honest_banned for case in self.cases)

    @property
    def harmed(self) -> int:
        """Federations in which an honest client was banned."""
        return sum(case.result.honest_banned > 0 for case in self.cases)

    @property
    def most_harmed(self) -> float:
        """The exact upper limit of the share of such federations, at 95 %; 0..1. Federations are independent cases; the
        clients of one are not, who share a direction and are judged together."""
        return upper_bound(self.harmed, len(self.cases), 0.05)

    @property
    def rows(self) -> tuple[StressRow, ...]:
        """One row for each attack, for each skew, and for all."""
        kinds: list[tuple[str, Callable[[Trial], bool]]] = [("no attack", lambda trial: trial.attack is None)]
        kinds += [(name, lambda trial, name=name: trial.attack == name) for name in ATTACKS]  # type: ignore[misc]
        kinds += [(name, lambda trial, name=name: trial.skew == name) for name in SKEWS]  # type: ignore[misc]
        chosen = [(name, [case for case in self.cases if holds(case.result.trial)]) for name, holds in kinds]
        return tuple(_row(name, cases) for name, cases in [*chosen, ("all", list(self.cases))] if cases)

    @property
    def cells(self) -> tuple[StressCell, ...]:
        """Federations by all but their seed, in the order of the grid."""
        groups: dict[Trial, list[StressCase]] = {}
        for case in self.cases:
            groups.setdefault(replace(case.result.trial, seed=0), []).append(case)
        return tuple(_cell(cases) for cases in groups.values())

    @property
    def behind(self) -> tuple[StressCase, ...]:
        """Federations of more than a point below the plain mean, the worst first."""
        return tuple(sorted((case for case in self.cases if case.gained < -MOST_LOST), key=lambda case: case.gained))

    @property
    def summary(self) -> tuple[str, ...]:
        """Who was banned, where, and where accuracy was lost against the plain mean, in sentences."""
        behind, cells = self.behind, self.cells
        points = f"{100 * MOST_LOST:g} point"
        said = [
            f"{self.honest_banned} of {self.honest} honest clients banned, in {self.harmed} of {len(self.cases)} "
            f"federations: in at most {100 * self.most_harmed:.3g} % of such federations (exact, 95 %). "
            f"Worst attack: {self.worst_attack}.",
            f"{len(behind)} of {len(self.cases)} federations end more than {points} below the plain mean, "
            f"{sum(case.gained_between[1] < -MOST_LOST for case in behind)} of them beyond the luck of {TESTED} test "
            "samples (95 %).",
        ]
        if behind:
            low, high = (100 * end for end in behind[0].gained_between)
            said.append(
                f"The worst: {100 * behind[0].gained:+.1f} points ({low:+.1f} to {high:+.1f}), "
                f"{cell_name(behind[0].result.trial)}."
            )
        if several := [cell for cell in cells if cell.federations > 1]:
            said.append(
                f"{sum(cell.gained < -MOST_LOST for cell in several)} of {len(several)} cells are more than {points} "
                f"below it on average over their seeds, {sum(cell.high < -MOST_LOST for cell in several)} of them with "
                f"95 %; of {sum(cell.low < -MOST_LOST for cell in several)} it is not ruled out."
            )
        return tuple(said)

    @property
    def worst_attack(self) -> str | None:
        """The attack under which most honest clients are banned, and of these the one that costs most accuracy."""
        rows = [row for row in self.rows if row.name in ATTACKS]
        return max(rows, key=lambda row: (row.honest_banned, row.lost)).name if rows else None

    @property
    def violations(self) -> tuple[str, ...]:
        """Which parts of the law do not hold, in words."""
        found = []
        if self.honest_banned > MOST_BANNED * self.honest:
            found.append(
                f"at most {MOST_BANNED:.1%} of honest clients may be banned; it banned {self.honest_banned} of "
                f"{self.honest}, in {self.harmed} of {len(self.cases)} federations"
            )
        for row in self.rows:
            if row.name == "no attack" and row.honest_banned:
                found.append(f"without attackers nobody may be banned; it banned {row.honest_banned} of {row.honest}")
            if row.gained < -MOST_LOST:
                found.append(
                    f"accuracy may be at most {100 * MOST_LOST:g} point below that of the plain mean; it is "
                    f"{-100 * row.gained:.1f} points below on average ({row.name})"
                )
        for cell in self.cells:
            if cell.high < -MOST_LOST:
                found.append(
                    f"in no cell accuracy may be more than {100 * MOST_LOST:g} point below that of the plain mean; "
                    f"it is {-100 * cell.gained:.1f} points below, at least {-100 * cell.high:.1f} with 95 % "
                    f"({cell_name(cell.trial)})"
                )
        return tuple(found)


def stress(
    detector: Detector,
    strikes: Strikes | None = None,
    trials: Iterable[Trial] | None = None,
    progress: Callable[[int, int], None] | None = None,
    *,
    fallback: Rule | None = None,
) -> StressReport:
    """What `detector` does in small federations.

    `strikes`: when clients are banned; None: at two strikes within three judged updates. `trials`: the federations;
    None: `stress_grid()`, with a root set where the detector needs one; about a minute on one core, for a detector that
    takes 3 ms for a buffer. `fallback`: rule in place of the mean where it abstains. `progress` hears
    of each federation: how many are done, of how many.
    """
    chosen: Sequence[Trial] = tuple(stress_grid(root=detector.needs_root) if trials is None else trials)
    cases = []
    # Threads that wait for each other take longer than the products of so small matrices.
    with threadpool_limits(1):
        for number, trial in enumerate(chosen):
            result, right = run_trial_with_predictions(trial, detector, strikes, fallback=fallback)
            mean, clean = _plain(trial), _plain(trial.without_attackers)
            better, worse = int((right & ~mean).sum()), int((mean & ~right).sum())
            cases.append(StressCase(result, float(mean.mean()), float(clean.mean()), better, worse))
            if progress is not None:
                progress(number + 1, len(chosen))
    return StressReport(tuple(cases))


@lru_cache(maxsize=4096)
def _plain(trial: Trial) -> NDArray[np.bool_]:
    """(TESTED,) what the plain mean's last model names rightly, which is the same for every detector."""
    return run_trial_with_predictions(trial)[1]


def cell_name(trial: Trial) -> str:
    """What sets `trial` apart, but for its seed, in words."""
    attack = "no attack" if trial.attack is None else f"{trial.attack} by {100 * trial.share:g} %"
    return f"{trial.skew}, {attack}, buffer {trial.buffer}, noise {trial.noise}" + ", root set" * trial.root


def _cell(cases: Sequence[StressCase]) -> StressCell:
    from scipy.stats import t

    gains = np.array([case.gained for case in cases])
    n, middle, half = len(gains), float(gains.mean()), float("nan")
    if n > 1:
        half = float(t.ppf(0.975, n - 1) * gains.std(ddof=1) / n**0.5)
    return StressCell(cases[0].result.trial, n, middle, middle - half, middle + half)


def _row(name: str, cases: Sequence[StressCase]) -> StressRow:
    results = [case.result for case in cases]

    def total(field: str) -> int:
        return sum(getattr(result, field) for result in results)

    judged = total("honest_judged") + total("attacks_judged")
    gains = [case.gained for case in cases]
    return StressRow(
        name,
        total("honest"),
        total("honest_banned"),
        total("attackers"),
        total("attackers_banned"),
        _share(total("honest_flagged"), total("honest_judged")),
        _share(total("attacks_flagged"), total("attacks_judged")),
        _share(total("unjudged"), judged + total("unjudged")),
        float(np.mean(gains)),
        min(gains),
        float(np.mean([case.clean - case.result.accuracy for case in cases])),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
