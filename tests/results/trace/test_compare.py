import pyarrow as pa

from asyncfl.protocol.events import SCHEMA
from asyncfl.results.compare_traces import compare, divergence
from asyncfl.results.earlier_tasks import tasks_of_events

ROUNDS = pa.table({"seed": [3, 3], "version": [0, 1], "test_accuracy": [float("nan"), 0.5]})


def run_of(events: pa.Table, rounds: pa.Table = ROUNDS) -> dict[str, pa.Table]:
    """The tables of a run."""
    return {"events": events, "rounds": rounds, "tasks": tasks_of_events(events)}


def changed(table: pa.Table, row: int, **values: object) -> pa.Table:
    """`table` with other values in a row."""
    rows = table.to_pylist()
    rows[row] |= values
    return pa.Table.from_pylist(rows, schema=table.schema)


def test_a_trace_equals_itself(story: pa.Table) -> None:
    found = compare(run_of(story), run_of(story))
    assert found.same
    assert found.seeds[0].lines == ()


def test_the_first_difference_is_found_with_the_events_before_it(story: pa.Table) -> None:
    other = changed(changed(story, 20, detail="later"), 10, client=7, weight=0.5)
    (seed,) = compare(run_of(story), run_of(other)).seeds
    assert seed.events is not None
    assert (seed.events.row, seed.events.columns) == (10, ("client", "weight"))
    assert [row["seq"] for row in seed.events.common] == [7, 8, 9]
    assert (seed.events.one[0]["client"], seed.events.other[0]["client"]) == (story["client"][10].as_py(), 7)
    assert seed.rounds is None


def test_a_trace_that_ends_early_differs_where_it_ends(story: pa.Table) -> None:
    (seed,) = compare(run_of(story), run_of(story.slice(0, 12))).seeds
    assert seed.events is not None
    assert (seed.events.row, seed.events.columns, seed.events.other) == (12, (), ())
    assert ("events", len(story), 12) in [(line.what, line.one, line.other) for line in seed.lines]


def test_changed_fates_and_sums_are_counted(story: pa.Table) -> None:
    flagged = next(place for place, kind in enumerate(story["kind"].to_pylist()) if kind == "flagged")
    (seed,) = compare(run_of(story), run_of(changed(story, flagged, kind="aggregated"))).seeds
    lines = {line.what: (line.one, line.other) for line in seed.lines}
    assert lines["tasks flagged"] == (1, 0)
    assert lines["tasks aggregated"] == (2, 3)
    assert "events" not in lines
    assert seed.changed_fates == 1


def test_equal_events_with_other_published_numbers_are_a_difference(story: pa.Table) -> None:
    found = compare(run_of(story), run_of(story, changed(ROUNDS, 1, test_accuracy=0.25)))
    assert not found.same
    assert found.seeds[0].events is None
    assert found.seeds[0].rounds is not None
    assert found.seeds[0].rounds.columns == ("test_accuracy",)
    assert [(line.what, line.other) for line in found.seeds[0].lines] == [("last test_accuracy", 0.25)]


def test_empty_tables_are_equal() -> None:
    assert divergence(SCHEMA.empty_table(), SCHEMA.empty_table(), ["time_s", "kind"]) is None


def test_runs_are_compared_seed_by_seed(story: pa.Table) -> None:
    def of(*seeds: int) -> pa.Table:
        parts = [story.set_column(2, "seed", pa.array([seed] * len(story), pa.int64())) for seed in seeds]
        return pa.concat_tables(parts)

    rounds = pa.table({"seed": [0, 1, 5], "version": [0, 0, 0]})
    for one, other, compared, only_one, only_other in (
        ((1, 0), (0, 1), [(0, 0), (1, 1)], (), ()),
        ((1,), (0, 1), [(1, 1)], (), (0,)),
        ((0, 1), (5,), [], (0, 1), (5,)),
        ((0, 1), (5, 6), [], (0, 1), (5, 6)),
        ((5,), (5,), [(5, 5)], (), ()),
    ):
        found = compare(run_of(of(*one), rounds), run_of(of(*other), rounds))
        assert [(seed.seed, seed.other_seed) for seed in found.seeds] == compared
        assert (found.only_one, found.only_other) == (only_one, only_other)
        assert found.same == (not only_one and not only_other)
