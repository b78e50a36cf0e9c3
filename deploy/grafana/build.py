"""Dashboards as the JSON text that Grafana reads."""

import json

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from k25serve.deploy.grafana.ab import ab
from k25serve.deploy.grafana.gateway import gateway
from k25serve.deploy.grafana.overview import overview
from k25serve.deploy.grafana.speculation import speculation

MAKERS = (overview, speculation, ab, gateway)


def dashboards() -> dict[str, str]:
    """JSON text by file name. Panels are numbered, so that links to one survive."""
    texts = {}
    for make in MAKERS:
        board = make().build()
        for number, panel in enumerate(board.panels or (), start=1):
            panel.id_val = number
        texts[f"{make.__name__}.json"] = json.dumps(board, cls=JSONEncoder, indent=1, sort_keys=True) + "\n"
    return texts
