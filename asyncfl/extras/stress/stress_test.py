"""Stress test of detectors: 232 small federations, and whether a detector does harm in any of them.

The law: with fewer attackers than honest clients, a detector bans at most one honest client in a thousand, for any
noise, buffer size, heterogeneity and attack. Without attackers it bans no client. It costs no accuracy compared with
the plain mean.

Runs with the detector and with the plain mean share all random streams: a ban or a flag does not change batches or
noise of other clients. So gains in accuracy are paired differences. A cell consists of federations that differ only by
their seed; its gain has an interval of Student's t over them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property, lru_cache, partial
from itertools import count, product
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from threadpoolctl import threadpool_limits

from asyncfl.base.lifeline import end_with
from asyncfl.base.own_classes import look_for_modules_in
from asyncfl.defences import Detector, Rule, Strikes
from asyncfl.extras.stress.trials import ATTACKS, TESTED, Noise, Skew, Trial, TrialResult, run_trial
from asyncfl.privacy.estimators.intervals import upper_bound
from asyncfl.threats import Minority

if TYPE_CHECKING:
    import pandas as pd

MOST_BANNED = 1e-3  # largest share of honest clients that may be banned
MOST_LOST = 0.01  # largest mean loss of accuracy against the plain mean, over a row of the table or over a cell
BUFFERS, SHARES = (5, 10, 40), (0.1, 0.25, 0.4, 0.45)
NOISES: tuple[Noise, ...] = get_args(Noise)
SKEWS: tuple[Skew, ...] = get_args(Skew)


def stress_grid(seeds: int = 1, *, root: bool = False, first: int = 0) -> tuple[Trial, ...]:
    """Build the federations of the stress test, 232 for each seed, ordered by seed.

    They contain every skew without attackers at three buffer sizes with different noise, and every skew under every
    attack. Buffer sizes, noise and shares of attackers rotate, so that all pairs of them occur; attackers that side
    with a minority have the conditions in which they do most harm: many, large buffers, no noise. `root`: whether the
    server has a root set of 100 samples. `first`: number of the first seed; no two federations share a seed.
    """
    trials = [
        Trial(skew, buffer=buffer, noise=NOISES[(place + number) % 3], root=root)
        for number, skew in enumerate(SKEWS)
        for place, buffer in enumerate(BUFFERS)
    ]
    for turn, (skew, attack) in enumerate(product(SKEWS, ATTACKS)):
        buffer, noise, share = BUFFERS[turn % 3], NOISES[turn // 3 % 3], SHARES[turn // 9 % 4]
        if isinstance(ATTACKS[attack].attack, Minority):
            buffer, noise, share = BUFFERS[-1], "none", SHARES[-1]
        trials.append(Trial(skew, attack, share, buffer, noise, root=root))
    own = count(first * len(trials))
    return tuple(replace(trial, seed=next(own)) for _ in range(seeds) for trial in trials)


SETTINGS = [field.name for field in fields(Trial) if field.name != "seed"]
"""Settings of a cell."""


@dataclass(frozen=True)
class StressCase:
    """Results of a federation with the detector, with the plain mean, and with the plain mean without attackers."""

    result: TrialResult
    mean: float  # final accuracy of the plain mean, 0..1
    clean: float  # final accuracy of the plain mean without attackers, 0..1
    mean_success: float = math.nan  # success of the backdoor under the plain mean, 0..1; NaN: no backdoor

    @property
    def gained(self) -> float:
        """Gain in accuracy over the plain mean."""
        # A number of samples, without rounding errors.
        return round(TESTED * (self.result.accuracy - self.mean)) / TESTED


@dataclass(frozen=True)
class StressReport:
    """Results of a detector in the stress test."""

    cases: tuple[StressCase, ...]

    @cached_property
    def table(self) -> pd.DataFrame:
        """Table with a row per federation: its settings, the counts of its result, and what it `gained` and `lost`."""
        import pandas as pd

        table = pd.DataFrame([asdict(case.result.trial) | asdict(case.result) for case in self.cases])
        gained, clean = [case.gained for case in self.cases], [case.clean for case in self.cases]
        success = [case.mean_success for case in self.cases]
        return table.drop(columns="trial").assign(gained=gained, lost=clean - table["accuracy"], mean_success=success)

    @property
    def honest(self) -> int:
        return int(self.table["honest"].sum())

    @property
    def honest_banned(self) -> int:
        return int(self.table["honest_banned"].sum())

    @property
    def harmed(self) -> int:
        """Number of federations in which an honest client was banned."""
        return int((self.table["honest_banned"] > 0).sum())

    @property
    def most_harmed(self) -> float:
        """Exact upper 95 % limit of the share of federations in which an honest client is banned, 0..1.

        Federations are independent; the clients of one federation are not, because they are judged together.
        """
        return upper_bound(self.harmed, len(self.cases), 0.05)

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Sums and means over the federations of each attack, of each skew, and of all.

        `honest_flagged`, `attacks_flagged`: share of the updates that were flagged or struck; one that the detector
        did not judge was not. `attacks_flagged_judged`: share of the judged ones; `unjudged`: share of all updates.
        NaN: a share of no update. `gained`: mean gain in accuracy over the plain mean; `worst`: the smallest of a
        federation; `lost`: mean loss of accuracy against the plain mean without attackers. `attack_success`,
        `mean_success`: mean success of backdoors under the detector and under the plain mean.
        """
        import pandas as pd

        table = self.table
        groups = {"no attack": table["attack"].isna(), **{name: table["attack"] == name for name in ATTACKS}}
        groups |= {name: table["skew"] == name for name in SKEWS} | {"all": table["buffer"] > 0}
        parts = {name: table[chosen] for name, chosen in groups.items() if chosen.any()}
        sums = pd.DataFrame({name: part.select_dtypes("number").sum() for name, part in parts.items()}).T
        honest, attacks = (sums[f"{kind}_judged"] + sums[f"{kind}_unjudged"] for kind in ("honest", "attacks"))
        clients = sums[["honest", "honest_banned", "attackers", "attackers_banned"]].astype(int)
        shares = {
            "honest_flagged": sums["honest_flagged"] / honest,
            "attacks_flagged": sums["attacks_flagged"] / attacks,
            "attacks_flagged_judged": sums["attacks_flagged"] / sums["attacks_judged"],
            "unjudged": (sums["honest_unjudged"] + sums["attacks_unjudged"]) / (honest + attacks),
            "gained": {name: part["gained"].mean() for name, part in parts.items()},
            "worst": {name: part["gained"].min() for name, part in parts.items()},
            "lost": {name: part["lost"].mean() for name, part in parts.items()},
            "attack_success": {name: part["attack_success"].mean() for name, part in parts.items()},
            "mean_success": {name: part["mean_success"].mean() for name, part in parts.items()},
        }
        return clients.assign(**{name: pd.Series(column) for name, column in shares.items()}).rename_axis("name")

    @cached_property
    def cells(self) -> pd.DataFrame:
        """Cells, in the order of the grid: settings, number of `federations`, mean gain in accuracy over the plain
        mean, and its 95 % interval by Student's t over the federations, `low` to `high`; NaN: there is only one."""
        from scipy.stats import t

        groups = self.table.groupby(SETTINGS, sort=False, dropna=False)["gained"]
        found = groups.agg(federations="count", gained="mean", spread="std").reset_index()
        half = t.ppf(0.975, found["federations"] - 1) * found.pop("spread") / found["federations"] ** 0.5
        return found.assign(low=found["gained"] - half, high=found["gained"] + half)

    @property
    def summary(self) -> tuple[str, ...]:
        """Sentences on banned honest clients and on accuracy lost against the plain mean."""
        cells, points = self.cells[self.cells["federations"] > 1], f"{100 * MOST_LOST:g} point"
        sentences = [
            f"{self.honest_banned} of {self.honest} honest clients banned, in {self.harmed} of {len(self.cases)} "
            f"federations: in at most {100 * self.most_harmed:.3g} % of such federations (exact, 95 %).",
            f"{(self.table['gained'] < -MOST_LOST).sum()} of {len(self.cases)} federations end more than {points} "
            "below the plain mean.",
        ]
        if len(cells):
            behind, surely, perhaps = ((cells[name] < -MOST_LOST).sum() for name in ("gained", "high", "low"))
            sentences.append(
                f"{behind} of {len(cells)} cells are more than {points} below it on average over their seeds, "
                f"{surely} of them with 95 %; of {perhaps} it is not ruled out."
            )
        return tuple(sentences)

    @property
    def violations(self) -> tuple[str, ...]:
        """One sentence for each limit on honest bans or on lost accuracy that the detector exceeds; () without any."""
        found = []
        if self.honest_banned > MOST_BANNED * self.honest:
            found.append(
                f"at most {MOST_BANNED:.1%} of honest clients may be banned; it banned {self.honest_banned} of "
                f"{self.honest}, in {self.harmed} of {len(self.cases)} federations"
            )
        limit = f"accuracy may be {{}} {100 * MOST_LOST:g} point below that of the plain mean"
        for name, row in self.rows.iterrows():
            if name == "no attack" and row["honest_banned"]:
                banned = f"{row['honest_banned']:g} of {row['honest']:g}"
                found.append(f"without attackers no client may be banned; it banned {banned}")
            if row["gained"] < -MOST_LOST:
                lost = f"it is {-100 * row['gained']:.1f} points below on average ({name})"
                found.append(f"{limit.format('at most')}; {lost}")
        for _, cell in self.cells[self.cells["high"] < -MOST_LOST].iterrows():
            lost = f"{-100 * cell['gained']:.1f} points below, at least {-100 * cell['high']:.1f} with 95 %"
            found.append(f"in no cell {limit.format('more than')}; it is {lost} ({_cell_name(cell)})")
        return tuple(found)


