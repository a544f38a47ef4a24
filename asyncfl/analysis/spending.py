"""What a run spent, version by version: columns for the table of rounds from a run's file `spending.parquet`."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

COLUMNS = {
    "epsilon_exact_median": ("median", "exact"),
    "epsilon_claimed_model": ("model", "claimed"),
    "epsilon_basic_model": ("model", "basic"),
    "epsilon_advanced_model": ("model", "advanced"),
    "epsilon_rdp_model": ("model", "rdp"),
    "epsilon_exact_model": ("model", "exact"),
}
"""Column -> holder and accountant, of what the server holds; see `asyncfl.privacy.ledger.spending.COLUMNS`."""


def with_spending(rounds: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """`rounds` with the columns of `COLUMNS`, and `epsilon_exact_sum`: the largest of a client and that of the models.

    rounds: columns `seed` and `round`. NaN where a scheme states nothing about published models. A run that was written
    without the file is left as it is.
    """
    file = folder / "spending.parquet"
    if not file.is_file():
        return rounds
    holders = sorted({holder for holder, _ in COLUMNS.values()})
    held = pd.read_parquet(file, filters=[("adversary", "==", "server"), ("holder", "in", holders)])
    held = held.rename(columns={"version": "round"})
    made = rounds
    for holder in holders:
        wanted = {f"{accountant}_epsilon": name for name, (of, accountant) in COLUMNS.items() if of == holder}
        # What was released after the last version stands in a second row of that version.
        rows = held[held["holder"] == holder].drop_duplicates(["seed", "round"])
        rows = rows[["seed", "round", *wanted]].rename(columns=wanted)
        made = made.merge(rows, on=["seed", "round"], how="left", validate="one_to_one")
        if len(rows):  # the models have a row only where something changed
            columns = list(wanted.values())
            made[columns] = made.groupby("seed", sort=False)[columns].ffill().fillna(0.0)
    if "epsilon_exact_max" in made:
        made = made.assign(epsilon_exact_sum=made["epsilon_exact_max"] + made["epsilon_exact_model"])
    return made
