"""Step `plan`: what `bench plan` makes of this machine's steps and links, beside what was measured."""

import json
from typing import Any

from k25serve.bench.gpu import prediction
from k25serve.bench.gpu.arms import STEPS
from k25serve.bench.gpu.booted import ProofError
from k25serve.bench.gpu.ranks.command import result_of
from k25serve.bench.gpu.ranks.engines import wide
from k25serve.bench.gpu.ranks.links import all_reduce_fits, link_of
from k25serve.bench.gpu.ranks.setting import Setting
from k25serve.bench.plan.architecture import Architecture, load_architecture
from k25serve.bench.plan.calibration import AllReduce
from k25serve.bench.plan.curve import KIB

MODES = ("decode", "target_verify")
FILE = "calibration.json"
TRACED_TOKENS = {"decode": 1, "target_verify": STEPS + 1}  # of a request in a step
BAR = "10"  # told, not judged: `bench plan validate` has no bar for a machine that it was not made from


def run(setting: Setting, links: dict[str, Any], work: dict[str, Any]) -> dict[str, Any]:
    """From the data of the two steps before: all-reduce time, EAGLE-3's cycles, and `bench plan validate`."""
    model = str(wide(setting)[0] / "config.json") if setting.on_cpu else prediction.MODEL
    architecture, arms = load_architecture(model), work["arms"]
    decode = _mode(work["traces"]["none"]["report"], "decode")
    families = tuple(row["family"] for row in decode["all_reduce"])
    link = link_of(links["report"], families, decode["all_reduce_calls"])
    fitted = prediction.FITTED if not setting.on_cpu else (arms["eagle3"][0]["batch"], arms["eagle3"][0]["prefix"])
    predicted = prediction.predict(arms, ranks=setting.ranks, link=link, model=model, fitted=fitted)
    file = setting.how.folder / FILE
    measured = prediction.calibration(arms["none"], arms["eagle3"], ranks=setting.ranks, link=link, model=model)
    file.write_text(json.dumps(measured, indent=1), encoding="utf-8")
    checked = result_of(
        ["bench", "plan", "validate", "--calibration", str(file), "--bar", BAR],
        setting.how.folder / "plan",
        "plan-validate",
    )
    return {
        "link": link.model_dump(),
        "all_reduce": _all_reduce(setting, links, work, architecture),
        "predicted": prediction.as_data(predicted),
        "fitted": list(fitted),
        "checks": checked.data["checks"],
    }


def _mode(report: dict[str, Any], mode: str) -> dict[str, Any]:
    found = next((one for one in report["ranks"][0]["modes"] if one["mode"] == mode), None)
    if found is None:
        raise ProofError(f"{report['title']}: no {mode} step in its trace; run the step work again")
    return dict(found)


def _all_reduce(
    setting: Setting, links: dict[str, Any], work: dict[str, Any], architecture: Architecture
) -> list[dict[str, Any]]:
    """All-reduces of a traced step as each path's fit has them, and as the trace does, waiting included."""
    from k25serve.bench.gpu import traces

    load = traces.TINY if setting.on_cpu else traces.K25
    # The CPU engine computes in fp32.
    token_bytes = architecture.token_bytes * (2 if setting.on_cpu else 1)
    rows = []
    for arm, mode in zip(("none", "eagle3"), MODES, strict=True):
        found = _mode(work["traces"][arm]["report"], mode)
        kib = token_bytes * load.batch * TRACED_TOKENS[mode] / KIB
        for path, fit in all_reduce_fits(links["report"]).items():
            one = AllReduce(alpha_us=fit.alpha_us, beta_us_per_kib=fit.beta_us_per_kib, source=path)
            rows.append(
                {
                    "mode": mode,
                    "path": path,
                    "families": [row["family"] for row in found["all_reduce"]],
                    "calls": found["all_reduce_calls"],
                    "kib": kib,
                    "predicted_ms": found["all_reduce_calls"] * (one.alpha_us + one.beta_us_per_kib * kib) / 1000,
                    "traced_ms": found["all_reduce_ms"],
                }
            )
    return rows


def markdown(data: dict[str, Any]) -> str:
    """Three tables."""
    lines = [
        f"All-reduce in the plan: {data['link']['alpha_us']:.1f} us + {data['link']['beta_us_per_kib']:.4f} us/KiB, "
        f"{data['link']['calls']} calls a step ({data['link']['source']}).",
        "",
        "| mode | fit of | calls | KiB | predicted ms | traced ms (with waiting), implementation |",
        "|---|---|---|---|---|---|",
    ]
    for one in data["all_reduce"]:
        lines.append(
            f"| {one['mode']} | {one['path']} | {one['calls']:.0f} | {one['kib']:.0f} | {one['predicted_ms']:.3f} "
            f"| {one['traced_ms']:.3f}, {', '.join(one['families'])} |"
        )
    fitted = (data["fitted"][0], data["fitted"][1])
    kept = [{name: row[name] for name in row if name != "error"} for row in data["predicted"]]
    lines += ["", prediction.markdown([prediction.Predicted(**row) for row in kept], fitted), ""]
    lines += [
        f"- `bench plan validate`, {check['name']}: mean error {check['mean_error']:.1%}" for check in data["checks"]
    ]
    return "\n".join(lines)
