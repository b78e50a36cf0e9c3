"""SGLang's custom all-reduce finds the world group that it asks for; no GPU is needed to see that."""

import json
import sys
from pathlib import Path

from k25serve.bench.comm.launch import run_ranks

WORKER = str(Path(__file__).with_name("peer_worker.py"))


def test_the_look_at_peer_access_finds_a_world_group(tmp_path: Path) -> None:
    # What SGLang found before on this host, by the GPUs that it was let see: so it asks no driver again.
    known = {"0->1": True, "1->0": True}
    (tmp_path / "gpu_p2p_access_cache_for_0,1.json").write_text(json.dumps(known))
    environment = {"SGLANG_CACHE_DIR": str(tmp_path), "CUDA_VISIBLE_DEVICES": "0,1", "GLOO_SOCKET_IFNAME": "lo"}
    ended = run_ranks([sys.executable, "-P", WORKER], 2, environment, 120.0)
    assert ended.passed, ended.ends
    assert sorted(ended.messages, key=lambda told: told["rank"]) == [{"rank": rank, "peers": True} for rank in (0, 1)]
