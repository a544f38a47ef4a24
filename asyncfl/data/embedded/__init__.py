"""Stand-ins: images that are drawn for data sets that are not on disk."""
