"""Verification of drafted tokens over a latent cache."""

from k25serve.patches.manifest.row import Hook, Row, Source

ROW = Row(
    name="mla_verify",
    code="k25serve.patches.hooks.mla_verify:MlaVerify",
    hooks=(
        Hook(
            "sglang.srt.layers.attention.triton_backend.TritonAttnBackend.__init__",
            {"0.5.17": "332d4e274d0b78c0", "0.5.23": "0277ecfcbc1d6fd7"},
            "after",
            "construct",
        ),
    ),
    relies_on=(
        Source(
            "sglang.srt.layers.attention.triton_backend.TritonAttnBackend.forward_extend",
            {"0.5.17": "53cb5fb65d1e8778", "0.5.23": "ee22790714cb51ca"},
        ),
    ),
    devices=("cuda",),
    reason="SGLang verifies drafted tokens with its general extend kernel: one block per request and head, the prefix "
    "walked serially (27 ms a layer at 128k tokens on an H200). Ours shares each latent tile between heads and draft "
    "tokens and splits the prefix. For MLA with topk 1; anything else is left to SGLang.",
    upstream="https://github.com/sgl-project/sglang/pull/39316 (open; split-KV verify on CUDA, per head)",
    remove_when="SGLang's verify_shared_kv_fwd runs on SM120 within shared memory and at its speed",
)
