"""The compiled kernels, which an installation without a C compiler leaves out. All else is in `pyproject.toml`.

They are a plain shared library that Python's `ctypes` loads: one wheel fits all versions of Python.
"""

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext


class SharedLibrary(build_ext):
    """Build command for a library that is no module of one Python version."""

    def get_ext_filename(self, fullname: str) -> str:
        return f"{fullname.replace('.', '/')}.so"


class Wheel(bdist_wheel):
    """Wheel for one platform and any Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    cmdclass={"build_ext": SharedLibrary, "bdist_wheel": Wheel},
    ext_modules=[
        Extension(
            "asyncfl.learning._pooled_convolution",
            ["asyncfl/learning/pooled_convolution.c"],
            depends=["asyncfl/learning/pooled_forward.h", "asyncfl/learning/pooled_backward.h"],
            extra_compile_args=["-O3", "-g0"],
            optional=True,
        )
    ],
)
