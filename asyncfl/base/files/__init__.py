"""Files: atomic writes, folders that the program owns, strict and bounded YAML."""
