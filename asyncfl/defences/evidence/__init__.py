"""The detector by evidence: bans on evidence alone, of bounded error where noise is known, and else abstains."""

from asyncfl.defences.evidence.evidence_detector import Evidence, EvidenceState

__all__ = ["Evidence", "EvidenceState"]
