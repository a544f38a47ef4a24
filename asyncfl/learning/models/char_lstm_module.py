"""A recurrent network that answers with its last step. It imports torch, so it is imported where one is built."""

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
        """Logits (n, characters) of the next of texts (n, length), whose characters come as float32 numbers."""
        steps, _ = self.lstm(self.embedding(x.long()))
        logits: torch.Tensor = self.output(steps[:, -1])
        return logits
