"""The clients of a live federation: who may take part, and under which number."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from asyncfl.base.errors import AsyncflError
from asyncfl.live.remote_client import RemoteClient, RunContext
from asyncfl.live.vocabulary import Hello


class RefusedError(AsyncflError):
    """A client that is not let in, and why."""


class ClientRegistry:
    """The clients of a federation, by number and by name."""

    def __init__(
        self, context: RunContext, tokens: Mapping[str, str], clients: int, n_parameters: int, fewest_samples: int = 1
    ) -> None:
        """`tokens`: name -> token of those who may take part, at most `clients`; `fewest_samples`: of each of them."""
        self._context, self._tokens = context, dict(tokens)
        self._clients, self._n_parameters, self._fewest_samples = clients, n_parameters, fewest_samples
        self.by_number: dict[int, RemoteClient] = {}
        self.by_name: dict[str, RemoteClient] = {}

    def admit(self, hello: Hello) -> RemoteClient:
        """Return the client that introduces itself; numbers are given in the order of admission. Raises RefusedError.

        A client whose name is a free number gets that number.
        """
        token = self._tokens.get(hello.name)
        # As long as for a name that is known: who tries does not learn which it was.
        if not hmac.compare_digest((token or "").encode(), hello.token.encode()) or token is None:
            raise RefusedError(f"client {hello.name!r} has no such token")
        if hello.n_parameters not in (0, self._n_parameters):
            raise RefusedError(
                f"client {hello.name!r} trains models of {hello.n_parameters} parameters, here they have "
                f"{self._n_parameters}: both sides need the same scenario"
            )
        if hello.samples < 1:
            raise RefusedError(f"client {hello.name!r} has no samples to train on")
        if hello.samples < self._fewest_samples:
            raise RefusedError(
                f"client {hello.name!r} has {hello.samples} samples, and noise is calibrated to clients of at least "
                f"{self._fewest_samples}; lower data.samples_per_client at the server"
            )
        client = self.by_name.get(hello.name)
        if client is not None:
            if client.link is not None and client.instance != hello.instance:
                raise RefusedError(f"client {hello.name!r} is connected already, from {client.link.peer}")
            return client
        free = [number for number in range(self._clients) if number not in self.by_number]
        if not free:
            raise RefusedError(f"all {self._clients} clients of the federation are there already")
        wanted = int(hello.name) if hello.name.isdigit() else -1
        number = wanted if wanted in free else free[0]
        client = RemoteClient(self._context, number, hello.name)
        self.by_number[number] = self.by_name[hello.name] = client
        return client

    @property
    def prepared(self) -> list[RemoteClient]:
        """Clients that can be given tasks as soon as they are online, by number."""
        return [client for _, client in sorted(self.by_number.items()) if client.is_prepared]

    @property
    def renewed(self) -> list[int]:
        """Numbers of clients that came back as another process: what the one before had kept is gone."""
        return sorted(client.number for client in self.by_number.values() if client.processes > 1)
