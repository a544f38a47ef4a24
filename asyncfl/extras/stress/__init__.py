"""Stress tests of detectors: small federations under attack, and the harm that a detector does in them."""
