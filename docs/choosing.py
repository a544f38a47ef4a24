"""Write the page that chooses a defence, from the results of the experiment `defence/matrix`.

python docs/choosing.py results/full/defence/matrix/ends.csv "One seed, 1 January 2026, commit 0123abc" > PAGE
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from math import isfinite, isnan
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from asyncfl.base.files.yaml_text import read_yaml
from asyncfl.experiments.intervals import Estimate

MATRIX = Path(__file__).parents[1] / "workflow/experiments/defence/matrix.yaml"
SEEDS = 3  # fewest seeds of a cell that decides
ATTACKS = 10  # fewest attacks that a defence must be run against to be chosen
WORTH = 0.01
"""Largest accuracy that a chosen defence may cost without attackers, and the least that it must gain under attack."""
LABELS = {"IID": "alike", "Dirichlet .5": "skewed"}
INTRODUCTION = """\
It depends on two questions: has the server samples of its own, and do clients' labels differ? Harm decides first: of
the defences that ban no honest client, and of these, of those that cost at most a point without attackers, the one is
chosen that keeps most accuracy over the attacks that all of them were run against; only defences run against ten or
more. Any two are compared over the seeds that both have; gains and costs are against no defence (the plain mean), seed
by seed, with half of their 95 % t interval. Accuracy hides backdoors: how often these succeed stands beside it. The
last column is the best of all that pass the same two tests, on the few attacks and seeds that all have. Where none
gains a point, nothing is chosen. A choice from fewer than three seeds is marked, and may be chance. {default}

