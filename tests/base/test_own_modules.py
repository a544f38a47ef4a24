import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import asyncfl
from asyncfl.base.own_classes import own_modules

Write = Callable[[str, str], Path]


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
