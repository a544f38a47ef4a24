"""One thread: the tests compare roundings, and share their machine."""

from tests.learning.conftest import one_thread as one_thread
