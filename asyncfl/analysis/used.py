"""What a rule really used, for runs whose table of clients does not say so yet: from their events."""

from __future__ import annotations

from pathlib import Path

import pandas as pd


def with_used(clients: pd.DataFrame, folder: str | Path) -> pd.DataFrame:
    """`clients` with the column `used`: updates that were aggregated with a weight above 0.

    clients: columns `seed` and `client`. A table that has the column, or a run without events, is left as it is.
    """
    file = Path(folder) / "events.parquet"
    if "used" in clients or not file.is_file():
        return clients
    events = pd.read_parquet(file, columns=["seed", "kind", "client", "weight"])
    events = events[(events["kind"] == "aggregated") & (events["weight"] > 0)]
    used = events.groupby(["seed", "client"], observed=True).size().rename("used").reset_index()
    made = clients.merge(used, on=["seed", "client"], how="left", validate="one_to_one")
    return made.assign(used=made["used"].fillna(0).astype("int64"))
