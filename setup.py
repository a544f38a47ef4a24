"""The compiled kernels, which an installation without a C compiler leaves out. All else is in `pyproject.toml`."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "asyncfl.learning._pooled_convolution",
            ["asyncfl/learning/pooled_convolution.c"],
            extra_compile_args=["-O3"],
            optional=True,
        )
    ]
)
