"""What happened, in order: event types, the recorder, and what can be read from a recorded trace."""

from asyncfl.trace.events import SCHEMA, Event, Kind
from asyncfl.trace.recorder import Recorder

__all__ = ["SCHEMA", "Event", "Kind", "Recorder"]
