"""The evidence detector: bans with a bounded error probability where the noise is known, and abstains otherwise."""
