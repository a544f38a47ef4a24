"""Docstrings taken apart."""

from __future__ import annotations

from asyncfl.manual.prose import first_sentence, prose_of


def test_the_source_ends_with_its_sentence_and_is_no_part_of_the_text() -> None:
    prose = prose_of(
        """The update whose nearest others
        are nearest.

        Use it where attackers are few. Source: Blanchard et al. 2017, section 4,
        squared distances. Needs n >= 2f + 3.

            score = sum of distances
        """
    )
    assert prose.summary == "The update whose nearest others are nearest."
    assert prose.source == "Blanchard et al. 2017, section 4, squared distances"
    assert prose.body[0] == "Use it where attackers are few. Needs n >= 2f + 3."
    assert prose.body[1].strip() == "score = sum of distances"


def test_a_source_at_the_end_loses_its_full_stop() -> None:
    assert prose_of("Median. Source: Yin et al. 2018, definition 1.").source == "Yin et al. 2018, definition 1"
    assert prose_of("Median.").source == ""
    assert prose_of(None) == ("", (), "")


def test_the_first_sentence_ends_before_the_next_one_begins() -> None:
    assert first_sentence("At most 0.5 of them, e.g. two. The rest waits.") == "At most 0.5 of them, e.g. two"
