"""The disk: files written whole or not at all, folders of the program's own, YAML that is read with care."""
