"""The figure of membership inference."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from matplotlib import pyplot

from asyncfl.audit.membership import MembershipScores
from asyncfl.audit.roc_figure import APART, LEAST, draw_curves
from asyncfl.privacy.estimators.roc import at_false_rate, curve


def test_the_figure_has_a_curve_and_an_interval_for_each_attack(tmp_path: Path) -> None:
    others = np.arange(500.0)
    scores = {
        "useless": MembershipScores(np.arange(0.0, 480.0, 4), others),
        "good": MembershipScores(np.arange(400.0, 700.0), others),
        "best": MembershipScores(np.arange(600.0, 700.0), others),
    }
    pages = []
    with mock.patch("matplotlib.pyplot.close", pages.append):
        files = draw_curves(scores, "Who", "A caption.", tmp_path / "roc")
    [page] = pages
    pyplot.close(page)
    assert [file.name for file in files] == ["roc.svg", "roc.png", "roc.pdf"]
    [axis] = page.axes
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
    lines = {line.get_label(): line for line in axis.lines}
    for name, one in scores.items():
        false, true = curve(one.members, one.others)
        assert lines[name].get_xdata() == pytest.approx(np.maximum(false, LEAST))
        assert lines[name].get_ydata() == pytest.approx(np.maximum(true, LEAST))
    assert (list(lines["guessing"].get_xdata()), list(lines["guessing"].get_ydata())) == ([LEAST, 1], [LEAST, 1])
    for place, (bars, one) in enumerate(zip(axis.containers, scores.values(), strict=True)):
        point = at_false_rate(one.members, one.others)
        [segment] = bars.lines[2][0].get_segments()
        # Side by side around a false positive rate of 1 %.
        assert segment[:, 0] == pytest.approx([0.01 * APART ** (place - 1)] * 2)
        assert segment[:, 1] == pytest.approx(np.maximum(point.rate_interval, LEAST))
