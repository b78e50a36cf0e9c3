"""The back ends on SGLang's own pools and layers, against attention over the whole sequence."""

import importlib
from types import SimpleNamespace

import pytest
import torch

from k25serve.patches.reference.attention import attend

PREFIXES = [0, 5, 37]
SLOTS = 400


@pytest.fixture
def sgl(sglang_on_cpu):
    names = {
        "backend": "k25serve.patches.reference.backend",
        "draft": "k25serve.patches.reference.draft_backend",
        "pools": "sglang.srt.mem_cache.memory_pool",
        "radix": "sglang.srt.layers.radix_attention",
        "modes": "sglang.srt.model_executor.forward_batch_info",
    }
    return SimpleNamespace(**{name: importlib.import_module(path) for name, path in names.items()})


class MlaPool:
    """One layer's latent cache: values are the first columns of the keys."""

    def __init__(self):
        self.rows = torch.zeros(SLOTS, 1, 576)

    def set_kv_buffer(self, layer, where, k, v):
        self.rows[where.loc] = k

    def get_key_buffer(self, layer_id):
        return self.rows

    def get_value_buffer(self, layer_id):
        return self.rows[..., :512]


def make(sgl, kind):
    """(layer, runner) with a table of shuffled slots for len(PREFIXES) requests."""
    if kind == "mla":
        pool = MlaPool()
        layer = sgl.radix.RadixAttention(4, 576, 0.07, 1, 0, v_head_dim=512)
    else:
        pool = sgl.pools.MHATokenToKVPool(SLOTS - 1, 1, torch.float32, 2, 16, 1, "cpu", False)
        layer = sgl.radix.RadixAttention(6, 16, 0.25, 2, 0)
    table = sgl.pools.ReqToTokenPool(4, 100, "cpu", False)
    table.req_to_token[1:4] = (torch.randperm(SLOTS - 1)[:300] + 1).view(3, 100).int()
    return layer, SimpleNamespace(req_to_token_pool=table, token_to_kv_pool=pool, device="cpu", page_size=1)


class Sequences:
    """Queries, keys and values of whole sequences, and what attention over them must give."""

    def __init__(self, layer, length):
        self.layer = layer
        bs = len(PREFIXES)
        self.q = torch.randn(bs, length, layer.tp_q_head_num, layer.qk_head_dim)
        self.k = torch.randn(bs, length, layer.tp_k_head_num, layer.qk_head_dim)
        own = torch.randn(bs, length, layer.tp_k_head_num, layer.v_head_dim)
        self.v = self.k[..., : layer.v_head_dim] if layer.qk_head_dim != layer.v_head_dim else own

    def rows(self, tensor, spans):
        return torch.cat([tensor[b, first:last] for b, (first, last) in enumerate(spans)])

    def want(self, b, position, seen):
        out = attend(
            self.q[b, position][None, None],
            self.k[b, seen][None],
            self.v[b, seen][None],
            torch.ones(1, 1, len(seen), dtype=torch.bool),
            self.layer.scaling,
        )
        return out.flatten()


def run(sgl, backend, sequences, spans, mode, **fields):
    """One forward over the tokens `spans` of each request."""
    table = backend.req_to_token_pool.req_to_token
    slots = torch.cat([table[b + 1, first:last] for b, (first, last) in enumerate(spans)]).long()
    batch = SimpleNamespace(
        forward_mode=mode, req_pool_indices=torch.tensor([1, 2, 3]), out_cache_loc=slots, extend_seq_lens=None, **fields
    )
    backend.init_forward_metadata(batch)
    q, k, v = (sequences.rows(t, spans) for t in (sequences.q, sequences.k, sequences.v))
    return backend.forward(q.flatten(1), k, v, sequences.layer, batch)


