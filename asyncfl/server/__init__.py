"""The protocol without clock or sockets: what the server does with what it hears."""

from asyncfl.server.machine import Phase, Server, ServerPlan
from asyncfl.server.protocol import AnyProtocol, Buffered, FedAsync, FedBuff, Knobs, Protocol, Sync

__all__ = [
    "AnyProtocol",
    "Buffered",
    "FedAsync",
    "FedBuff",
    "Knobs",
    "Phase",
    "Protocol",
    "Server",
    "ServerPlan",
    "Sync",
]
