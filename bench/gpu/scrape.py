"""Metrics of a running stack: histograms as sums and counts, told apart by a label, and what changed between two."""

import urllib.request
from collections import defaultdict
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

TIMEOUT_S = 10


@dataclass(frozen=True)
class Scrape:
    """Samples of one moment, summed over every label but those asked for."""

    samples: tuple[tuple[str, tuple[tuple[str, str], ...], float], ...]

    def total(self, name: str, **labels: str) -> float:
        """Sum of the samples of that name which have these labels; 0 where there is none."""
        return sum(value for found, has, value in self.samples if found == name and set(labels.items()) <= set(has))

    def by(self, name: str, label: str) -> dict[str, float]:
        """Sums of the samples of that name by the value of one label."""
        sums: dict[str, float] = defaultdict(float)
        for found, has, value in self.samples:
            if found == name:
                sums[dict(has).get(label, "")] += value
        return sums

    @property
    def names(self) -> set[str]:
        return {name for name, _, _ in self.samples}


def scrape(url: str) -> Scrape:
    """`url`/metrics now. Raises OSError where it doesn't answer."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=TIMEOUT_S) as answer:
        text = answer.read().decode()
    return Scrape(
        tuple(
            (sample.name, tuple(sorted(sample.labels.items())), sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        )
    )
