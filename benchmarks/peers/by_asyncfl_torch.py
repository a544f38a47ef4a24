"""A workload by asyncfl as an installation without a C compiler runs it."""

import os

os.environ["ASYNCFL_KERNELS"] = "torch"

from by_asyncfl import run as run
