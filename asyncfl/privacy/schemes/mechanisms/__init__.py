"""Gaussian and Laplace mechanisms as components, on the client, on the server, or on both."""

from asyncfl.privacy.schemes.mechanisms.noises import GaussianNoise, LaplaceNoise, Mechanism
from asyncfl.privacy.schemes.mechanisms.scheme import Clip, Mechanisms

__all__ = ["Clip", "GaussianNoise", "LaplaceNoise", "Mechanism", "Mechanisms"]
