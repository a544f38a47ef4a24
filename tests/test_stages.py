from __future__ import annotations

from asyncfl.stages import ignore_progress, one_by_one


def test_each_part_is_told_when_it_is_done() -> None:
    told: list[tuple[str, int, int | None]] = []
    for part in one_by_one("ab", lambda *one: told.append(one), "letters"):
        told.append((part, -1, None))
    assert told == [("letters", 0, 2), ("a", -1, None), ("letters", 1, 2), ("b", -1, None), ("letters", 2, 2)]
    assert list(one_by_one("ab", ignore_progress, "letters")) == ["a", "b"]
