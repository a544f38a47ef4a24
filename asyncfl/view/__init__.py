"""A run as a page: one HTML file in which everything that happened can be looked at."""

from asyncfl.view.page import MAGIC, MOST_TASKS, Window, page, write

__all__ = ["MAGIC", "MOST_TASKS", "Window", "page", "write"]
