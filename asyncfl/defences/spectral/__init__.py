"""The spectral detector: detects poison from the inner products of noisy updates, without asking clients for scores."""

from asyncfl.defences.spectral.spectral_detector import Spectral, SpectralState

__all__ = ["Spectral", "SpectralState"]
