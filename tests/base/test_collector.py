"""How often Python looks for garbage in cycles."""

import subprocess
import sys

from asyncfl.base.collector import COLLECT_EVERY


def _threshold_after(code: str) -> int:
    program = f"import gc; {code}; print(gc.get_threshold()[0])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return int(result.stdout)


def test_a_program_looks_seldom_and_a_library_as_often_as_its_caller_wants() -> None:
    assert _threshold_after("gc.set_threshold(300); import asyncfl.api") == 300
    assert _threshold_after("from asyncfl.base.collector import collect_seldom; collect_seldom()") == COLLECT_EVERY
