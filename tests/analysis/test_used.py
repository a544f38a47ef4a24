import pandas as pd

from asyncfl.analysis.used import with_used

CLIENTS = pd.DataFrame({"seed": [0, 0, 1], "client": [0, 1, 0], "aggregated": [2, 1, 1]})
EVENTS = pd.DataFrame(
    {
        "seed": [0, 0, 0, 1, 0],
        "kind": pd.Categorical(["aggregated", "aggregated", "aggregated", "aggregated", "dispatched"]),
        "client": [0, 0, 1, 0, 1],
        "weight": [0.5, 0.0, 0.0, 1.0, float("nan")],
    }
)


def test_a_table_that_does_not_say_what_was_used_is_completed_from_the_events(tmp_path):
    EVENTS.to_parquet(tmp_path / "events.parquet")
    assert with_used(CLIENTS, tmp_path)["used"].tolist() == [1, 0, 1]
    told = CLIENTS.assign(used=7)
    assert with_used(told, tmp_path) is told


def test_without_events_nothing_is_made_up(tmp_path):
    assert "used" not in with_used(CLIENTS, tmp_path)
