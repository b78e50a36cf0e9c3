"""A stub engine: a main process and 8 children, as hard to be rid of as any. It answers as the simulated engine does.

The children run in sessions of their own, ignore SIGTERM and outlive their parent; one holds port P + 1. When a child
dies the parent ends, as SGLang's does. `--no-such-flag` is refused as argparse does, with `--hang` it never
gets ready, with `--die-of=TEXT` a request that holds TEXT takes it down.
"""

import asyncio
import os
import signal
import subprocess
import sys

from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from k25serve.bench.engine_sim.app import SimEngine
from k25serve.bench.engine_sim.server import serve
from k25serve.bench.engine_sim.settings import SimSettings

CHILD = """
import signal, socket, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
held = socket.create_server(("127.0.0.1", int(sys.argv[1]))) if sys.argv[1] != "0" else None
print("child up", flush=True)
time.sleep(1000)
"""
CHILDREN = 8
CAPACITY = {"max_total_num_tokens": 4096, "internal_states": [{"effective_max_running_requests_per_dp": 16}]}


def main() -> int:
    port = int(sys.argv[sys.argv.index("--port") + 1])
    if "--no-such-flag" in sys.argv:
        print("launch_server.py: error: unrecognized arguments: --no-such-flag", file=sys.stderr)
        return 2
    children = [
        subprocess.Popen([sys.executable, "-S", "-c", CHILD, str(port + 1 if n == 0 else 0)], start_new_session=True)
        for n in range(CHILDREN)
    ]
    if "--hang" in sys.argv:
        signal.pause()
    return asyncio.run(answer(port, children))


async def answer(port: int, children: list["subprocess.Popen[bytes]"]) -> int:
    model = sys.argv[sys.argv.index("--served-model-name") + 1]
    engine = SimEngine(SimSettings(served_model_name=model, prefill_s=0.0, step_s=0.0))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        chosen = JSONResponse(CAPACITY) if scope.get("path") == "/server_info" else engine
        if scope.get("path") == "/v1/chat/completions":
            receive = await looked_at(receive)
        await chosen(scope, receive, send)

    serving = asyncio.create_task(serve(app, "127.0.0.1", port))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    while all(child.poll() is None for child in children):
        done, _ = await asyncio.wait({serving}, timeout=0.05)
        if done:
            for child in children:
                child.kill()
            return 0
    print("error: a child died", flush=True)
    return 1


async def looked_at(receive: Receive) -> Receive:
    """The same messages; a deadly one ends this process."""
    first = await receive()
    for word in sys.argv:
        if word.startswith("--die-of=") and word.partition("=")[2].encode() in first["body"]:
            print("triton.runtime.errors.OutOfResources: out of resource: shared memory", flush=True)
            os._exit(1)
    messages = iter([first])

    async def again() -> Message:
        return next(messages, None) or await receive()

    return again


if __name__ == "__main__":
    sys.exit(main())
