"""Fields and components of a scenario with type, unit, range, default, meaning and source, read from their classes."""
