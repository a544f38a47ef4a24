"""The detector by evidence: bans on evidence of bounded error alone, and abstains where it cannot know."""

from asyncfl.defences.evidence.detector import Evidence, EvidenceState

__all__ = ["Evidence", "EvidenceState"]
