# The engine: CUDA 13 with its compiler, since kernels are compiled on first use, and SGLang as locked.
# Build from the repository's root: docker build -f deploy/docker/engine.Dockerfile -t k25serve-engine .
FROM ghcr.io/astral-sh/uv:0.9 AS uv

FROM nvidia/cuda:13.0.1-devel-ubuntu24.04
COPY --from=uv /uv /usr/local/bin/uv
# g++ and ninja's users: SGLang builds its n-gram index, FlashInfer and Marlin their kernels.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates g++ libnuma1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 k25serve
ENV CUDA_HOME=/usr/local/cuda UV_PYTHON_INSTALL_DIR=/opt/python UV_LINK_MODE=copy PATH=/opt/k25serve/.venv/bin:$PATH
WORKDIR /opt/k25serve
COPY deploy/locks/cuda.txt deploy/locks/cuda.txt
RUN uv venv --python 3.11 .venv && uv pip install --no-cache --no-deps -r deploy/locks/cuda.txt
COPY . .
RUN uv pip install --no-cache --no-deps -e .
# Kernels compiled on first use, logs and load times: keep them in volumes.
RUN install -d -o k25serve -g k25serve /var/cache/k25serve /var/lib/k25serve
ENV HOME=/var/cache/k25serve XDG_CACHE_HOME=/var/cache/k25serve XDG_STATE_HOME=/var/lib \
    TORCHINDUCTOR_CACHE_DIR=/var/cache/k25serve/torchinductor
VOLUME ["/var/cache/k25serve", "/var/lib/k25serve"]
USER 10001
STOPSIGNAL SIGTERM
ENTRYPOINT ["k25serve"]
CMD ["engine", "--help"]
