"""An upload under other noise with a scheme of the user's own."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.api import execute
from asyncfl.audit.finished_run import FinishedRun
from asyncfl.audit.reconstruction.upload import choose_task, find_upload, upload_at_epsilon
from asyncfl.base.errors import RunError
from asyncfl.privacy.accounting.gaussian import analytic_multiplier
from asyncfl.scenario import Scenario

OWN = Path(__file__).parents[2] / "privacy"


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny: dict[str, Any]) -> Any:
    monkeypatch.syspath_prepend(OWN)

    def held(kind: str) -> Any:
        scenario = Scenario.read({**tiny, "privacy": {"kind": f"own_scheme:{kind}"}})
        run = FinishedRun.load(execute(scenario, tmp_path / kind))
        return find_upload(run, 0, choose_task(run, 0, "server"))

    return held


def test_an_own_scheme_calibrates_its_noise(own: Any) -> None:
    held = own("Halving")
    made = upload_at_epsilon(held, 10.0)
    assert made.std == pytest.approx(2 * analytic_multiplier(10.0, 1e-5) * 0.5)
    bare = upload_at_epsilon(held, math.inf)
    assert bare.std == 0
    assert 0 < np.linalg.norm(bare.model - held.assignment.base) <= 0.5
    assert np.std(made.model - bare.model) == pytest.approx(made.std, rel=0.05)


def test_an_own_scheme_without_epsilon_is_an_error(own: Any) -> None:
    with pytest.raises(RunError, match=r"Deaf has no field epsilon and no method with_epsilon"):
        upload_at_epsilon(own("Deaf"), 10.0)
