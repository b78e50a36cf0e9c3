"""Row adaptive_costs: a policy that knows what steps cost, in place of SGLang's, which looks at acceptance alone."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from k25serve.patches.adaptive import Choice, Policy, read_costs
from k25serve.patches.context import Context
from k25serve.patches.hooks.rank import this_rank
from k25serve.patches.hooks.tally import Tally

NAME = "k25serve_engine_draft_steps"
HELP = (
    "Draft steps of each decode step as the cost-aware policy chose them; 0 is no speculation. why: best is the arm "
    "that brings the most tokens per second, probe one that might."
)
MOST = 16


class AdaptiveCosts:
    """One policy per scheduler. All ranks see the same batches and counts, so all decide alike."""

    def __init__(self, context: Context) -> None:
        self._explore_share = float(context.options["explore_share"])
        self._hysteresis = float(context.options["hysteresis"])
        self._trace_path = str(context.options["trace"])
        self._trace: Path | None = None
        self._params: Any = None
        self._policy: Policy | None = None
        self._choice = Choice(0)
        self._tally: Tally | None = None

    def construct(self, result: None, params: Any, initial_steps: int, cfg_path: str | None = None) -> None:
        """After `AdaptiveSpeculativeParams.__init__`: the same file holds the costs. Raises CostError."""
        if cfg_path is None:
            raise ValueError("no cost table: give speculation.adaptive a file of `k25serve bench plan adaptive FILE`")
        self._params = params
        self._policy = Policy(read_costs(Path(cfg_path)), self._explore_share, self._hysteresis)

    def forward(self, original: Callable[..., Any], worker: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        """Around `EAGLEWorkerV2.forward_batch_generation`: decide, before SGLang asks for the number of steps."""
        if self._policy is not None and batch.reqs and not (batch.forward_mode.is_extend() or batch.is_extend_in_batch):
            from sglang.srt.environ import envs

            lengths = [len(request.origin_input_ids) + len(request.output_ids) for request in batch.reqs]
            # SGLang has resources, such as graphs, for the slot's steps only.
            arms = self._params._route(len(lengths)).candidate_steps
            batch_size, length = len(lengths), sum(lengths) / len(lengths)
            self._choice = self._policy.choose(batch_size, length, arms)
            envs.SGLANG_SPEC_SKIP_ZERO_STEP_DRAFT_EXTEND.set(not self._choice.extend)
            if self._tally is not None:
                self._tally.add(self._choice.steps, "probe" if self._choice.probe else "best")
            self._note({"batch": batch_size, "context": length, **asdict(self._choice)})
        return original(worker, batch, *args, **kwargs)

    def steps(self, params: Any, batch_size: int) -> int:
        """In place of `AdaptiveSpeculativeParams.get_steps_for_batch`."""
        return self._choice.steps

    def learned(self, params: Any, num_correct_drafts_per_req: list[int], batch_size: int) -> None:
        """In place of `AdaptiveSpeculativeParams.on_verify_complete`, which can't tell how many steps were drafted."""

    def verified(self, tokens: list[list[int]], processor: Any, result: Any, batch: Any) -> None:
        """After `SchedulerBatchResultProcessor._resolve_spec_v2_tokens`: what a step of known width accepted."""
        if self._policy is not None:
            steps, accepted = result.speculative_num_draft_tokens - 1, result.num_correct_drafts_per_req_cpu
            self._policy.observe(steps, accepted)
            self._note({"steps": steps, "accepted": accepted})

    def idle(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Around `Scheduler.on_idle`, which may sleep."""
        if self._tally is not None:
            self._tally.flush()
        return original(*args, **kwargs)

    def facts(self) -> dict[str, Any]:
        """The table in use. Raises ValueError where SGLang does not adapt, so that the row would do nothing."""
        if self._policy is None:
            raise ValueError(
                "SGLang runs without adaptive speculation, so the row has no effect: set speculation.adaptive, or "
                "remove the row from patches; SGLang's log says why where it switched it off"
            )
        if self._trace_path and this_rank().is_first:
            self._trace = Path(self._trace_path)
            self._trace.write_text("")
        if os.environ.get("PROMETHEUS_MULTIPROC_DIR") and this_rank().is_first:
            from prometheus_client import Histogram

            self._tally = Tally(Histogram(NAME, HELP, ["why"], buckets=range(MOST + 1)), ("best", "probe"))
        costs = self._policy.costs
        return {"source": costs.source, "steps": costs.steps, "batches": costs.batches, "contexts": costs.contexts}

    def _note(self, line: dict[str, Any]) -> None:
        if self._trace is not None:
            with self._trace.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
