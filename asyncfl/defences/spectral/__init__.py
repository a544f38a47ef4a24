"""The spectral detector: compares the directions of all clients' last updates by their Gram matrix."""
