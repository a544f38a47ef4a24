"""Trackers that follow a run while it is computed: TensorBoard, JSON lines, or a class of your own."""

from asyncfl.tracking.tracker import Tracker
from asyncfl.tracking.trackers import Trackers, read_tracker

__all__ = ["Tracker", "Trackers", "read_tracker"]
