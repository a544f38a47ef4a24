"""Privacy schemes, one per file. `asyncfl.privacy.AnyScheme` is the choice among them."""
