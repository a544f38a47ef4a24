"""Stand-ins for data sets that are not on disk."""
