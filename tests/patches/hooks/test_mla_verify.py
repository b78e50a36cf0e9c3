"""What the row does to a TritonAttnBackend, and when a call is left to SGLang. Tensors are on the CPU or meta."""

import inspect
from types import SimpleNamespace

import pytest
import torch

from k25serve.patches.context import Context, Here
from k25serve.patches.hooks import mla_verify
from k25serve.patches.hooks.mla_verify import MlaVerify, VerifyCall, unsuited
from k25serve.patches.kernels.mla_verify import Workspace

HEADS, DRAFTS, BATCH = 8, 4, 3


def backend(**changes):
    pool = SimpleNamespace(
        start_layer=0, get_key_buffer=lambda layer: torch.empty(16, 1, changes.get("width", 576), dtype=dtype)
    )
    dtype = changes.pop("dtype", torch.bfloat16)
    fields = {
        "skip_prefill": False,
        "use_mla": True,
        "topk": 1,
        "dcp_size": 1,
        "num_head": HEADS,
        "device": "cpu",
        "req_to_token_pool": SimpleNamespace(size=BATCH),
        "token_to_kv_pool": pool,
        "verify_splitkv_fwd": "theirs",
        "use_verify_splitkv": False,
        "verify_shared_kv_fwd": "theirs",
        "use_verify_shared_kv": False,
    }
    return SimpleNamespace(**(fields | changes))


def runner(eagle=True, draft=False):
    return SimpleNamespace(is_draft_worker=draft, spec_algorithm=SimpleNamespace(is_eagle=lambda: eagle))


@pytest.fixture
def workspace():
    return Workspace.allocate(
        max_batch=BATCH,
        heads=HEADS,
        max_draft_tokens=8,
        kv_dtype=torch.bfloat16,
        device="cpu",
        capability=(9, 0),
        processors=4,
    )


@pytest.fixture
def allocated(monkeypatch, workspace):
    """Arguments of each allocation; the device is not asked."""
    calls = []

    def allocate(**arguments):
        calls.append(arguments)
        return workspace

    monkeypatch.setattr(mla_verify.Workspace, "allocate", allocate)
    return calls


def row(version="0.5.17"):
    return MlaVerify(Context(Here(version, "cuda", "scheduler"), {}))


@pytest.mark.parametrize(
    ("version", "ours", "other"),
    [("0.5.17", "verify_splitkv", "verify_shared_kv"), ("0.5.23", "verify_shared_kv", "verify_splitkv")],
)
def test_the_slot_of_each_version(allocated, version, ours, other):
    made, found = row(version), backend()
    assert made.construct(None, found, runner(), False) is None
    assert getattr(found, f"use_{ours}") is True
    assert getattr(found, f"use_{other}") is False
    assert getattr(found, f"{other}_fwd") == "theirs"
    assert allocated == [
        {"max_batch": BATCH, "heads": HEADS, "max_draft_tokens": 8, "kv_dtype": torch.bfloat16, "device": "cpu"}
    ]
    assert made.facts() == {"backends": 1, "launches": 0, "left": {}}


@pytest.mark.parametrize(
    ("change", "who", "reason"),
    [
        ({}, {"draft": True}, "a draft model's back end verifies nothing"),
        ({"skip_prefill": True}, {}, "a draft model's back end verifies nothing"),
        ({}, {"eagle": False}, "no EAGLE speculation"),
        ({"use_mla": False}, {}, "attention is not MLA"),
        ({"topk": 2}, {}, "topk is 2"),
        ({"topk": 0}, {}, "topk is 0"),
        ({"dcp_size": 2}, {}, "decode context parallel size is 2"),
        ({"width": 320}, {}, "a cache row has 320 columns"),
        ({"dtype": torch.float8_e5m2}, {}, "kv_dtype is float8_e5m2"),
        ({"dtype": torch.float16}, {}, "kv_dtype is float16"),
    ],
)
def test_back_ends_that_keep_sglangs_own(allocated, change, who, reason):
    made, found = row(), backend(**change)
    made.construct(None, found, runner(**who))
    assert (found.verify_splitkv_fwd, found.use_verify_splitkv) == ("theirs", False)
    assert allocated == []
    (left,) = made.facts()["left"]
    assert left.startswith(reason)


def test_fp8_is_served():
    assert unsuited(backend(dtype=torch.float8_e4m3fn), runner()) is None


@pytest.mark.parametrize("change", [{"use_mla": False}, {"topk": 2}, {"skip_prefill": True}])
def test_the_cache_of_other_models_is_not_touched(allocated, change):
    """Its pool may have no first layer, or no such buffer."""
    found = backend(**change)
    found.token_to_kv_pool = None
    row().construct(None, found, runner())
    assert found.use_verify_splitkv is False


