"""Write the page that chooses a defence, from the results of the experiment `defence/matrix`.

python docs/choosing.py results/full/defence/matrix/final.csv "One seed, 1 January 2026, commit 0123abc" > PAGE
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from math import isnan, nan
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from asyncfl.base.files.yaml_text import read_yaml

MATRIX = Path(__file__).parents[1] / "workflow/experiments/defence/matrix.yaml"
SEEDS = 3  # fewest seeds of a cell that decides
ATTACKS = 10  # fewest attacks that a defence must be run against to be chosen
WORTH = 0.01
"""Largest accuracy that a chosen defence may cost without attackers, and the least that it must gain under attack."""
LABELS = {"IID": "alike", "Dirichlet .5": "skewed"}
INTRODUCTION = """\
It depends on two questions: has the server samples of its own, and do clients' labels differ? Harm decides first: of
the defences that ban no honest client, and of these, of those that cost at most a point without attackers, the one with
the highest mean accuracy over the attacks that all of them were run against is chosen; only defences run against ten or
more. Accuracy hides backdoors: how often these succeed stands beside it. The last column is the best of all that pass
the same two tests, on the few attacks that each was run against. Where none is a point better than no defence, nothing
is chosen. A choice from fewer than three seeds is marked, and may be chance. {default}

Attacks can be made for a defence: see [what beat `evidence`](detectors.md#what-beats-these-detectors).

100 clients with 600 MNIST samples, 40 % of them attackers. Accuracies are percent. {measured}.
`docs/choosing.py` makes this page from the published results of `defence/matrix`.
`evidence` is a detector of ours: it [banned 0 of 18,218 honest clients](detectors.md#does-a-second-look-help) under 26
attacks of ours, and attackers that know it got 1 of 14,572 banned. Mixing replaces each update by the mean of its
nearest neighbours before a rule aggregates.
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
    """Accuracies of one defence in one setting, 0..1."""

    defence: str
    clean: float  # without attackers
    mean: float  # over the attacks
    worst: float
    worst_attack: str
    banned: int  # most honest clients banned in a run
    success: float  # mean share of triggered samples that backdoors get to their target, 0..1; NaN: none was run
    seeds: int  # fewest seeds of an accuracy

    @property
    def under_attack(self) -> str:
        return f"{percent(self.mean)}, {percent(self.worst)} ({self.worst_attack})"

    @property
    def backdoors(self) -> str:
        return "-" if isnan(self.success) else percent(self.success)

    @property
    def attacked(self) -> tuple[str, str, int]:
        return self.under_attack, self.backdoors, self.seeds

    def harm(self, plain: Row) -> tuple[bool, bool]:
        """Return whether it bans honest clients, and whether it costs more than `WORTH` without attackers."""
        return self.banned > 0, self.clean < plain.clean - WORTH


Settings = dict[tuple[str, str], tuple[list[Row], list[str]]]
"""(noise, partition) -> rows, the least harm first and then the best mean, and the attacks that they are over."""


def requirements() -> dict[str, str]:
    """Return what each defence of the matrix must be given, by its name."""
    found = {}
    for name, changes in read_yaml(MATRIX)["variants"]["defence"].items():
        told = ["share of attackers"] if "expected_share" in str(changes) else []
        found[name] = ", ".join([*(["clean samples"] if changes["defence"].get("root_samples") else []), *told])
    return found


def rows_of(final: pd.DataFrame, noise: str, partition: str, least: int) -> tuple[list[Row], list[str]]:
    """Return the rows of one setting over the attacks that every defence was run against, and these attacks.

    Defences that were run against fewer than `least` attacks, and not against all, are left out. No rows without the
    plain mean.
    """
    part = final[(final["noise"] == noise) & (final["partition"] == partition)]
    accuracies = part[part["metric"] == "test_accuracy"]
    clean = accuracies[accuracies["federation"] == "clean"].groupby("defence")["mean"].first()
    attacked = accuracies[accuracies["federation"] == "attacked"].pivot_table("mean", "defence", "attack")
    attacked = attacked[attacked.index.isin(clean.index)].dropna(thresh=min(least, attacked.shape[1]))
    if "mean" not in attacked.index:
        return [], []
    attacked = attacked.dropna(axis="columns")
    banned = part[part["metric"] == "honest_banned"].groupby("defence")["mean"].max()
    measured = (part["metric"] == "attack_success") & (part["federation"] == "attacked")
    success = part[measured].groupby("defence")["mean"].mean()
    seeds = accuracies[accuracies["attack"].isin(attacked.columns)].groupby("defence")["seeds"].min()
    rows = []
    for name, row in attacked.iterrows():
        worst = str(row.idxmin())
        told = (round(banned.get(name, 0.0)), float(success.get(name, nan)), int(seeds[name]))
        rows.append(Row(str(name), clean[name], row.mean(), row.min(), worst, *told))
    plain = undefended(rows)
    return sorted(rows, key=lambda row: (*row.harm(plain), -row.mean)), list(attacked.columns)


def choices(final: pd.DataFrame, found: Settings, given: Mapping[str, str]) -> Iterator[tuple[list[str], str]]:
    """Yield a line of the table of choices, and the defence chosen, for each setting with and without clean samples."""
    for samples in (True, False):
        for (noise, partition), (rows, _) in found.items():
            chosen, plain = harmless(rows, samples, given), undefended(rows)
            gains = chosen.mean >= plain.mean + WORTH
            choice = f"**{chosen.defence}**" if gains else f"nothing ({chosen.defence} does no harm)"
            seeds = min(chosen.seeds, plain.seeds)
            if seeds < SEEDS:
                choice += f", {seeds} seed{'s' * (seeds > 1)}"
            line = ["100" if samples else "none", LABELS[partition], noise, choice]
            line += [f"{100 * (chosen.clean - plain.clean):+.1f}", chosen.under_attack]
            line += [f"{chosen.backdoors}, {plain.backdoors}", f"{percent(plain.mean)}, {percent(plain.worst)}"]
            line += [of_all(final, noise, partition, samples, given)]
            yield line, chosen.defence


def undefended(rows: Sequence[Row]) -> Row:
    """Return the row of the plain mean."""
    return next(row for row in rows if row.defence == "mean")


def harmless(rows: Sequence[Row], samples: bool, given: Mapping[str, str]) -> Row:
    """Return the best defence that costs at most `WORTH` without attackers and bans no honest client.

    samples: whether the server has clean samples.
    """
    plain = undefended(rows)
    allowed = (row for row in rows if samples or "clean samples" not in given[row.defence])
    return next(row for row in allowed if not any(row.harm(plain)))


def of_all(final: pd.DataFrame, noise: str, partition: str, samples: bool, given: Mapping[str, str]) -> str:
    """Return in words the best harmless defence over the attacks that all were run against, and the plain mean's."""
    rows, attacks = rows_of(final, noise, partition, least=1)
    best, plain = harmless(rows, samples, given), undefended(rows)
    return f"{best.defence}: {percent(best.mean)} ({len(attacks)} attacks; no defence {percent(plain.mean)})"


def default(lines: Sequence[tuple[list[str], str]]) -> str:
    """Return in words what is chosen most often with clean samples and without. `lines`: see `choices`."""
    words = []
    for samples in ("100", "none"):
        chosen = [defence for line, defence in lines if line[0] == samples and line[3].startswith("**")]
        most = max(chosen, key=chosen.count) if chosen else "nothing"
        number = sum(line[0] == samples for line, _ in lines)
        words.append(f"{most} in {chosen.count(most) if chosen else number} of {number} settings")
    return f"Chosen most often: with clean samples {words[0]}, without {words[1]}."


def of_krum(final: pd.DataFrame) -> str:
    """Return what Krum reaches with noise: an answer, and a sentence for each division of labels."""
    said, helps, is_best = [], True, False
    for partition, labels in LABELS.items():
        rows, attacks = rows_of(final, "epsilon 6", partition, least=1)
        named = {row.defence: row for row in rows}
        krum, plain, best = named["Krum"], named["mean"], max(rows, key=lambda row: row.mean)
        helps, is_best = helps and krum.mean > plain.mean, is_best or best is krum
        said.append(
            f"Where labels are {labels} it keeps {percent(krum.mean)} under {', '.join(attacks)}, no defence "
            f"{percent(plain.mean)}, the best one {percent(best.mean)} ({best.defence}); without attackers it costs "
            f"{100 * (plain.clean - krum.clean):.1f} points."
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


def by_attack(final: pd.DataFrame, noise: str, defences: Sequence[str]) -> str:
    """Return a table of accuracies under each attack, labels alike / skewed."""
    kept = (final["noise"] == noise) & (final["federation"] == "attacked") & (final["metric"] == "test_accuracy")
    values = final[kept].pivot_table("mean", "attack", ["partition", "defence"])
    cells = []
    for attack, row in values.iterrows():
        pairs = ([row.get((partition, name)) for partition in LABELS] for name in defences)
        cells.append([attack, *(" / ".join("-" if pd.isna(one) else percent(one) for one in pair) for pair in pairs)])
    return table(["attack", *defences], cells)


def page(final: pd.DataFrame, measured: str) -> str:
    """Return the Markdown text. `final`: the matrix's `final.csv`; `measured`: seeds, day and commit."""
    given = requirements()
    final = final[final["defence"].isin(given)]
    settings = [(noise, partition) for noise in dict.fromkeys(final["noise"]) for partition in LABELS]
    found = {setting: rows_of(final, *setting, least=ATTACKS) for setting in settings}
    found = {setting: (rows, attacks) for setting, (rows, attacks) in found.items() if rows}
    lines = list(choices(final, found, given))
    columns = ["clean samples", "labels", "noise", "choose", "no attack, against the mean", "under attack: mean, worst"]
    columns += ["backdoors succeed, %: with it, with none", "no defence", "of all defences"]
    blocks = ["# Which defence should I choose?", INTRODUCTION.format(measured=measured, default=default(lines))]
    blocks += [table(columns, [line for line, _ in lines])]
    blocks += ["## Is Krum any good with noise?", of_krum(final)]
    blocks += ["## Against which attack?", "Accuracy where labels are alike / skewed; - is not measured."]
    for noise in dict.fromkeys(noise for noise, _ in found):
        named = [name for line, name in lines if line[2] == noise]
        blocks += [f"### Noise: {noise}", by_attack(final, noise, list(dict.fromkeys(["mean", *named])))]
    blocks += ["## What does each defence do?"]
    for noise, partition in found:
        rows, attacks = rows_of(final, noise, partition, least=1)
        blocks += [f"### Labels {LABELS[partition]} ({partition}), noise: {noise}", f"Over {', '.join(attacks)}."]
        columns = ["defence", "needs", "honest banned, most", "no attack", "under attack: mean, worst"]
        cells = [[row.defence, given[row.defence], row.banned or "", percent(row.clean), *row.attacked] for row in rows]
        blocks += [table([*columns, "backdoors succeed, %", "fewest seeds"], cells)]
    return "\n\n".join(block.strip() for block in [*blocks, AFTERWARDS]) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"|{'|'.join(f' {cell} ' if str(cell) else ' ' for cell in line)}|" for line in lines)


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


if __name__ == "__main__":
    sys.stdout.write(page(pd.read_csv(sys.argv[1], keep_default_na=False, na_values=[""]), sys.argv[2]))
