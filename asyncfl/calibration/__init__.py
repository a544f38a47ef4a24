"""A world fitted to what runs, live or simulated, have left: speeds, links, losses, availability."""

from asyncfl.calibration.fit import Calibration, calibrate
from asyncfl.calibration.observations import observe_run

__all__ = ["Calibration", "calibrate", "observe_run"]
