"""Log lines of public reports are taken for what they are."""

import time

import pytest

from k25serve.deploy.doctor.log.classify import classify, rules

LINES = {
    "shared-memory-limit": "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 106496, "
    "Hardware limit: 101376. Reducing block sizes or `num_stages` may help.",
    "no-kernel-image": "RuntimeError: CUDA error: no kernel image is available for execution on the device",
    "patch": "k25serve: patch mla_verify: TritonAttnBackend.__init__ has fingerprint 1 in SGLang 0.5.24, expected 2",
    "bad-flag": "launch.py: error: unrecognized arguments: --speculative-foo 3",
    "missing-shard": "FileNotFoundError: No such file or directory: /models/k25/model-00007-of-00064.safetensors",
    "cuda-oom": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity",
    "no-room-for-cache": "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
    "host-oom": "Memory cgroup out of memory: oom-kill:constraint=CONSTRAINT_MEMCG,task=sglang::schedul",
    "shm-bus-error": "Bus error (core dumped): It is possible that dataloader's workers are out of shared memory",
    "nccl-hang": "[rank3]:[E ProcessGroupNCCL.cpp:632] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1",
    "watchdog": "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
    "port-taken": "[Errno 98] error while attempting to bind on address ('127.0.0.1', 30000): address already in use",
    "nvcc-missing": "RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist",
    "driver": "RuntimeError: The NVIDIA driver on your system is too old (found version 12080).",
    "illegal-access": "RuntimeError: CUDA error: an illegal memory access was encountered",
    "draft-context": "ValueError: User-specified context_length (262144) is greater than the derived one (131072)",
}


@pytest.mark.parametrize("name", LINES)
def test_a_line_has_its_cause(name: str) -> None:
    (found,) = classify(f"[2026-11-29 12:00:00] Load weight begin.\n{LINES[name]}\n".splitlines())
    assert (found.name, found.line) == (name, 2)
    assert found.cause
    assert found.advice


def test_every_rule_has_a_line() -> None:
    assert {rule.name for rule in rules()} == set(LINES)


def test_a_tile_too_large_is_not_taken_for_memory_that_ran_out() -> None:
    (found,) = classify([LINES["shared-memory-limit"]])
    assert "99 KiB" in found.cause
    assert "attention_backend" in found.advice


def test_the_first_cause_comes_first_and_each_once() -> None:
    lines = [LINES["watchdog"], LINES["cuda-oom"], LINES["no-kernel-image"], LINES["cuda-oom"]]
    assert [(one.name, one.line) for one in classify(lines)] == [
        ("no-kernel-image", 3),
        ("cuda-oom", 2),
        ("watchdog", 1),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "[2026-11-29 23:47:49] Memory pool end. avail mem=85.93 GB",
        "[2026-11-29 23:47:50] Using draft model load_format: 'auto'",
        "Multi-thread loading shards: 100% Completed | 64/64 model.safetensors",
        "[2026-11-29 23:47:49] Disable prefill CUDA graph because prefill.backend is disabled",
        "k25serve: patches in place: {}",
        "INFO: 127.0.0.1:46312 - POST /v1/chat/completions HTTP/1.1 200 OK",
    ],
)
def test_a_healthy_line_has_none(line: str) -> None:
    assert classify([line]) == []


def test_a_line_without_an_end_takes_no_time() -> None:
    started = time.monotonic()
    assert classify(["NCCL " * 1_000_000]) == []
    assert time.monotonic() - started < 2


def test_what_is_shown_is_printable() -> None:
    (found,) = classify(["\x1b[31mCUDA out of memory\x00"])
    assert found.evidence.isprintable()
