"""What every dashboard has around its panels: variables, links, time range."""

from collections.abc import Iterable

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    Panel,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from k25serve.deploy.grafana.panels import DATASOURCE

TAG = "k25serve"
ARMS = "label_values(k25serve_gateway_arm_ready, arm)"


def all_arms() -> dashboard.QueryVariable:
    """`$arm`: any number of arms, at first all."""
    everything = VariableOption(selected=True, text="All", value="$__all")
    return _arm("arm", "Arm").multi(True).include_all(True).all_value(".*").current(everything)


def one_arm(name: str, label: str, arm: str) -> dashboard.QueryVariable:
    """A variable that is one arm, at first `arm`."""
    return _arm(name, label).current(VariableOption(selected=True, text=arm, value=arm))


def framed(
    name: str,
    title: str,
    text: str,
    variables: Iterable[dashboard.QueryVariable],
    rows: Iterable[tuple[str, Iterable[Builder[Panel]]]],
) -> dashboard.Dashboard:
    """A dashboard of titled rows of panels. name: the end of its uid, which links and bookmarks keep."""
    datasource = dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
    board = (
        dashboard.Dashboard(title)
        .uid(f"{TAG}-{name}")
        .description(text)
        .tags([TAG])
        .editable()
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .time("now-1h", "now")
        .refresh("30s")
        .with_variable(datasource)
        .link(
            dashboard.DashboardLink(TAG)
            .type(DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .keep_time(True)
            .as_dropdown(True)
        )
    )
    for variable in variables:
        board = board.with_variable(variable)
    for title_of_row, panels in rows:
        board = board.with_row(dashboard.Row(title_of_row))
        for panel in panels:
            board = board.with_panel(panel)
    return board


def _arm(name: str, label: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query(ARMS)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )
