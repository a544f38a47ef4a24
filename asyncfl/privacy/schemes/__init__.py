"""Privacy schemes, one per file or folder. `asyncfl.privacy.AnyScheme` is the choice among them."""
