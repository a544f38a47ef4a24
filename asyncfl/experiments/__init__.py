"""Experiments: a file holds a grid of scenarios, the figures drawn from their runs and the claims judged on them."""
