"""The spectral detector: finds poison in the inner products of noisy updates, and asks no client anything."""

from asyncfl.defences.spectral.spectral_detector import Spectral, SpectralState

__all__ = ["Spectral", "SpectralState"]
