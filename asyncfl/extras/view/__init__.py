"""The page of a run: one HTML file with all its tasks, events and tables."""

from asyncfl.extras.view.page import MAGIC, MOST_TASKS, Window, page, title_of, write

__all__ = ["MAGIC", "MOST_TASKS", "Window", "page", "title_of", "write"]
