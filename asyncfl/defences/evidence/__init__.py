"""The evidence detector: bans with a bounded error probability where the noise is known, and abstains otherwise."""

from asyncfl.defences.evidence.evidence_detector import Evidence, EvidenceState

__all__ = ["Evidence", "EvidenceState"]
