# docker build -t asyncfl .
# docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/work" asyncfl run scenario.yaml
#
# No compiler is needed: every dependency is a wheel but connection-pool, which is pure Python. Without one the compiled kernels for
# convolutions are left out, and torch computes. Where torch's default build carries GPU libraries that are not wanted, pass a package
# index with CPU builds: --build-arg PIP_OPTIONS="--extra-index-url ..."
FROM python:3.11-slim
ARG PIP_OPTIONS=""
WORKDIR /src
COPY constraints.txt pyproject.toml setup.py README.md LICENSE ./
COPY asyncfl ./asyncfl
COPY snakemake_logger_plugin_asyncfl ./snakemake_logger_plugin_asyncfl
RUN pip install --no-cache-dir --no-compile --only-binary :all: --no-binary connection-pool \
      --constraint constraints.txt $PIP_OPTIONS .
# Users' own classes are looked for beside their scenario; results are written there too, by the account of the caller
# (--user) or this one, and never by root. The key of checkpoints lies beside them: the home of a container is thrown away.
RUN useradd --create-home --uid 1000 asyncfl
# Stand-ins for images are drawn in Matplotlib's fonts: it wants a folder that the caller may write.
ENV ASYNCFL_CHECKPOINT_KEY=/work/.asyncfl-checkpoint.key MPLCONFIGDIR=/tmp/matplotlib
WORKDIR /work
USER asyncfl
ENTRYPOINT ["asyncfl"]
CMD ["--help"]
