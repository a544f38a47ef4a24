"""The module of `CharLstm`. It imports torch, so it is imported only to build a network."""

from __future__ import annotations

import torch
from torch import nn


class CharLstmModule(nn.Module):
    """Embedding, LSTM layers, and a linear layer on the last step."""

    def __init__(self, characters: int, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.output = nn.Linear(hidden, characters)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the logits (n, characters) of the character after each text (n, length), given as float32 numbers."""
        steps, _ = self.lstm(self.embedding(x.long()))
        logits: torch.Tensor = self.output(steps[:, -1])
        return logits