def stress(
    detector: Detector,
    strikes: Strikes | None = None,
    trials: Iterable[Trial] | None = None,
    progress: Callable[[int, int], None] | None = None,
    *,
    fallback: Rule | None = None,
    jobs: int = 1,
) -> StressReport:
    """Run `detector` in small federations, compare it with the plain mean, and return the results.

    `strikes`: rule of bans; None: two strikes within three judged updates. `trials`: federations; None:
    `stress_grid()`, with a root set where the detector needs one, which takes two minutes on one core for a detector
    that takes 3 ms per buffer. `progress`: called after each federation with the number done and the total. `fallback`:
    aggregation rule in place of the mean where the detector abstains. `jobs`: number of processes (a script that asks
    for several must begin at `if __name__ == "__main__":`).
    """
    chosen: Sequence[Trial] = tuple(stress_grid(root=detector.needs_root) if trials is None else trials)
    judge, cases = partial(_case, detector, strikes, fallback), []
    with ExitStack() as stack:
        # For matrices this small, several threads are slower than one.
        stack.enter_context(threadpool_limits(1))
        found: Iterable[StressCase] = map(judge, chosen)
        if jobs > 1:
            context = get_context("spawn")
            reader, _ = map(stack.enter_context, context.Pipe(duplex=False))
            pool = ProcessPoolExecutor(jobs, context, _begin, (reader, str(Path.cwd())))
            found = stack.enter_context(pool).map(judge, chosen)
        for case in found:
            cases.append(case)
            if progress is not None:
                progress(len(cases), len(chosen))
    return StressReport(tuple(cases))


