from asyncfl.base.errors import MOST_LISTED, Fault, RunError, ScenarioError, hint, nearest, shortened, system_says


def test_a_fault_can_be_named_from_an_outer_part() -> None:
    fault = Fault("epsilon", "must be > 0")
    assert fault.under("privacy") == Fault("privacy.epsilon", "must be > 0")
    assert fault.under("privacy").under("scenario").field == "scenario.privacy.epsilon"
    assert Fault("", "is missing").under("privacy").field == "privacy"
    assert fault.under("") == fault


def test_system_messages_are_shown_without_number_and_path() -> None:
    assert system_says(PermissionError(13, "Permission denied", "/x")) == "Permission denied"
    assert system_says(OSError("no words")) == "no words"


def test_long_texts_keep_their_beginning_and_end() -> None:
    assert shortened("a" * 80) == "a" * 80
    assert shortened("a" * 100 + "b" * 100) == "a" * 67 + "..." + "b" * 10
    assert len(str(Fault("x" * 9000, "got " + "y" * 9000))) < 200


def test_of_many_faults_the_first_are_listed() -> None:
    error = ScenarioError([Fault(f"f{number}", "is no field") for number in range(MOST_LISTED + 7)], "a.yaml")
    lines = str(error).splitlines()
    assert len(lines) == MOST_LISTED + 2
    assert (lines[0], lines[-1]) == (f"a.yaml: {MOST_LISTED + 7} faults", "  ... and 7 more")
    assert len(error.faults) == MOST_LISTED + 7


def test_a_near_name_is_proposed_and_else_all_are_listed() -> None:
    assert nearest("Krumm", ["krum", "median"]) == "krum"
    assert nearest("x", ["krum", "median"]) is None
    assert hint("krun", ["median", "krum"], "rules") == "did you mean krum?"
    assert hint("x", ["krum", "median"], "rules") == "rules: krum, median"
    assert hint("x", [], "rules") == "rules: none"


def test_of_names_that_are_nearly_as_close_one_that_begins_alike_is_proposed() -> None:
    assert nearest("lrate", ["state", "lr"]) == "lr"
    assert nearest("trainig", ["train", "training"]) == "training"
    assert nearest("x", ["xy", "k"]) == "xy"
    assert nearest("colour", ["lr", "state"]) is None
    assert nearest("colour", []) is None


def test_control_characters_in_names_are_escaped() -> None:
    assert str(ScenarioError([Fault("da\x1b[31mta", "is no field")])) == "da\\x1b[31mta: is no field"
    assert str(ScenarioError([Fault("a", "b"), Fault("c\x9b", "d")])) == "2 faults\n  a: b\n  c\\x9b: d"
    assert str(RunError("run\x1b]0;x\x07: is unfinished")) == "run\\x1b]0;x\\x07: is unfinished"
