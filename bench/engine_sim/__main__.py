"""`python -m k25serve.bench.engine_sim`: a simulated engine on a port, until a signal."""

import argparse
import asyncio
import contextlib
import signal

from k25serve.bench.engine_sim.app import SimEngine
from k25serve.bench.engine_sim.server import serve
from k25serve.bench.engine_sim.settings import SimOptions, SimSettings


def main() -> None:
    defaults = SimSettings()
    parser = argparse.ArgumentParser(prog="python -m k25serve.bench.engine_sim", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--dialect", choices=("sglang", "vllm"), default=defaults.dialect)
    parser.add_argument("--served-model-name", default=defaults.served_model_name)
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument("--num-draft-tokens", type=int, default=defaults.num_draft_tokens)
    parser.add_argument("--accept-probability", type=float, default=defaults.accept_probability)
    parser.add_argument("--prefill-s", type=float, default=defaults.prefill_s)
    parser.add_argument("--step-s", type=float, default=defaults.step_s)
    parser.add_argument("--step-cv", type=float, default=defaults.step_cv)
    parser.add_argument("--options", default="{}", help="JSON: how requests without a field `sim` are answered")
    given = vars(parser.parse_args())
    host, port = given.pop("host"), given.pop("port")
    options = SimOptions.model_validate_json(given.pop("options"))
    asyncio.run(_until_signalled(SimEngine(SimSettings(**given, options=options)), host, port))


async def _until_signalled(engine: SimEngine, host: str, port: int) -> None:
    def announce(bound: int) -> None:
        print(f"simulated engine on http://{host}:{bound}", flush=True)

    serving = asyncio.create_task(serve(engine, host, port, announce))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


if __name__ == "__main__":
    main()
