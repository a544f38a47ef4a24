"""Modules of ResNet and CharLstm. The file imports torch, so it is imported only to build a network."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


def conv(before: int, channels: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """Build a convolution (n, before, h, w) -> (n, channels, h / stride, w / stride) without bias, since a
    normalisation follows."""
    return nn.Conv2d(before, channels, kernel, stride, padding=kernel // 2, bias=False)


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, He et al. (2016), figure 2; the shortcut is of option B."""

    def __init__(self, before: int, channels: int, stride: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.convolution1, self.norm1 = conv(before, channels, 3, stride), norm(channels)
        self.convolution2, self.norm2 = conv(channels, channels, 3), norm(channels)
        self.shortcut = nn.Identity() if (before, stride) == (channels, 1) else self._projected(before, stride, norm)

    def _projected(self, before: int, stride: int, norm: Callable[[int], nn.Module]) -> nn.Module:
        channels = self.convolution1.out_channels
        return nn.Sequential(conv(before, channels, 1, stride), norm(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map an input (n, before, h, w) to (n, channels, h / stride, w / stride)."""
        inner = torch.relu(self.norm1(self.convolution1(x)))
        return torch.relu(self.norm2(self.convolution2(inner)) + self.shortcut(x))


class CharLstmModule(nn.Module):
    """Embedding, LSTM layers, and a linear layer on the last step, with dropout behind each LSTM layer."""

    def __init__(self, characters: int, embedding: int, hidden: int, layers: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)
        self.dropout = dropout
        self.output = nn.Linear(hidden, characters)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the logits (n, characters) of the character after each text (n, length), given as float32 numbers."""
        steps, _ = self.lstm(self.embedding(x.long()))
        last = nn.functional.dropout(steps[:, -1], self.dropout, self.training) if self.dropout else steps[:, -1]
        logits: torch.Tensor = self.output(last)
        return logits
