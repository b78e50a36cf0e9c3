"""The kinds of panel that the dashboards use, each in one look."""

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import common, dashboard, heatmap, prometheus, stat, timeseries
from grafana_foundation_sdk.cog import variants
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.common import (
    BigValueGraphMode,
    LegendDisplayMode,
    TooltipDisplayMode,
    VisibilityMode,
)
from grafana_foundation_sdk.models.dashboard import DataSourceRef, Threshold, ThresholdsMode
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
HALF, THIRD = 12, 8
HEIGHT, STAT_HEIGHT = 8, 4


@dataclass(frozen=True)
class Query:
    """A PromQL expression and what its series are called, with `{{label}}` for a label's value."""

    expr: str
    legend: str


def lines(
    title: str, text: str, unit: str, *queries: Query, span: int = HALF, least: float | None = 0
) -> timeseries.Panel:
    """Lines over time. text: what the picture says, for readers; least: where the axis starts, None for any value."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(text)
        .unit(unit)
        .datasource(DATASOURCE)
        .targets(_targets(queries))
        .span(span)
        .height(HEIGHT)
        .fill_opacity(8)
        .show_points(VisibilityMode.NEVER)
        .legend(common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).show_legend(True))
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
    )
    return panel if least is None else panel.min(least)


def number(
    title: str,
    text: str,
    unit: str,
    query: Query,
    *,
    span: int = 4,
    steps: Sequence[tuple[float | None, str]] = ((None, "text"),),
) -> stat.Panel:
    """One value an arm. steps: (from this value, colour), the first from None."""
    thresholds = [Threshold(value=value, color=color) for value, color in steps]
    return (
        stat.Panel()
        .title(title)
        .description(text)
        .unit(unit)
        .datasource(DATASOURCE)
        .targets(_targets([query]))
        .span(span)
        .height(STAT_HEIGHT)
        .graph_mode(BigValueGraphMode.NONE)
        .thresholds(dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(thresholds))
    )


def distribution(title: str, text: str, unit: str, expr: str, *, span: int = HALF) -> heatmap.Panel:
    """A histogram over time. expr: its buckets' rates by `le`."""
    buckets = _query(Query(expr, "{{le}}"), "A").format(PromQueryFormat.HEATMAP)
    return (
        heatmap.Panel()
        .title(title)
        .description(text)
        .datasource(DATASOURCE)
        .targets([buckets])
        .span(span)
        .height(HEIGHT)
        .calculate(False)
        .y_axis(heatmap.YAxisConfig().unit(unit))
        .color(heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Oranges").steps(64))
    )


def _targets(queries: Sequence[Query]) -> list[Builder[variants.Dataquery]]:
    return [_query(query, chr(ord("A") + index)) for index, query in enumerate(queries)]


def _query(query: Query, ref_id: str) -> prometheus.Dataquery:
    return (
        prometheus.Dataquery()
        .expr(query.expr)
        .range()
        .legend_format(query.legend)
        .ref_id(ref_id)
        .datasource(DATASOURCE)
    )