def _case(detector: Detector, strikes: Strikes | None, fallback: Rule | None, trial: Trial) -> StressCase:
    result = run_trial(trial, detector, strikes, fallback)
    plain, clean = _plain(trial), _plain(replace(trial, attack=None, share=0.0))
    return StressCase(result, plain.accuracy, clean.accuracy, plain.attack_success)


def _begin(lifeline: Connection, folder: str) -> None:
    end_with(lifeline)
    look_for_modules_in(folder)
    threadpool_limits(1)


def estimate_cost(detector: Detector, trials: Sequence[Trial]) -> float:
    """Measure one federation with `detector`, and return the CPU seconds of all `trials` on this machine."""
    trial = next((one for one in trials if one.buffer == BUFFERS[1]), trials[0])
    with threadpool_limits(1):
        run_trial(trial)  # loads the data
        began = time.process_time()
        run_trial(trial, detector)
        judged = time.process_time()
        run_trial(trial)
        plain = time.process_time() - judged
    return len(trials) * (judged - began + plain) + plain * sum(trial.attack is not None for trial in trials)


@lru_cache(maxsize=4096)
def _plain(trial: Trial) -> TrialResult:
    """Return the result of the plain mean; it is the same for all detectors."""
    return run_trial(trial)


def _cell_name(cell: Any) -> str:
    attack = f"{cell['attack']} by {100 * cell['share']:g} %" if isinstance(cell["attack"], str) else "no attack"
    named = f"{cell['skew']}, {attack}, buffer {cell['buffer']}, noise {cell['noise']}"
    return named + ", root set" * bool(cell["root"])
