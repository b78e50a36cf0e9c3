"""Where a decode step of an arm goes, where its engine lets itself be profiled."""

import asyncio
import time
from pathlib import Path

import aiohttp

from k25serve.bench.comm.host import gpu_count
from k25serve.bench.load.client import Client
from k25serve.bench.load.prompts import Prompts, Sampling
from k25serve.bench.load.record import Cell
from k25serve.bench.load.run import own_load, preflight, warm_up_requests
from k25serve.bench.prove.step import Arm, Outcome, Scene, skipped
from k25serve.bench.provenance import Recorder, write
from k25serve.bench.trace.analyse import analyse
from k25serve.bench.trace.errors import TraceError
from k25serve.server.config import load_profile

LEVEL, STEPS, TOKENS = 4, 12, 160
WAIT_S, POLL_S = 120.0, 0.5
REFUSAL_SHOWN = 120


async def trace(scene: Scene, arm: Arm) -> Outcome:
    """Some steps under a small load. Whatever stands in the way is told; it costs the campaign no verdict."""
    endpoint = scene.engine()
    if not endpoint.is_local:
        return skipped(f"{endpoint.root} is another machine, and traces are read from files here")
    folder = scene.journal.folder.absolute() / "traces" / f"{arm.key}-{time.time_ns()}"
    folder.mkdir(parents=True)
    device = _has_gpu(arm)
    body = {"output_dir": str(folder), "num_steps": STEPS, "activities": ["CPU", *(["GPU"] if device else [])]}
    recorder = Recorder("trace")
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=WAIT_S)) as session:
        try:
            async with session.post(f"{endpoint.root}/start_profile", json=body) as answer:
                if answer.status != 200:
                    told = (await answer.text())[:REFUSAL_SHOWN]
                    return skipped(f"the engine allows no profile: HTTP {answer.status} {told}".strip())
            try:
                await _small_load(scene)
                files = await _settled(folder)
            finally:  # an engine that takes no number of steps would go on; one that has ended refuses
                async with session.post(f"{endpoint.root}/stop_profile"):
                    pass
        except (aiohttp.ClientError, TimeoutError) as error:
            return skipped(f"the engine allows no profile: {type(error).__name__} {error}".strip())
    if not files:
        return skipped(f"no trace came in {WAIT_S:.0f} s: the engine writes elsewhere; `k25serve bench trace` reads it")
    try:
        report = await asyncio.to_thread(analyse, files, title=arm.name)
    except TraceError as error:
        return skipped(str(error))
    file = write(recorder.finish(report.model_dump(mode="json"), files), scene.results)
    mode = next(one for one in report.ranks[0].modes if one.mode == report.mode)
    return Outcome(f"{report.mode}: {mode.span_ms:.2f} ms a step over {mode.steps} steps", file)


def _has_gpu(arm: Arm) -> bool:
    if arm.spec.kind == "profile":
        return load_profile(arm.name, need_models=False).engine.device != "cpu"
    return gpu_count() > 0


async def _small_load(scene: Scene) -> None:
    wanted, cell = scene.configuration, Cell(level=LEVEL)
    async with Client(scene.engine(), scene.timeout_s, scene.key_env) as client:
        served = await preflight(client, None)
        sampling = Sampling(served.model, TOKENS, TOKENS, 0.0, wanted.seed)
        salt = f"{scene.journal.state.salt}/trace"
        warm = warm_up_requests(Prompts(), cell, LEVEL, wanted.classes, sampling, salt)
        asked = Prompts().requests(cell, LEVEL, wanted.classes, sampling, salt)
        await own_load(client)([*warm, *asked], LEVEL, lambda: None)


async def _settled(folder: Path) -> list[Path]:
    """The trace files, once none has grown between two looks."""
    deadline, before = time.monotonic() + WAIT_S, dict[Path, int]()
    while time.monotonic() < deadline:
        now = _sizes(folder)
        if now and now == before:
            return list(now)
        before = now
        await asyncio.sleep(POLL_S)
    return []


def _sizes(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in sorted(folder.rglob("*.trace.json.gz"))}
