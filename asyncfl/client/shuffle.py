"""Shuffle: a mixing node exchanges layers between the clients' uploads."""

from __future__ import annotations

from asyncfl.client.batch import Batch, Stage


class Shuffle(Stage):
    """Stage that passes the uploads of a batch through the scheme's mixing node."""

    def run(self, batch: Batch) -> None:
        node, random = self.facts.scheme.mixing_node, self.facts.streams.generator("shuffle", number=batch.version)
        if node is not None:
            node.shuffle(batch.rows, self.facts.learner.layout, batch.sound, random)
