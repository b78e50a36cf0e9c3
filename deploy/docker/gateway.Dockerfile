# The gateway alone: no torch, no SGLang. It also makes the files of Prometheus and Grafana.
# Build from the repository's root: docker build -f deploy/docker/gateway.Dockerfile -t k25serve-gateway .
FROM python:3.11-slim-bookworm
COPY . /opt/k25serve
# The versions of the lock, of what the gateway needs.
RUN pip install --no-cache-dir --constraint /opt/k25serve/deploy/locks/cpu.txt -e /opt/k25serve \
    && useradd --create-home --uid 10001 k25serve \
    && install -d -o k25serve -g k25serve /var/lib/k25serve/made
USER 10001
STOPSIGNAL SIGTERM
ENTRYPOINT ["k25serve"]
CMD ["gateway", "--help"]
