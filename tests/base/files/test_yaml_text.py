import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from asyncfl.base.errors import ScenarioError
from asyncfl.base.files.yaml_text import DEEPEST, LARGEST_FILE, MOST_VALUES, read_text, read_yaml, write_text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),
        ("10e6", 10e6),
        ("1e1", 10.0),
        ("-2E3", -2000.0),
        (".inf", math.inf),
        ("-.inf", -math.inf),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1_000", 1000),
        ("0x10", 16),
        ("9223372036854775807", 2**63 - 1),
        # Nobody means 15, 750 or a date by these.
        ("017", "017"),
        ("12:30", "12:30"),
        ("2001-02-30", "2001-02-30"),
        ("2001-01-01", "2001-01-01"),
        ("1e5x", "1e5x"),
        ("", None),
        ("[yes, ~]", [True, None]),
        ("{a: &x {b: 1}, c: {<<: *x, d: 2}}", {"a": {"b": 1}, "c": {"b": 1, "d": 2}}),
    ],
)
def test_plain_values(text: str, value: Any) -> None:
    assert read_text(text) == value
    assert type(read_text(text)) is type(value)


LAUGHS = "{a: &a [x, x, x, x, x, x, x, x, x]" + "".join(
    f", {new}: &{new} [{', '.join(f'*{old}' for _ in range(9))}]"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1, 2", "is no YAML in line 1"),
        ("a:\n\tb: 1", "is no YAML in line 2: indent with spaces, not tabs"),
        ("a:\n  - 1\n\t- 2", "is no YAML in line 3: indent with spaces, not tabs"),
        ("a: 1\nb: 2\na: 3", "in line 3: field 'a' stands twice"),
        ("a: 1\n3: 2", "in line 2: the name of a field must be text, got 3; put it in quotes"),
        ("{yes: 2}", "the name of a field must be text, got yes"),
        ("{[1]: 2}", "must be text, got a list or a mapping"),
        ("{{a: 1}: 2}", "must be text, got a list or a mapping"),
        ("9" * 5000, "has more than 64 bits"),
        ("9223372036854775808", "9223372036854775808 has more than 64 bits"),
        ("1e309", "1e309 is too large for a number; .inf is infinity"),
        ("[" * 1000 + "]" * 1000, f"must be at most {DEEPEST} deep"),
        ("[" * 1000, f"must be at most {DEEPEST} deep"),
        (LAUGHS + "}", f"stands for more than {MOST_VALUES} values"),
        ("&a [*a]", "holds itself"),
        ("*a", "found undefined alias"),
        ("!!timestamp 2001-02-30", "a tag tag:yaml.org,2002:timestamp has no meaning here"),
        ("!!python/object:os.system x", "has no meaning here"),
        ("!!binary aGk=", "has no meaning here"),
        ("!!int ''", "'' is no int"),
        ("!!float x", "'x' is no float"),
        ("!!bool perhaps", "'perhaps' is no bool"),
        ("!!map [1]", "expected a mapping node"),
        ("{<<: 3}", "expected a mapping or list of mappings"),
        ('"\\ud800"', "half a character"),
        ("a: \0", "special characters are not allowed"),
        ("a\n---\nb", "found another document"),
        ("!" + "x" * 9999 + " 1", "has no meaning here"),
    ],
)
def test_what_is_wrong_is_one_short_message(text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        read_text(text, "--set privacy")
    assert message in str(caught.value)
    assert str(caught.value).startswith("--set privacy: is no YAML")
    assert len(str(caught.value)) < 300


def test_a_file_that_cannot_be_read_is_one_message(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"a: \xff\xfe")
    with pytest.raises(ScenarioError, match="is not a text file in UTF-8") as caught:
        read_yaml(file)
    assert str(caught.value).startswith(f"{file}: ")
    with pytest.raises(ScenarioError, match="cannot be read: Is a directory"):
        read_yaml(tmp_path)
    with pytest.raises(ScenarioError, match=r"nothing\.yaml: cannot be read: No such file"):
        read_yaml(tmp_path / "nothing.yaml")
    with pytest.raises(ScenarioError, match="cannot be read: embedded null byte"):
        read_yaml("a\0b")


def test_a_file_that_is_too_long_or_endless_is_refused(tmp_path: Path) -> None:
    long = tmp_path / "long.yaml"
    with long.open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    with pytest.raises(ScenarioError, match=f"must be at most {LARGEST_FILE // 10**6} MB long"):
        read_yaml(long)
    with pytest.raises(ScenarioError, match=f"must be at most {LARGEST_FILE // 10**6} MB long"):
        read_yaml("/dev/zero")


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@example({"\x85": None})
@given(values)
def test_what_is_written_is_read_back(value: Any) -> None:
    assert read_text(write_text(value)) == value


@pytest.mark.parametrize("text", ["1e5", "017", "12:30", "2001-01-01", "yes", "0x1", ".inf", "null", "1_0"])
def test_text_that_looks_like_something_else_is_written_in_quotes(text: str) -> None:
    assert read_text(write_text(text)) == text
    assert yaml.safe_load(write_text(text)) == text


PIECES = st.sampled_from(
    [
        *"ab1:-,[]{}#&*|>'\"% \n\\!?\t\x85\ufeff",
        "a: ",
        "- ",
        "\n  ",
        "\n- ",
        "x: [",
        "1e3",
        "? ",
        "---",
        "<<: ",
        "&x ",
        "*x",
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join))
@example("!")
@example("a\t")
@example("\n\ufeff")
@example("[a? ]")
@example("{a\n\u2028: 1}")
@example(">#")
def test_either_parser_reads_the_same_and_refuses_the_same(text: str) -> None:
    def read(with_libyaml: bool) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(yaml, "__with_libyaml__", with_libyaml)
            try:
                return repr(read_text(text))
            except ScenarioError as error:
                return str(error)

    assert yaml.__with_libyaml__
    assert read(with_libyaml=True) == read(with_libyaml=False)


def test_experiments_and_what_is_written_are_read_by_the_faster_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: object) -> None:
        raise AssertionError("PyYAML's own scanner is at work")

    text = write_text({"a": [1, 2.5, "b"], "c": {"d": None, "é": "1e5"}})
    monkeypatch.setattr(yaml.SafeLoader, "fetch_more_tokens", refused)
    assert read_text(text) == {"a": [1, 2.5, "b"], "c": {"d": None, "é": "1e5"}}
    with pytest.raises(AssertionError, match="scanner"):
        read_text("a: really?")
