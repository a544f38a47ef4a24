import io

import pytest
from rich.console import Console

from asyncfl.cli.output import format_number, plain_console, print_table, print_text, rounded_difference

COLUMNS = [f"column_{number}" for number in range(12)]
ROWS = [[f"[/row {row}] :smile:", *(row * 1000.5 + place for place in range(11))] for row in range(3)]


def printed(width: int, columns: list[str], rows: list[list[object]]) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, highlight=False, soft_wrap=True, markup=False, emoji=False)
    print_table(columns, rows, console)
    return file.getvalue()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_wide_tables_are_split_without_losing_a_column(width: int) -> None:
    shown = printed(width, COLUMNS, ROWS)
    assert all(name in shown for name in COLUMNS)
    assert all(f"{value:.7g}" in shown for row in ROWS for value in row[1:])
    assert max(map(len, shown.splitlines())) <= width
    blocks = [block.splitlines() for block in shown.split("\n\n")]
    assert (len(blocks) == 1) == (width == 200)
    assert all(block[0].startswith("column_0") and len(block) == 4 for block in blocks)
    assert all(block[1].startswith("[/row 0] :smile:") for block in blocks)


def test_a_wide_cell_continues_on_the_next_line() -> None:
    shown = printed(40, ["name", "path"], [["mnist", "/x" * 40]])
    assert max(map(len, shown.splitlines())) <= 40
    assert "".join(shown.split()).count("/x") == 40


@pytest.mark.parametrize(("width", "most"), [(40, 40), (100, 100), (10_000, 80)])
def test_sentences_are_broken_between_words_and_indented(width: int, most: int) -> None:
    file, name = io.StringIO(), "/folder-of-runs" * 8
    sentence = f"note: {'[some] words :smile: of well-known length ' * 5}{name} and an end"
    console = Console(file=file, width=width, soft_wrap=True, highlight=False, markup=False, emoji=False)
    print_text(sentence, to=console)
    first, *others = file.getvalue().splitlines()
    assert first.startswith("note: [some]")
    assert all(line.startswith("  ") and line[2] != " " for line in others)
    assert max(len(line) for line in [first, *others] if name not in line) in range(most - 15, most + 1)
    assert [word for line in [first, *others] for word in line.split()] == sentence.split()


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (2.25297912, 2.25256598, "-0.000413"),
        (2.25297912, 2.25256601, "-0.000413"),  # a rounding error in the tenth digit
        (0.0, 0.25, "0.25"),
        (0.65598, 0.65598, "0"),
        (1e-9, 3e-9, "2e-09"),
        (99, 102, "3"),
        (1e300, 2e300, "1e+300"),
        (1.0, float("inf"), "inf"),
        (1.0, float("nan"), "—"),
    ],
)
def test_a_difference_has_no_more_digits_than_the_numbers(one: float, other: float, expected: str) -> None:
    assert format_number(rounded_difference(one, other)) == expected


def test_names_cannot_steer_the_terminal() -> None:
    file = io.StringIO()
    console = plain_console(file=file, width=80, force_terminal=True)
    console.print("a\x1b[2Jb")
    print_table(["name"], [["c\x1b[31md"]], console)
    assert "a\\x1b[2Jb" in file.getvalue()
    assert "c\\x1b[31md" in file.getvalue()
    assert "\x1b[2J" not in file.getvalue()
    assert "\x1b[31m" not in file.getvalue()
