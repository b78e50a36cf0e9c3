"""A record as the `/metrics` page of SGLang 0.5.23 or vLLM 0.16: the families that dashboards and gates read. Pure."""

from collections.abc import Iterable
from typing import Literal

from k25serve.bench.engine_sim.record import Record

Row = tuple[str, Literal["counter", "gauge"], int | float]


def exposition(record: Record, dialect: Literal["sglang", "vllm"], model: str, num_draft_tokens: int) -> bytes:
    """Prometheus text format. vLLM shows every draft position from the start, and nothing of it without speculation."""
    if dialect == "sglang":
        return _page("sglang", f'model_name="{model}"', _sglang_rows(record))
    labels = f'engine="0",model_name="{model}"'
    page = _page("vllm", labels, _vllm_rows(record))
    if not num_draft_tokens:
        return page
    per_position = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    lines = [f"# TYPE {per_position} counter\n"]
    for position in range(num_draft_tokens):
        lines.append(f'{per_position}{{{labels},position="{position}"}} {record.reached[position]}\n')
    return page + _page("vllm", labels, _vllm_speculation(record)) + "".join(lines).encode()


def _sglang_rows(record: Record) -> Iterable[Row]:
    return (
        ("num_running_reqs", "gauge", record.running),
        ("num_queue_reqs", "gauge", 0),
        ("token_usage", "gauge", 0.0),
        ("num_requests_total", "counter", record.finished),
        ("prompt_tokens_total", "counter", record.prompt_tokens),
        ("generation_tokens_total", "counter", record.generation_tokens),
        ("spec_verify_calls_total", "counter", record.verify_steps),
    )


def _vllm_rows(record: Record) -> Iterable[Row]:
    return (
        ("num_requests_running", "gauge", record.running),
        ("num_requests_waiting", "gauge", 0),
        ("kv_cache_usage_perc", "gauge", 0.0),
        ("prompt_tokens_total", "counter", record.prompt_tokens),
        ("generation_tokens_total", "counter", record.generation_tokens),
    )


def _vllm_speculation(record: Record) -> Iterable[Row]:
    return (
        ("spec_decode_num_drafts_total", "counter", record.verify_steps),
        ("spec_decode_num_draft_tokens_total", "counter", record.draft_tokens),
        ("spec_decode_num_accepted_tokens_total", "counter", record.reached.total()),
    )


def _page(prefix: str, labels: str, rows: Iterable[Row]) -> bytes:
    return "".join(
        f"# TYPE {prefix}:{name} {kind}\n{prefix}:{name}{{{labels}}} {value}\n" for name, kind, value in rows
    ).encode()
