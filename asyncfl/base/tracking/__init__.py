"""Trackers that follow a run while it is computed: TensorBoard, JSON lines, or a class of your own."""

from asyncfl.base.tracking.tracker import Tracker
from asyncfl.base.tracking.trackers import Trackers, read_tracker

__all__ = ["Tracker", "Trackers", "read_tracker"]
