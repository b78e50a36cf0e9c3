"""The phase of a load, from lines as SGLang logs them."""

from k25serve.server.engine.progress import ORDER, Progress

LOG = [
    ("[2026-11-29 12:00:00] server_args={'skip_server_warmup': False, 'disable_cuda_graph': False}", "starting ranks"),
    ("[2026-11-29 12:00:01] Load weight begin. avail mem=94.1 GB", "loading weights"),
    ("Loading safetensors checkpoint shards:  12% Completed | 8/64", "loading weights"),
    ("", "loading weights"),
    (
        "[2026-11-29 12:39:00] Load weight end. elapsed=2339 s, type=KimiK25ForConditionalGeneration",
        "weights loaded",
    ),
    ("[2026-11-29 12:39:01] Load weight begin. avail mem=24.1 GB", "weights loaded"),
    ("[2026-11-29 12:40:00] KV Cache is allocated. #tokens: 250000", "allocating the KV cache"),
    ("[2026-11-29 12:40:09] Capture target verify CUDA graph begin.", "capturing graphs"),
    ("INFO:     Uvicorn running on http://127.0.0.1:30000", "warming up"),
    ("some other line", "warming up"),
]


def test_phases_only_go_forward() -> None:
    progress = Progress()
    assert progress.phase == ORDER[0] == "importing SGLang"
    for line, phase in LOG:
        progress = progress.after(line)
        assert progress.phase == phase, line
    assert progress.last_line == "some other line"
