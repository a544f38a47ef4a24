"""Traces of runs: kinds of events, the recorder, and queries on recorded traces."""

from asyncfl.trace.events import SCHEMA, Event, Kind
from asyncfl.trace.recorder import Recorder

__all__ = ["SCHEMA", "Event", "Kind", "Recorder"]
