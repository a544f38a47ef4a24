from __future__ import annotations

import pyarrow as pa

from asyncfl.storage import Run
from asyncfl.trace import SCHEMA
from asyncfl.trace.compare import compare, divergence

ROUNDS = pa.table({"seed": [3, 3], "version": [0, 1], "test_accuracy": [float("nan"), 0.5]})


def changed(table: pa.Table, row: int, **values: object) -> pa.Table:
    """`table` with other values in a row."""
    rows = table.to_pylist()
    rows[row] |= values
    return pa.Table.from_pylist(rows, schema=table.schema)


def test_a_trace_is_the_same_as_itself(story: pa.Table) -> None:
    found = compare(story, story, ROUNDS, ROUNDS)
    assert found.same
    assert found.seeds[0].lines == ()


def test_the_first_difference_is_found_with_what_was_before_it(story: pa.Table) -> None:
    other = changed(changed(story, 20, detail="later"), 10, client=7, weight=0.5)
    (seed,) = compare(story, other, ROUNDS, ROUNDS).seeds
    assert seed.events is not None
    assert (seed.events.row, seed.events.columns) == (10, ("client", "weight"))
    assert [row["seq"] for row in seed.events.common] == [7, 8, 9]
    assert (seed.events.one[0]["client"], seed.events.other[0]["client"]) == (story["client"][10].as_py(), 7)
    assert seed.rounds is None


def test_a_trace_that_ends_early_differs_where_it_ends(story: pa.Table) -> None:
    (seed,) = compare(story, story.slice(0, 12), ROUNDS, ROUNDS).seeds
    assert seed.events is not None
    assert (seed.events.row, seed.events.columns, seed.events.other) == (12, (), ())
    assert ("events", len(story), 12) in [(line.what, line.one, line.other) for line in seed.lines]


def test_fates_and_sums_that_changed_are_counted(story: pa.Table) -> None:
    flagged = next(place for place, kind in enumerate(story["kind"].to_pylist()) if kind == "flagged")
    (seed,) = compare(story, changed(story, flagged, kind="aggregated"), ROUNDS, ROUNDS).seeds
    lines = {line.what: (line.one, line.other) for line in seed.lines}
    assert lines["tasks flagged"] == (1, 0)
    assert lines["tasks aggregated"] == (2, 3)
    assert "events" not in lines
    assert seed.changed_fates == 1


def test_equal_events_with_other_published_numbers_are_a_difference(story: pa.Table) -> None:
    found = compare(story, story, ROUNDS, changed(ROUNDS, 1, test_accuracy=0.25))
    assert not found.same
    assert found.seeds[0].events is None
    assert found.seeds[0].rounds is not None
    assert found.seeds[0].rounds.columns == ("test_accuracy",)
    assert [(line.what, line.other) for line in found.seeds[0].lines] == [("last test_accuracy", 0.25)]


def test_single_seeds_are_compared_with_each_other_and_others_by_number(lossy: Run, story: pa.Table) -> None:
    events, rounds = lossy.tables["events"], lossy.tables["rounds"]
    only = events.filter(pa.compute.equal(events["seed"], 1))
    found = compare(events, only, rounds, rounds)
    assert (found.same, found.only_one, found.only_other, len(found.seeds)) == (False, (0,), (), 1)
    assert found.seeds[0].same
    assert [(s.seed, s.other_seed) for s in compare(only, story, rounds, ROUNDS).seeds] == [(1, 3)]


def test_empty_tables_are_equal() -> None:
    assert divergence(SCHEMA.empty_table(), SCHEMA.empty_table(), ["time_s", "kind"]) is None


def test_a_mean_of_nothing_in_both_is_no_difference_and_in_one_it_is(story: pa.Table) -> None:
    none = story.slice(0, 1)
    only_rounds = compare(none, none, ROUNDS, changed(ROUNDS, 1, test_accuracy=0.25)).seeds[0]
    assert [line.what for line in only_rounds.lines] == ["last test_accuracy"]
    lines = {line.what: (line.one, line.other) for line in compare(none, story, ROUNDS, ROUNDS).seeds[0].lines}
    assert lines["mean staleness"][0] != lines["mean staleness"][0], "NaN"
    assert lines["mean staleness"][1] >= 0
