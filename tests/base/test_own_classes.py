import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import asyncfl
from asyncfl.base.errors import ScenarioError
from asyncfl.base.own_classes import (
    describe_exception,
    describe_user_exception,
    look_for_modules_in,
    own_class,
    own_file,
    own_modules,
)
from asyncfl.scenario import Scenario
from asyncfl.testing import buffer

Write = Callable[[str, str], Path]


@pytest.mark.parametrize(
    ("source", "line", "said"),
    [
        ("x = 1\nclass Mine(:\n", 2, "SyntaxError: invalid syntax"),
        ("if True:\nx = 1\n", 2, "IndentationError: expected an indented block"),
        ("\n\n1 / 0\n", 3, "ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(3)\n", 2, "it ends the program (SystemExit: 3)"),
        ("raise SystemExit\n", 1, "it ends the program (SystemExit)"),
        ("def f():\n    f()\nf()\n", 2, "RecursionError: maximum recursion depth exceeded"),
        ("import numpy\nnumpy.full(-1, 0)\n", 2, "ValueError: negative dimensions are not allowed"),
        ("raise ValueError('a\\nb')\n", 1, "ValueError: a b"),
        ("class Bad(BaseException): ...\nraise Bad\n", 2, "Bad"),
        ("import no_such_module_of_mine\n", 1, "ModuleNotFoundError: No module named 'no_such_module_of_mine'"),
        ("x = {'{': '}'}['{0}']\n", 1, "KeyError: '{0}'"),
        ("raise ValueError('x' * 100000)\n", 1, "ValueError: xxx"),
    ],
)
def test_a_failing_import_is_one_message_with_file_and_line(write: Write, source: str, line: int, said: str) -> None:
    path = write("mine_broken.py", source)
    with pytest.raises(ImportError) as raised:
        own_class("mine_broken:Mine")
    message = str(raised.value)
    assert message.startswith(f"cannot import 'mine_broken': {path}, line {line}: ")
    assert said in message
    assert "\n" not in message
    assert len(message) < 200 + 2 * len(str(path))


def test_a_wrong_line_in_a_module_that_is_imported_in_turn_is_named(write: Write) -> None:
    write("mine_outer.py", "import mine_inner\n")
    path = write("mine_inner.py", "\nundefined\n")
    with pytest.raises(ImportError, match=rf"{path}, line 2: NameError"):
        own_class("mine_outer:Mine")


@pytest.mark.parametrize(
    "kind", [".:x", "a.b:", ":", ":x", "a..b:x", "a:b:c", "a b:c", "a:\0", "a\n:b", "..:é", "a:b\n"]
)
def test_wrong_import_paths_are_refused(kind: str) -> None:
    with pytest.raises(ImportError, match="must be the import path of a class, my_module:MyClass, got "):
        own_class(kind)


def test_unicode_names_are_names(write: Write) -> None:
    write("größe.py", "class Länge: ...\n")
    assert own_class("größe:Länge").__name__ == "Länge"
    with pytest.raises(ImportError, match="module 'größe' has no 'Breite'"):
        own_class("größe:Breite")