def call(verify, batch=BATCH, drafts=DRAFTS, causal=True, scales=(1.0, 1.0), width=576, dtype=torch.bfloat16, **extra):
    """As SGLang calls it at a layer: 16 arguments by position, the rest by name."""
    tokens = batch * drafts
    q = torch.empty(tokens, HEADS, width, dtype=dtype)
    k = torch.empty(tokens, 1, 576, dtype=torch.bfloat16)
    named = {"logit_cap": 0.0, "sliding_window_size": -1, "sinks": None, "window_kv_offsets": None}
    named |= {"xai_temperature_len": -1, "max_bs": BATCH}
    return verify(
        q,
        k,
        k[..., :512],
        torch.empty(tokens, HEADS, 512, dtype=torch.bfloat16),
        torch.empty(16, 1, 576, dtype=torch.bfloat16),
        torch.empty(16, 1, 512, dtype=torch.bfloat16),
        torch.arange(0, tokens + 1, drafts, dtype=torch.int32),
        torch.zeros(extra.pop("requests", batch) + 1, dtype=torch.int32),
        torch.zeros(0, dtype=torch.int64),
        torch.ones(1, dtype=torch.bool),
        causal,
        None,
        extra.pop("max_len_extend", drafts),
        *scales,
        0.1,
        **(named | extra),
    )


@pytest.fixture
def launched(monkeypatch):
    """Arguments of each launch of the kernel."""
    calls = []
    monkeypatch.setattr(
        "k25serve.patches.kernels.mla_verify.mla_verify", lambda *args, **named: calls.append((args, named))
    )
    return calls


@pytest.mark.parametrize("drafts", [1, 4, 8])
def test_what_the_kernel_serves(workspace, launched, drafts):
    verify = VerifyCall(workspace)
    assert call(verify, drafts=drafts) is True
    assert call(verify, drafts=drafts, batch=1) is True
    assert (verify.launches, dict(verify.left)) == (2, {})
    q, k, kv_buffer, kv_indptr, kv_indices, out, scaling, scratch = launched[0][0]
    assert [tuple(t.shape) for t in (q, k, kv_buffer, out)] == [
        (BATCH * drafts, HEADS, 576),
        (BATCH * drafts, 1, 576),
        (16, 1, 576),
        (BATCH * drafts, HEADS, 512),
    ]
    assert (kv_indptr.shape[0], kv_indices.dtype, scaling) == (BATCH + 1, torch.int64, 0.1)
    assert scratch is workspace
    assert launched[0][1] == {"k_scale": 1.0, "v_scale": 1.0}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"causal": False}, "attention is not causal"),
        ({"drafts": 9}, "9 draft tokens, more than 8"),
        ({"max_len_extend": 3}, "requests with different numbers of draft tokens"),
        ({"requests": BATCH + 1}, "requests with different numbers of draft tokens"),
        ({"width": 192}, "head dims 192 and 512"),
        ({"dtype": torch.float16}, "queries are torch.float16"),
        ({"scales": (0.5, 1.0)}, "scales 0.5 and 1.0 of a bfloat16 cache"),
        ({"scales": (1.0, 0.5)}, "scales 1.0 and 0.5 of a bfloat16 cache"),
        ({"logit_cap": 30.0}, "a logit cap"),
        ({"sliding_window_size": 128}, "a logit cap, window"),
        ({"sinks": torch.zeros(HEADS)}, "a logit cap, window, sinks"),
        ({"xai_temperature_len": 4}, "a logit cap, window, sinks or temperature"),
    ],
)
def test_what_is_left_to_sglang_is_counted_and_said_once(workspace, launched, caplog, change, reason):
    verify = VerifyCall(workspace)
    with caplog.at_level("WARNING"):
        assert [call(verify, **change) for _ in range(3)] == [False] * 3
    assert launched == []
    ((told, times),) = verify.left.items()
    assert told.startswith(reason)
    assert times == 3
    (record,) = caplog.records
    assert record.getMessage() == f"k25serve: patch mla_verify: left to SGLang's slower verify: {told}"


def test_scales_reach_the_kernel_for_an_fp8_cache(launched):
    scratch = Workspace.allocate(
        max_batch=BATCH,
        heads=HEADS,
        max_draft_tokens=8,
        kv_dtype=torch.float8_e4m3fn,
        device="cpu",
        capability=(9, 0),
        processors=4,
    )
    assert call(VerifyCall(scratch), scales=(0.5, 0.25)) is True
    assert launched[0][1] == {"k_scale": 0.5, "v_scale": 0.25}


def test_the_kernel_takes_what_sglang_hands_over(workspace, monkeypatch):
    """The kernel's own checks, up to the launch, on the very arguments."""
    from k25serve.patches.kernels.mla_verify import launch

    grids = []

    class Kernel:
        def __getitem__(self, grid):
            grids.append(grid)
            return lambda *args, **named: None

    monkeypatch.setattr(launch.triton, "mla_verify_splits", Kernel())
    monkeypatch.setattr(launch.triton, "mla_verify_merge", Kernel())
    assert call(VerifyCall(workspace)) is True
    assert [grid[0] for grid in grids] == [BATCH, BATCH]


@pytest.mark.usefixtures("sglang_on_cpu")
def test_it_is_called_as_sglangs_own_is():
    """Same names in the same order as the function whose slot it takes; SGLang passes 16 by position."""
    from sglang.kernels.ops.attention.verify_mla import verify_shared_kv_fwd

    theirs = [name for name in inspect.signature(verify_shared_kv_fwd).parameters if name != "skip_prefix_custom_mask"]
    ours = list(inspect.signature(VerifyCall.__call__).parameters)[1:]
    assert len(ours) == len(theirs)
    assert ours[16:] == theirs[16:]
    assert ours[4:10] == theirs[4:10]
