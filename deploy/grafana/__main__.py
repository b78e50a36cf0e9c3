"""`python -P -m k25serve.deploy.grafana`: write dashboards/*.json anew. Needs the extra `dashboards`."""

from k25serve.deploy.grafana.build import dashboards
from k25serve.deploy.grafana.files import DASHBOARDS

if __name__ == "__main__":
    for name, text in dashboards().items():
        (DASHBOARDS / name).write_text(text)