def test_ctrl_c_is_passed_on(write: Write) -> None:
    write("mine_slow.py", "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        own_class("mine_slow:Mine")


RULE = "from asyncfl.defences import Rule\nclass Mine(Rule):\n    "
KRUM = "from asyncfl.defences.krum import Krum\nclass Mine(Krum):\n    kind: str\n    byzantine: int = 1\n    "


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (f"from abc import abstractmethod\n{RULE}kind: str\n    @abstractmethod\n    def centre(self): ...\n",
         "mine_rule:Mine must define centre"),
        (f"{RULE}kind: str\n", "mine_rule:Mine must define aggregate or combine or step"),
        (f"{RULE}def aggregate(self, updates, weights): ...\n",
         "mine_rule:Mine must declare kind: str, whose value is the import path of the class"),
        ("class Mine: ...\n", "must be a class derived from Rule"),
        ("Mine = 3\n", "must be a class derived from Rule"),
        (f"{KRUM}def model_post_init(self, context):\n        [][1]\n", "mine_rule.py, line 6: IndexError"),
    ],
)  # fmt: skip
def test_a_class_that_is_no_component_is_a_fault_of_its_field(
    write: Write, tiny: dict[str, Any], source: str, said: str
) -> None:
    write("mine_rule.py", source)
    with pytest.raises(ScenarioError) as raised:
        Scenario.read({**tiny, "defence": {"rule": {"kind": "mine_rule:Mine"}}})
    assert str(raised.value).startswith("defence.rule: ")
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("base", "field", "methods"),
    [
        ("Staleness", "protocol.staleness", "weight"),
        ("Selection", "protocol.selection", "choose or draw"),
    ],
)
def test_a_class_without_its_method_is_a_fault_of_its_field(
    write: Write, tiny: dict[str, Any], base: str, field: str, methods: str
) -> None:
    write("lacks.py", f"from asyncfl.protocol.{base.lower()} import {base}\nclass Mine({base}):\n    kind: str\n")
    protocol = {"kind": "buffered", "rounds": 2, "buffer": 2, field.split(".")[1]: {"kind": "lacks:Mine"}}
    with pytest.raises(ScenarioError, match=f"{field}: lacks:Mine must define {methods}"):
        Scenario.read({**tiny, "protocol": protocol})


DETECTOR = """
from asyncfl.defences import Detector
class Mine(Detector):
    kind: str = "detects:Mine"
    times: float
    def judge(self, state, buffer, scores):
        return buffer.updates.sum()
"""


def test_a_missing_field_is_named_and_so_are_the_fields_of_what_lacks_one(write: Write, tiny: dict[str, Any]) -> None:
    write("detects.py", DETECTOR)
    with pytest.raises(ScenarioError, match=r"defence\.detector\.times: is required and missing"):
        Scenario.read({**tiny, "defence": {"detector": {"kind": "detects:Mine"}}})
    detector = own_class("detects:Mine")(times=2.0)
    with pytest.raises(AttributeError) as raised:
        detector.judge(None, buffer([[1.0, 2.0]]), None)
    says = describe_exception(raised.value)
    assert "'Buffer' object has no attribute 'updates'; it has base, base_of" in says
    assert "deltas" in says


