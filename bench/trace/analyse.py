"""Trace files of a deployment -> its report."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from k25serve.bench.trace.all_reduce import compare_ranks
from k25serve.bench.trace.classify import Classifier
from k25serve.bench.trace.collect import collect
from k25serve.bench.trace.errors import TraceError
from k25serve.bench.trace.modes import SpanRules, in_order
from k25serve.bench.trace.rank import RankResult, read_rank
from k25serve.bench.trace.ranks import identify, trace_files
from k25serve.bench.trace.report import ModeReport, Spread, TraceReport
from k25serve.bench.trace.steps import GRAPHS, WHOLE

UNCLASSIFIED_AT_MOST = 0.05
RANGES_SHOWN = 8

Progress = Callable[[Path, int], None]


def analyse(
    paths: Sequence[Path],
    *,
    title: str = "",
    decode_span: str | None = None,
    partial: bool = False,
    progress: Progress = lambda _path, _bytes: None,
) -> TraceReport:
    """Read every rank's file, one after the other. `progress` hears of each file's bytes as they are read.

    Raises TraceError where a file is damaged, a rank is missing, several ranks show no communication, or `decode_span`
    matches nothing.
    """
    files, world = identify(trace_files(paths), partial=partial)
    rules, classifier = SpanRules.load(decode_span), Classifier.load()
    results, found_own, ranges = [], False, dict[str, None]()
    for file in files:
        events = collect(file.path, rules, lambda count, path=file.path: progress(path, count))  # type: ignore[misc]
        found_own = found_own or rules.finds_own(events.spans)
        ranges |= dict.fromkeys([span.label for span in events.spans[:RANGES_SHOWN]] + [*events.other_ranges])
        results.append(read_rank(file.rank.label, events, classifier))
        del events
    if not found_own:
        known = ", ".join([*ranges][:RANGES_SHOWN]) or "none"
        raise TraceError(f"--decode-span {decode_span!r}: matches no range in {paths[0]}; ranges there: {known}")
    _refuse_silence(results, world)
    mode = headline_mode(results)
    shown = [(result, one) for result in results if (one := _find(result, mode)) is not None]
    wait, wait_warning = compare_ranks(
        {result.report.rank: result.calls[mode] for result, _ in shown},
        {result.report.rank: result.clock for result, _ in shown},
    )
    middle = sorted(shown, key=lambda pair: pair[1].headline.share_of_kernel_sum)[(len(shown) - 1) // 2]
    return TraceReport(
        title=title or str(paths[0]),
        world_size=world,
        device=results[0].device,
        mode=mode,
        headline=middle[1].headline,
        spread=_spread([one for _, one in shown]),
        ranks=tuple(result.report for result in results),
        wait=wait,
        timeline=middle[0].timelines[mode],
        warnings=tuple(_warnings(results, mode, wait_warning, world, partial=partial)),
    )


def headline_mode(results: Sequence[RankResult]) -> str:
    """The mode that the headline is about: decode, else target_verify, else what there is."""
    found = in_order({one.mode for result in results for one in result.report.modes})
    if not found:
        raise TraceError(
            f"{results[0].report.file}: no device event lies in a step ({results[0].report.steps_from}); "
            "profile more steps, or name their ranges with --decode-span REGEX"
        )
    return found[0]


def _find(result: RankResult, mode: str) -> ModeReport | None:
    return next((one for one in result.report.modes if one.mode == mode), None)


def _refuse_silence(results: Sequence[RankResult], world: int) -> None:
    if world > 1 and not any(result.communicates for result in results):
        names = [row.name[:60] for row in results[0].report.unclassified[:5]]
        raise TraceError(
            f"{world} ranks, but no communication kernel in any of them, so a share would be a lie; "
            f"unknown names: {', '.join(names) or 'none'}; add the engine's name for it to bench/trace/kernels.yaml"
        )


def _spread(modes: Sequence[ModeReport]) -> tuple[Spread, ...]:
    values = {
        "all-reduce share of kernel sum": [one.headline.share_of_kernel_sum for one in modes],
        "all-reduce share of step": [one.headline.share_of_step for one in modes],
        "all-reduce exposed share of step": [one.headline.exposed_share_of_step for one in modes],
        "all-reduce ms": [one.all_reduce_ms for one in modes],
        "kernel sum ms": [one.kernel_sum_ms for one in modes],
        "span ms": [one.span_ms for one in modes],
        "gap ms": [one.gap_ms for one in modes],
        **{
            f"{row.name} ms": [one.classes[index].summed_ms for one in modes]
            for index, row in enumerate(modes[0].classes)
            if row.name != "all_reduce" and any(one.classes[index].summed_ms for one in modes)
        },
    }
    return tuple(
        Spread(name=name, minimum=min(column), median=median(column), maximum=max(column))
        for name, column in values.items()
    )


def _warnings(results: Sequence[RankResult], mode: str, wait_warning: str, world: int, *, partial: bool) -> list[str]:
    found = [wait_warning] if wait_warning else []
    for result in results:
        report = result.report
        if _find(result, mode) is None:
            found.append(f"{report.rank}: no {mode} step in it, so it is not in the comparison")
        if report.unclassified_share > UNCLASSIFIED_AT_MOST:
            names = ", ".join(f"{row.name[:60]} {row.share:.1%}" for row in report.unclassified[:3])
            found.append(f"{report.rank}: {report.unclassified_share:.1%} of kernel time is unclassified ({names})")
        if report.skipped_events:
            found.append(f"{report.rank}: {report.skipped_events} events could not be read and were skipped")
        if report.unknown_events:
            listed = ", ".join(f"{count} of {name}" for name, count in report.unknown_events.items())
            found.append(f"{report.rank}: events of categories that are not known were left out ({listed})")
        if report.steps_from in (GRAPHS, WHOLE):
            found.append(f"{report.rank}: the engine marked no steps; taken from {report.steps_from}")
    if partial and len(results) < world:
        found.append(f"partial: {len(results)} of {world} ranks")
    if results[0].device == "cpu":
        found.append("no device in the trace: times are host operators' own, and attention made of them counts as gemm")
    return found
