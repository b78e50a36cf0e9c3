"""What one request says: log seconds, and covariates that explain some of them. Pure."""

import math
from collections.abc import Mapping, Sequence

from k25serve.server.gateway.ended import Ended
from k25serve.server.gateway.experiment.settings import Covariate, ExperimentSettings, Metric
from k25serve.server.gateway.usage import Usage


def log_seconds(ended: Ended, settings: ExperimentSettings) -> dict[Metric, float]:
    """The metrics that this request has: natural logs of seconds, per output token and to the first token.

    The definitions are those of the gateway's histograms; logs, so that a difference is a ratio.
    """
    if ended.outcome != "ok" or ended.usage is None:
        return {}
    found: dict[Metric, float] = {}
    if ended.ttft:
        found["ttft"] = math.log(ended.ttft)
    tokens = ended.usage.completion
    if ended.decode and ended.one_choice and tokens >= settings.min_output_tokens:
        found["tpot"] = math.log(ended.decode / (tokens - 1))
    return {metric: found[metric] for metric in settings.metrics if metric in found}


def covariates(usage: Usage, load: int, wanted: Sequence[Covariate]) -> list[float]:
    """[k]: log1p of tokens and of requests at the arm, in the order wanted."""
    values: Mapping[Covariate, int] = {
        "prompt": usage.prompt,
        "cached": usage.cached,
        "output": usage.completion,
        "load": load,
    }
    return [math.log1p(values[one]) for one in wanted]
