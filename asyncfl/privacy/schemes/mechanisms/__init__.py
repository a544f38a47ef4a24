"""Gaussian and Laplace mechanisms as components, on the client, on the server, or on both."""

from asyncfl.privacy.schemes.mechanisms.mechanisms import Clip, Mechanisms
from asyncfl.privacy.schemes.mechanisms.noises import GaussianNoise, LaplaceNoise, Mechanism

__all__ = ["Clip", "GaussianNoise", "LaplaceNoise", "Mechanism", "Mechanisms"]
