"""What a scenario may say, read from the classes that it is made of: every field and component with type, unit, range,
default, meaning and source, for the terminal (`text.py`), for a first scenario (`starter.py`), and for the pages of the
documentation.

Nothing is written here twice: annotations say types and ranges, names and `MeasuredIn` units, docstrings the rest.
"""
