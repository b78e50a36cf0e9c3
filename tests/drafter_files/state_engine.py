"""An engine at its HTTP seam, for runs that need no SGLang: its states are a plain transformers forward's."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from k25serve.drafters.training.capture.engine import MARKER, REPORT
from k25serve.drafters.training.capture.files import HEADER
from k25serve.drafters.training.capture.reference import Reference
from k25serve.drafters.training.run.engine import Engines
from k25serve.drafters.training.run.folders import RunFolder
from k25serve.drafters.training.run.options import EngineOptions, GateOptions


class StateEngines(Engines):
    """Boots no process; counts its boots. before: called at each prompt, with how many were answered so far."""

    def __init__(self, folder: RunFolder, say: Callable[[str], None]) -> None:
        super().__init__(folder, say)
        self.boots = 0
        self.before: Callable[[int], None] = lambda answered: None

    def check(self, engine: EngineOptions, gate: GateOptions | None) -> None:
        """Profiles are not looked at."""

    @contextlib.contextmanager
    def capturing(self, options: EngineOptions, target: Path) -> Iterator[tuple[str, Path]]:
        self.boots += 1
        staging = self._staging(options)
        with state_engine(target, options.layers, staging, self.before) as url:
            yield url, staging


@contextlib.contextmanager
def state_engine(target: Path, layers: tuple[int, ...], staging: Path, before: Callable[[int], None]) -> Iterator[str]:
    """Its URL. It writes to `staging` as the row capture_states does."""
    reference = Reference(target)
    config = json.loads((target / "config.json").read_text())["text_config"]
    last = config["num_hidden_layers"] - 1
    report = {"directory": str(staging), "layers": list(layers), "last_layer": last}
    report["hidden_size"] = config["hidden_size"]
    (staging / MARKER).write_text(json.dumps(report))
    info = {"disable_radix_cache": True, "chunked_prefill_size": -1, REPORT: report}
    header = {HEADER: json.dumps({"layers": list(layers), "last_layer": last})}
    answered = 0

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({"version": "stand-in", "internal_states": [info], "max_req_input_len": 4096})

        def do_POST(self) -> None:
            nonlocal answered
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            before(answered)
            answered += 1
            ids = torch.tensor(asked["input_ids"])
            states = reference.states(ids)[[*layers, last]].transpose(0, 1).bfloat16().contiguous()
            draft = staging / f".{asked['rid']}.part"
            save_file({"token_ids": ids, "hidden_states": states}, draft, header)
            draft.rename(staging / f"{asked['rid']}.safetensors")
            self._answer({"text": "", "meta_info": {"completion_tokens": 1, "cached_tokens": 0}})

        def _answer(self, value: dict[str, Any]) -> None:
            data = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *parts: Any) -> None:
            """Nothing to the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
