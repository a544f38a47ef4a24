"""Trackers: who is told of a run while it goes on, such as TensorBoard, and how one of one's own is named."""

from asyncfl.tracking.base import Tracker
from asyncfl.tracking.told import Trackers, read_tracker

__all__ = ["Tracker", "Trackers", "read_tracker"]
