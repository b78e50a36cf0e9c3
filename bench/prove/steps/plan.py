"""What the planner would have said from the baseline's speeds alone, beside what was measured."""

from k25serve.bench.load.result import CellSummary
from k25serve.bench.plan.acceptance import AcceptCurve, CurveError, load_accept
from k25serve.bench.plan.bounds import CONCURRENCY_AT_MOST
from k25serve.bench.plan.calibration import Calibration, Point, load_calibration
from k25serve.bench.plan.model import Method, Planner
from k25serve.bench.plan.report import plan_data
from k25serve.bench.prove.step import Arm, Outcome, Scene, skipped
from k25serve.bench.prove.swept import swept
from k25serve.bench.prove.verdict import mixed_cells
from k25serve.bench.provenance import Recorder, write
from k25serve.server.config import load_profile
from k25serve.server.config.profile import Speculation

ERROR = 0.05  # of an accept curve that was measured in the very run


async def plan(scene: Scene, arm: Arm) -> Outcome:
    """Accept length as measured, so that what is checked is the time of steps."""
    speculation = load_profile(arm.name, need_models=False).speculation
    if speculation.algorithm == "none":
        return skipped("the profile does not speculate")
    recorder = Recorder("plan")
    before, after = (mixed_cells(swept(scene, one).data) for one in (scene.arms[0], arm))
    if any(one.accept_length not in (None, 1.0) for one in before.values()):
        return skipped("the baseline speculates itself: the planner starts from plain decoding")
    planner = Planner.build(_calibration(scene.configuration.calibration, before))
    k = draft_tokens(speculation)
    curve = measured_curve(next(iter(after.values())), k)
    levels = [level for level in after if level <= CONCURRENCY_AT_MOST]
    method: Method = "ngram" if speculation.algorithm == "ngram" else "eagle3"
    cells = [planner.cell(level, 0, k, curve, method) for level in levels]
    file = write(recorder.finish(plan_data(planner, [curve], cells, cells)), scene.results)
    told = [
        f"C={cell.concurrency} {cell.tok_s:.1f} planned, {after[cell.concurrency].tokens_per_s:.1f} tok/s measured "
        f"({cell.tok_s / after[cell.concurrency].tokens_per_s - 1:+.0%})"
        for cell in cells
    ]
    return Outcome(f"accept lengths {curve.name}: {', '.join(told)}", file)


def _calibration(name: str, before: dict[int, CellSummary]) -> Calibration:
    """The baseline's own speeds; the curve's shape and the drafts' cost from a packaged machine or the user's file."""
    told = load_calibration(name)
    points = tuple(
        Point(concurrency=level, context=0, tok_s=one.tokens_per_s)
        for level, one in before.items()
        if level <= CONCURRENCY_AT_MOST
    )
    return Calibration(
        name="baseline of this campaign",
        source=f"its sweep; shape after {told.reference or name}",
        engine="the baseline's",
        precision="the baseline's",
        hardware="this machine",
        drafter=told.drafter,
        model=told.model,
        ranks=told.ranks,
        all_reduce=told.all_reduce,
        points=points,
        reference=told.reference or name,
    )


def draft_tokens(speculation: Speculation) -> int:
    """k of a verify step, the bonus token left out."""
    drafts = speculation.num_draft_tokens or 1
    return drafts if speculation.algorithm == "ngram" else drafts - 1


def measured_curve(cell: CellSummary, k: int) -> AcceptCurve:
    """By position where the engine told them, else through the accept length, else the golden curve."""
    try:
        if cell.position_rate:
            lengths = [1.0]
            for rate in cell.position_rate:
                lengths.append(lengths[-1] + rate)
            return AcceptCurve("as measured, by position", tuple(lengths[1:]), ERROR)
    except CurveError:  # noise of few steps: a later position above one before it
        pass
    if cell.accept_length is not None and 1 <= cell.accept_length <= k + 1:
        return AcceptCurve.geometric("as measured", cell.accept_length, k, ERROR)
    return load_accept("golden")
