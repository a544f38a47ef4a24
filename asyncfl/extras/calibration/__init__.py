"""Fit a world to recorded runs, live or simulated: speeds, links, availability."""

from asyncfl.extras.calibration.fit import Calibration, calibrate
from asyncfl.extras.calibration.observations import observe_run

__all__ = ["Calibration", "calibrate", "observe_run"]
