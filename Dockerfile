# One image for every role: api, worker, migrate, mlflow, ray-head, ray-worker. docker-compose.yml says which command each runs.
# LOCK=requirements-gpu.lock makes the image for GPU nodes: torch with CUDA, and vLLM. The default lock leaves the build of
# torch to the package index; point pip at a CPU index (--build-arg PIP_EXTRA_INDEX_URL=…) for an image 6 GiB smaller.
FROM python:3.11-slim-bookworm

ARG LOCK=requirements.lock
ARG PIP_EXTRA_INDEX_URL
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PATH=/opt/venv/bin:$PATH \
    HOME=/tmp RAY_USAGE_STATS_ENABLED=0 MLFLOW_DISABLE_TELEMETRY=true DO_NOT_TRACK=1 \
    HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 HF_DATASETS_OFFLINE=1 HF_HUB_DISABLE_TELEMETRY=1

RUN groupadd --gid 10001 sweeps && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp sweeps \
 && install -d -o 10001 -g 10001 -m 0700 /var/lib/sweeps /var/lib/mlflow

COPY requirements.lock requirements-gpu.lock /opt/build/
RUN python -m venv /opt/venv && pip install --no-cache-dir --requirement "/opt/build/$LOCK"

COPY pyproject.toml LICENSE README.md /opt/build/
COPY search_spaces /opt/build/search_spaces
COPY sweep_service /opt/build/sweep_service
COPY trainers /opt/build/trainers
COPY deploy/with-ray-node /opt/venv/bin/with-ray-node
RUN pip install --no-cache-dir --no-deps --no-build-isolation /opt/build

USER 10001:10001
WORKDIR /var/lib/sweeps
CMD ["sweeps", "--help"]
