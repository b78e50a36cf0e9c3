"""The mixture sequential probability ratio test for a mean, with a normal prior and unknown variance. Pure.

Differences are taken as normal with mean mu and standard deviation sigma, both unknown; under the alternative
mu / sigma is normal around 0 with variance `prior`, and sigma has its right Haar prior. Then the likelihood ratio
depends on the t statistic alone and is a martingale under mu = 0, so that one may look after every number and stop at
any time (Robbins 1970; Lai 1976; Wang and Ramdas 2025, "Anytime-valid t-tests and confidence sequences").
"""

import math
from statistics import NormalDist

from k25serve.server.gateway.experiment.running import Running


def p_value(sample: Running, prior: float) -> float:
    """Always-valid p of the mean being 0; 1 for fewer than two numbers."""
    if sample.n < 2:
        return 1.0
    spread = 1 + sample.n * prior
    standard = sample.variance / sample.n
    if standard:
        x = sample.mean**2 / standard / (sample.n - 1)
        ratio = math.log1p(x) - math.log1p(x / spread)
    else:
        ratio = math.log(spread) if sample.mean else 0.0
    return min(1.0, math.exp(math.log(spread) / 2 - sample.n / 2 * ratio))


def half_width(sample: Running, prior: float, alpha: float) -> float:
    """The confidence sequence is the mean, plus and minus this; infinite while the sample is too small."""
    if sample.n < 2:
        return math.inf
    spread = 1 + sample.n * prior
    k = math.exp((math.log(spread) / 2 - math.log(alpha)) * 2 / sample.n)
    if k >= spread:
        return math.inf
    return math.sqrt(sample.variance / sample.n * (sample.n - 1) * (k - 1) / (1 - k / spread))


def detectable(sample: Running, prior: float, alpha: float, power: float = 0.8) -> float:
    """The smallest mean that as many numbers would have found with that power, its sign either way."""
    if sample.n < 2:
        return math.inf
    return half_width(sample, prior, alpha) + NormalDist().inv_cdf(power) * math.sqrt(sample.variance / sample.n)