def test_a_file_is_looked_for_here_beside_scenarios_and_on_the_path_in_this_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, beside, later, named, other = (tmp_path / name for name in ("here", "beside", "later", "named", "other"))
    for place in (here, beside, later, named, other):
        place.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr("asyncfl.base.own_classes._beside", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", str(named), str(other)]))
    for place in (beside, later, beside):
        look_for_modules_in(place)
    assert str(beside) not in sys.path
    with pytest.raises(ImportError, match="name its folder in PYTHONPATH"):
        own_class("nowhere_to_be_found:Mine")
    assert sys.path[-2:] == [str(beside), str(later)]
    assert own_file("x") == Path("x")
    for place in (other, named, later, beside):
        (place / "x").touch()
        assert own_file("x") == place / "x"
    (here / "x").touch()
    assert own_file("x") == Path("x")
    assert own_file(str(other / "x")) == other / "x"
    monkeypatch.setenv("HOME", str(named))
    assert own_file("~/x") == named / "x"


def test_an_exception_in_a_users_code_names_class_and_line(write: Write) -> None:
    path = write(
        "mine_fails.py",
        "class Mine:\n    def made(self):\n        return self.then()\n    def then(self):\n        return {}['k']\n"
        "def alone():\n    import json\n    return json.loads('{')\n",
    )
    module = importlib.import_module("mine_fails")
    said = {}
    for call, failure in ((module.Mine().made, KeyError), (module.alone, ValueError)):
        with pytest.raises(failure) as raised:
            call()
        below = raised.tb.tb_next  # without this test
        said[call.__name__] = describe_user_exception(raised.value.with_traceback(below))
    assert said["made"] == f"mine_fails:Mine.made failed: {path}, line 5: KeyError: 'k'"
    assert str(said["alone"]).startswith(f"alone failed: {path}, line 8: json.decoder.JSONDecodeError: Expecting ")
    nowhere = ValueError("of nobody")
    assert (describe_user_exception(nowhere), describe_exception(nowhere)) == (None, "ValueError: of nobody")


def files(write: Write, sources: dict[str, str]) -> None:
    for name, text in sources.items():
        write(name, text)


def found(name: str) -> list[str]:
    importlib.import_module(name)
    return list(own_modules([name]))


def test_only_imported_modules_beside_a_users_module_count(write: Write) -> None:
    files(
        write,
        {
            "mine_main.py": "import json\nimport numpy\nimport mine_near\n\ndef late():\n    from mine_late import x\n",
            "mine_near.py": "from mine_far import one as two\nfrom asyncfl.base.errors import Fault\n",
            "mine_far.py": "import mine_main\none = 1\n",
            "mine_late.py": "x = 1\n",
            "mine_other.py": "",
        },
    )
    assert found("mine_main") == ["mine_far", "mine_late", "mine_main", "mine_near"]


def test_packages_count_with_what_surrounds_a_module(write: Write) -> None:
    files(
        write,
        {
            "mine_pack/__init__.py": "",
            "mine_pack/rules/__init__.py": "from . import maths\n",
            "mine_pack/rules/rule.py": "from ..shared import one\nfrom .maths import two\nimport mine_beside.deep\n",
            "mine_pack/rules/maths.py": "two = 2\n",
            "mine_pack/shared.py": "one = 1\n",
            "mine_pack/unused.py": "",
            "mine_beside/__init__.py": "",
            "mine_beside/deep.py": "",
        },
    )
    wanted = ["mine_beside", "mine_beside.deep", "mine_pack.rules.maths", "mine_pack.rules.rule", "mine_pack.shared"]
    assert sorted(set(found("mine_pack.rules.rule")) & set(wanted)) == wanted
    assert "mine_pack.unused" not in own_modules(["mine_pack.rules.rule"])


def test_a_file_that_python_does_not_take_does_not_count(write: Write) -> None:
    files(write, {"mine_taker.py": "import json\nimport yaml\n", "json.py": "", "yaml.py": "raise ValueError\n"})
    assert found("mine_taker") == ["mine_taker"]


def test_asyncfl_is_none_of_the_user_s_own_where_it_lies_beside_the_module(write: Write, tmp_path: Path) -> None:
    (tmp_path / "asyncfl").symlink_to(Path(asyncfl.__file__).parent)
    files(
        write, {"mine_in_a_checkout.py": "from asyncfl.base.errors import Fault\nimport mine_too\n", "mine_too.py": ""}
    )
    assert found("mine_in_a_checkout") == ["mine_in_a_checkout", "mine_too"]


def test_of_an_installed_package_only_that_package_counts(write: Write) -> None:
    files(
        write,
        {
            "site-packages/mine_installed/__init__.py": "from mine_installed import part\nimport mine_stranger\n",
            "site-packages/mine_installed/part.py": "",
            "site-packages/mine_stranger.py": "",
        },
    )
    sys.path.insert(0, str(Path(sys.path[0]) / "site-packages"))
    try:
        assert found("mine_installed") == ["mine_installed", "mine_installed.part"]
    finally:
        del sys.path[0]


def test_unreadable_modules_are_no_error(write: Write) -> None:
    files(
        write,
        {"mine_whole.py": "try:\n    import mine_broken\nexcept SyntaxError:\n    pass\n", "mine_broken.py": "def\n"},
    )
    assert found("mine_whole") == ["mine_broken", "mine_whole"]
    assert own_modules(["__main__no_such", "asyncfl.base.errors"]) == {}


@pytest.mark.parametrize("path", ["this:Rule", "antigravity:Rule", "os.path:Rule"])
def test_modules_of_python_itself_are_not_imported(path: str) -> None:
    loaded = set(sys.modules)
    with pytest.raises(ImportError, match="is a module of Python itself, which holds no class of yours; rename your"):
        own_class(path)
    assert {"this", "antigravity"} & (set(sys.modules) - loaded) == set()