def prefill(sgl, backend, sequences, ends):
    spans = [(0, end) for end in ends]
    lens = torch.tensor(ends)
    mode = sgl.modes.ForwardMode.EXTEND
    batch = SimpleNamespace(forward_mode=mode, req_pool_indices=torch.tensor([1, 2, 3]), seq_lens=lens)
    table = backend.req_to_token_pool.req_to_token
    batch.out_cache_loc = torch.cat([table[b + 1, :end] for b, end in enumerate(ends)]).long()
    batch.extend_seq_lens = lens
    keep = [b for b, end in enumerate(ends) if end]
    batch.req_pool_indices, batch.seq_lens = batch.req_pool_indices[keep], lens[keep]
    batch.extend_seq_lens = lens[keep]
    backend.init_forward_metadata(batch)
    q, k, v = (sequences.rows(t, spans) for t in (sequences.q, sequences.k, sequences.v))
    return backend.forward(q.flatten(1), k, v, sequences.layer, batch)


@pytest.mark.parametrize("kind", ["mla", "gqa"])
def test_prefill_then_decode(sgl, kind):
    layer, runner = make(sgl, kind)
    backend = sgl.backend.create_backend(runner)
    sequences = Sequences(layer, max(PREFIXES) + 1)
    got = prefill(sgl, backend, sequences, PREFIXES)
    want = [sequences.want(b, p, range(p + 1)) for b, end in enumerate(PREFIXES) for p in range(end)]
    torch.testing.assert_close(got, torch.stack(want), atol=1e-5, rtol=1e-4)

    spans = [(end, end + 1) for end in PREFIXES]
    mode, lens = sgl.modes.ForwardMode.DECODE, torch.tensor(PREFIXES) + 1
    got = run(sgl, backend, sequences, spans, mode, seq_lens=lens)
    want = [sequences.want(b, end, range(end + 1)) for b, end in enumerate(PREFIXES)]
    torch.testing.assert_close(got, torch.stack(want), atol=1e-5, rtol=1e-4)
    assert not backend.support_triton()


@pytest.mark.parametrize("kind", ["mla", "gqa"])
def test_extend_over_a_cached_prefix(sgl, kind):
    layer, runner = make(sgl, kind)
    backend = sgl.backend.create_backend(runner)
    sequences = Sequences(layer, max(PREFIXES) + 6)
    prefill(sgl, backend, sequences, PREFIXES)
    lengths = [6, 1, 3]
    spans = [(end, end + n) for end, n in zip(PREFIXES, lengths, strict=True)]
    table = runner.req_to_token_pool.req_to_token
    batch = SimpleNamespace(
        forward_mode=sgl.modes.ForwardMode.EXTEND,
        req_pool_indices=torch.tensor([1, 2, 3]),
        seq_lens=torch.tensor([last for _, last in spans]),
        extend_seq_lens=torch.tensor(lengths),
        out_cache_loc=torch.cat([table[b + 1, first:last] for b, (first, last) in enumerate(spans)]).long(),
    )
    backend.init_forward_metadata(batch)
    q, k, v = (sequences.rows(t, spans) for t in (sequences.q, sequences.k, sequences.v))
    got = backend.forward(q.flatten(1), k, v, layer, batch)
    want = [sequences.want(b, p, range(p + 1)) for b, (first, last) in enumerate(spans) for p in range(first, last)]
    torch.testing.assert_close(got, torch.stack(want), atol=1e-5, rtol=1e-4)


TREE = [[0], [0, 1], [0, 2], [0, 1, 3], [0, 2, 4]]