Attacks can be made for a defence: see [what beat `evidence`](detectors.md#what-beats-these-detectors).

100 clients with 600 MNIST samples, 40 % of them attackers. Accuracies are percent, differences points. {measured}.
`docs/choosing.py` makes this page from the published results of `defence/matrix`.
`evidence` is a detector of ours. With 100 clean samples it [banned none of 18,218 honest clients and 1,158 of 6,742
attackers](detectors.md#does-a-second-look-help) of 624 small federations under 26 attacks of ours; attackers that know
it [brought an earlier form to ban 1 of 14,572](detectors.md#what-beats-these-detectors) honest ones. Mixing replaces
each update by the mean of its nearest neighbours before a rule aggregates.
"""
AFTERWARDS = """\
## What does no table say?

- Every defence here needs fewer attackers than half of the clients, and detectors need senders that cannot be forged.
- A defence that bans nobody here may ban elsewhere: see [findings](detectors.md#does-a-detector-do-harm).
- Attackers that know the defence do more: `tailored` is a lower bound, and only one of the attacks.
- An average over attacks is not yours: look up those that you fear, and the worst one where anybody may join.
- Updates that are left out fill places of the buffer: plan more versions, or where these are scarce a larger buffer
  ([measured](detectors.md#should-a-buffer-count-accepted-updates-only)).
- Differences of less than a point are within chance where one seed was run.
- `asyncfl stress DETECTOR` tries a detector in 232 small federations with more kinds of skew, and counts bans.
"""


class Row(NamedTuple):
    """Accuracies of one defence in one setting, 0..1, over seeds that it and the plain mean have in all runs."""

    defence: str
    clean: float  # without attackers
    cost: Estimate  # accuracy that it costs without attackers, seed by seed
    by_seed: pd.Series  # seed -> mean over the attacks
    gain: Estimate  # of these against the plain mean's, seed by seed
    worst: float
    worst_attack: str
    plain_mean: float  # of the plain mean over the attacks
    plain_worst: float
    banned: int  # most honest clients banned in a run
    success: float  # mean share of triggered samples that backdoors get to their target, 0..1; NaN: none was run

    @property
    def seeds(self) -> int:
        return len(self.by_seed)

    @property
    def mean(self) -> float:
        return float(self.by_seed.mean())

    @property
    def under_attack(self) -> str:
        return f"{percent(self.mean)}, {percent(self.worst)} ({self.worst_attack})"

    @property
    def backdoors(self) -> str:
        return "-" if isnan(self.success) else percent(self.success)

    @property
    def does_harm(self) -> tuple[bool, bool]:
        """Whether it bans honest clients, and whether it costs more than `WORTH` without attackers."""
        return self.banned > 0, self.cost.mean > WORTH

    def is_better(self, other: Row) -> bool:
        """Whether it keeps more under attack, over the seeds that both have."""
        return float((self.by_seed - other.by_seed).mean()) > 0


Settings = dict[tuple[str, str], tuple[list[Row], list[str]]]
"""(noise, partition) -> rows, the least harm first and then the best mean, and the attacks that they are over."""


def requirements() -> dict[str, str]:
    """Return what each defence of the matrix must be given, by its name."""
    found = {}
    for name, changes in read_yaml(MATRIX)["variants"]["defence"].items():
        told = ["share of attackers"] if "expected_share" in str(changes) else []
        found[name] = ", ".join([*(["clean samples"] if changes["defence"].get("root_samples") else []), *told])
    return found


def rows_of(ends: pd.DataFrame, noise: str, partition: str, least: int, alike: bool) -> tuple[list[Row], list[str]]:
    """Return the rows of one setting over the attacks that every defence was run against, and these attacks.

    Defences that were run against fewer than `least` attacks, and not against all, are left out. No rows without the
    plain mean. `alike`: all rows over the seeds that all have; else each over its own.
    """
    part = ends[(ends["noise"] == noise) & (ends["partition"] == partition)]
    clean = part[part["federation"] == "clean"].pivot_table("test_accuracy", "seed", "defence")
    attacked = part[part["federation"] == "attacked"]
    accuracies = attacked.pivot_table("test_accuracy", ["attack", "seed"], "defence")
    tried = accuracies.groupby("attack").count() > 0
    enough = tried.columns[tried.sum() >= min(least, len(tried))].intersection(clean.columns)
    if "mean" not in enough:
        return [], []
    attacks = list(tried.index[tried[enough].all(axis="columns")])
    under = {name: accuracies[name].unstack("seed").loc[attacks] for name in enough}  # attack x seed
    seeds_of = {name: set(under[name].dropna(axis="columns")) & set(clean[name].dropna().index) for name in enough}
    shared = set.intersection(*seeds_of.values()) if alike else seeds_of["mean"]
    banned = part.groupby("defence")["honest_banned"].max()
    rows = []
    for name, all_seeds in under.items():
        seeds = sorted(seeds_of[name] & shared)
        if not seeds:
            continue
        own, plain = all_seeds[seeds], under["mean"][seeds]
        worst = own.mean(axis="columns")
        rows.append(
            Row(
                defence=str(name),
                clean=clean.loc[seeds, name].mean(),
                cost=Estimate.of((clean["mean"] - clean[name]).loc[seeds].to_numpy()),
                by_seed=own.mean(),
                gain=Estimate.of((own - plain).mean().to_numpy()),
                worst=worst.min(),
                worst_attack=str(worst.idxmin()),
                plain_mean=plain.mean().mean(),
                plain_worst=plain.mean(axis="columns").min(),
                banned=round(banned.get(name, 0.0)),
                success=success_of(attacked[attacked["defence"] == name], attacks, seeds),
            )
        )
    return sorted(rows, key=lambda row: (*row.does_harm, -row.mean)), attacks


def success_of(runs: pd.DataFrame, attacks: Sequence[str], seeds: Sequence[int]) -> float:
    """Return the mean share of triggered samples that backdoors among these attacks get to their target."""
    kept = runs[runs["attack"].isin(attacks) & runs["seed"].isin(seeds)]
    return float(kept.groupby("attack")["attack_success"].mean().mean())


def choices(ends: pd.DataFrame, found: Settings, given: Mapping[str, str]) -> Iterator[tuple[list[str], str]]:
    """Yield a line of the table of choices, and the defence chosen, for each setting with and without clean samples."""
    for samples in (True, False):
        for (noise, partition), (rows, _) in found.items():
            chosen, plain = harmless(rows, samples, given), undefended(rows)
            gains = chosen.gain.mean >= WORTH
            choice = f"**{chosen.defence}**" if gains else f"nothing ({chosen.defence} does no harm)"
            if chosen.seeds < SEEDS:
                choice += f", {chosen.seeds} seed{'s' * (chosen.seeds > 1)}"
            line = ["100" if samples else "none", LABELS[partition], noise, choice]
            line += [points(chosen.cost, -1), chosen.under_attack]
            line += [f"{percent(chosen.plain_mean)}, {percent(chosen.plain_worst)}", points(chosen.gain)]
            line += [f"{chosen.backdoors}, {plain.backdoors}", of_all(ends, noise, partition, samples, given)]
            yield line, chosen.defence


def undefended(rows: Sequence[Row]) -> Row:
    """Return the row of the plain mean."""
    return next(row for row in rows if row.defence == "mean")


def harmless(rows: Sequence[Row], samples: bool, given: Mapping[str, str]) -> Row:
    """Return the best defence that costs at most `WORTH` without attackers and bans no honest client; any two are
    compared over the seeds that both have.

    samples: whether the server has clean samples.
    """
    allowed = [row for row in rows if samples or "clean samples" not in given[row.defence]]
    return reduce(lambda best, row: row if row.is_better(best) else best, (r for r in allowed if not any(r.does_harm)))


def of_all(ends: pd.DataFrame, noise: str, partition: str, samples: bool, given: Mapping[str, str]) -> str:
    """Return in words the best harmless defence over the attacks that all were run against, and the plain mean's."""
    rows, attacks = rows_of(ends, noise, partition, least=1, alike=True)
    best = harmless(rows, samples, given)
    return f"{best.defence}: {percent(best.mean)} ({len(attacks)} attacks; no defence {percent(best.plain_mean)})"


def default(lines: Sequence[tuple[list[str], str]]) -> str:
    """Return in words what is chosen most often with clean samples and without. `lines`: see `choices`."""
    words = []
    for samples in ("100", "none"):
        chosen = [defence for line, defence in lines if line[0] == samples and line[3].startswith("**")]
        most = max(chosen, key=chosen.count) if chosen else "nothing"
        number = sum(line[0] == samples for line, _ in lines)
        words.append(f"{most} in {chosen.count(most) if chosen else number} of {number} settings")
    return f"Chosen most often: with clean samples {words[0]}, without {words[1]}."


def of_krum(ends: pd.DataFrame) -> str:
    """Return what Krum reaches with noise: an answer, and a sentence for each division of labels."""
    said, helps, is_best = [], True, False
    for partition, labels in LABELS.items():
        rows, attacks = rows_of(ends, "epsilon 6", partition, least=1, alike=True)
        krum, best = next(row for row in rows if row.defence == "Krum"), max(rows, key=lambda row: row.mean)
        helps, is_best = helps and krum.gain.mean > 0, is_best or best is krum
        said.append(
            f"Where labels are {labels} it keeps {percent(krum.mean)} under {quoted(attacks)}, no defence "
            f"{percent(krum.plain_mean)}, the best one {percent(best.mean)} ({best.defence}); without attackers it "
            f"costs {points(krum.cost)} points{'' if krum.seeds >= SEEDS else f' (seeds: {krum.seeds})'}."
        )
    answer = "Better" if helps else "Not everywhere better"
    return " ".join(
        [
            f"{answer} than no defence under these attacks, {'here and there' if is_best else 'never'} the best. It",
            "must be told the share of attackers, and chooses those that leave out their own noise: they lie closest",
            "together: in SAFL's setting 1.41 % are right then ([measured](results/claims.md#safl-table2-48)).",
            *said,
        ]
    )


def by_attack(ends: pd.DataFrame, noise: str, defences: Sequence[str]) -> str:
    """Return a table of accuracies under each attack, labels alike / skewed, of seeds that all cells of a row have."""
    kept = (ends["noise"] == noise) & (ends["federation"] == "attacked") & ends["defence"].isin(defences)
    by_seed = ends[kept].pivot_table("test_accuracy", ["attack", "seed"], ["partition", "defence"])
    run = by_seed.groupby("attack").transform("count") > 0
    values = by_seed[(by_seed.notna() == run).all(axis="columns")].groupby("attack").mean()
    cells = []
    for attack, row in values.iterrows():
        pairs = ([row.get((partition, name)) for partition in LABELS] for name in defences)
        cells.append([attack, *(" / ".join("-" if pd.isna(one) else percent(one) for one in pair) for pair in pairs)])
    return table(["attack", *defences], cells)


def page(ends: pd.DataFrame, measured: str) -> str:
    """Return the Markdown text. `ends`: the matrix's `ends.csv`; `measured`: seeds, day and commit."""
    given = requirements()
    ends = ends[ends["defence"].isin(given)]
    settings = [(noise, partition) for noise in dict.fromkeys(ends["noise"]) for partition in LABELS]
    found = {setting: rows_of(ends, *setting, least=ATTACKS, alike=False) for setting in settings}
    found = {setting: (rows, attacks) for setting, (rows, attacks) in found.items() if rows}
    lines = list(choices(ends, found, given))
    columns = ["clean samples", "labels", "noise", "choose", "no attack, against the mean", "under attack: mean, worst"]
    columns += ["no defence", "gain", "backdoors succeed, %: with it, with none", "of all defences"]
    blocks = ["# Which defence should I choose?", INTRODUCTION.format(measured=measured, default=default(lines))]
    blocks += [table(columns, [line for line, _ in lines])]
    blocks += ["## Is Krum any good with noise?", of_krum(ends)]
    blocks += ["## Against which attack?", "Accuracy where labels are alike / skewed; - is not measured."]
    for noise in dict.fromkeys(noise for noise, _ in found):
        named = [name for line, name in lines if line[2] == noise]
        blocks += [f"### Noise: {noise}", by_attack(ends, noise, list(dict.fromkeys(["mean", *named])))]
    blocks += ["## What does each defence do?"]
    for noise, partition in found:
        rows, attacks = rows_of(ends, noise, partition, least=1, alike=True)
        number = f"{rows[0].seeds} seed{'s' * (rows[0].seeds > 1)}"
        blocks += [f"### Labels {LABELS[partition]} ({partition}), noise: {noise}"]
        blocks += [f"Over {quoted(attacks)}; {number}, the same in all rows."]
        columns = ["defence", "needs", "honest banned, most", "no attack", "under attack: mean, worst"]
        cells = [
            [row.defence, given[row.defence], row.banned or "", percent(row.clean), row.under_attack, row.backdoors]
            for row in rows
        ]
        columns += ["backdoors succeed, %"]
        blocks += [table(columns, cells)]
    return "\n\n".join(block.strip() for block in [*blocks, AFTERWARDS]) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"|{'|'.join(f' {cell} ' if str(cell) else ' ' for cell in line)}|" for line in lines)


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def points(value: Estimate, sign: int = 1) -> str:
    """Return a difference in points with half of its interval, where it has one."""
    half = f" ± {100 * value.half:.1f}" if isfinite(value.half) else ""
    return f"{100 * sign * value.mean + 0:+.1f}{half}"


def quoted(attacks: Sequence[str]) -> str:
    """Return the names of attacks, some of which have commas."""
    return ", ".join(f"`{name}`" for name in attacks)


if __name__ == "__main__":
    sys.stdout.write(page(pd.read_csv(sys.argv[1], keep_default_na=False, na_values=[""]), sys.argv[2]))