@pytest.mark.parametrize("kind", ["mla", "gqa"])
@pytest.mark.parametrize("tree_topk", [1, 2, -1])
def test_target_verify_sees_the_prefix_and_its_own_branch(sgl, kind, tree_topk):
    layer, runner = make(sgl, kind)
    backend = sgl.backend.create_backend(runner)
    n = len(TREE)
    sequences = Sequences(layer, max(PREFIXES) + n)
    prefill(sgl, backend, sequences, PREFIXES)
    branches = TREE if tree_topk != 1 else [list(range(i + 1)) for i in range(n)]
    mask = torch.zeros(len(PREFIXES), n, n, dtype=torch.bool)
    for node, seen in enumerate(branches):
        mask[:, node, seen] = True
    spans = [(end, end + n) for end in PREFIXES]
    spec = SimpleNamespace(draft_token_num=n, tree_topk=tree_topk, custom_mask=mask.flatten())
    mode = sgl.modes.ForwardMode.TARGET_VERIFY
    got = run(sgl, backend, sequences, spans, mode, seq_lens=torch.tensor(PREFIXES), spec_info=spec)
    want = [
        sequences.want(b, end + node, [*range(end), *(end + i for i in seen)])
        for b, end in enumerate(PREFIXES)
        for node, seen in enumerate(branches)
    ]
    torch.testing.assert_close(got, torch.stack(want), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("topk", [1, 2, 3])
@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_draft_step_sees_the_prefix_and_its_own_branch(sgl, topk, step):
    steps, table = 4, torch.randperm(4 * 60).view(4, 60).int()
    slots, lens = sgl.draft.branch_slots(table, torch.tensor([1, 2, 3]), torch.tensor(PREFIXES), topk, steps, step)
    for b, end in enumerate(PREFIXES):
        for branch in range(topk):
            row = b * topk + branch
            first = end + branch * steps
            want = [*table[b + 1, :end].tolist(), *table[b + 1, first : first + step + 1].tolist()]
            assert lens[row] == len(want)
            assert slots[row, : lens[row]].tolist() == want
            assert set(slots[row, lens[row] :].tolist()) <= {want[0]}


def test_multi_step_draft_plans_every_step(sgl):
    _, runner = make(sgl, "gqa")
    container = sgl.draft.MultiStepDraftBackend(runner, topk=2, num_steps=3)
    batch = SimpleNamespace(req_pool_indices=torch.tensor([1, 2, 3]), seq_lens=torch.tensor(PREFIXES))
    container.init_forward_metadata(batch)
    assert len(container.attn_backends) == 2
    for step, child in enumerate(container.attn_backends):
        (block,) = child.blocks
        assert (block.rows.start, block.rows.stop) == (0, 6)
        seen = [end + step + 1 for end in PREFIXES for _ in range(2)]
        assert block.visible.sum(-1).flatten().tolist() == seen
        assert child.decode_attention_backend_str == "torch_native"


def test_draft_factory(sgl):
    _, runner = make(sgl, "gqa")
    factory = SimpleNamespace(
        draft_model_runner=runner, topk=1, speculative_num_steps=3, draft_attn_backend="torch_native"
    )
    assert len(sgl.draft.create_decode_backend(factory).attn_backends) == 2
    assert isinstance(sgl.draft.create_draft_extend_backend(factory), sgl.backend.ReferenceBackend)
    factory.speculative_num_steps = 1
    assert sgl.draft.create_decode_backend(factory) is None
    factory.speculative_num_steps, factory.draft_attn_backend = 3, "triton"
    for create in (sgl.draft.create_decode_backend, sgl.draft.create_draft_extend_backend):
        with pytest.raises(ValueError, match=r"'triton'.*'torch_native' only"):
            create(factory)


def test_a_tree_over_larger_pages_is_refused(sgl):
    _, runner = make(sgl, "gqa")
    runner.page_size = 16
    sgl.draft.MultiStepDraftBackend(runner, topk=1, num_steps=3)
    with pytest.raises(ValueError, match="page_size 16 with speculative_eagle_topk 2: use --page-size 1"):
        sgl.draft.MultiStepDraftBackend(runner, topk=2, num_steps=3)


def test_what_the_formula_lacks_is_refused(sgl):
    layer, runner = make(sgl, "gqa")
    backend = sgl.backend.create_backend(runner)
    layer.sliding_window_size = 128
    with pytest.raises(NotImplementedError, match="layer 0: sliding_window_size=128 is not in the CPU reference"):
        backend.forward_extend(torch.zeros(1, 96), None, None, layer, None)


def test_rows_outside_the_plan_are_refused(sgl):
    layer, runner = make(sgl, "gqa")
    backend = sgl.backend.create_backend(runner)
    mode = sgl.modes.ForwardMode.DECODE
    batch = SimpleNamespace(forward_mode=mode, req_pool_indices=torch.tensor([1]), seq_lens=torch.tensor([3]))
    backend.init_forward_metadata(batch)
    with pytest.raises(ValueError, match="layer 0: 2 query rows, but 1 were planned"):
        backend.forward(torch.zeros(2, 96), None, None, layer, batch)
