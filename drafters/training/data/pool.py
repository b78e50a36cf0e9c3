"""Encodes chunks of conversations in order, here or in worker processes."""

import multiprocessing
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path

from k25serve.drafters.training.data.conversation import Conversation
from k25serve.drafters.training.data.encode import Encoded, Encoder
from k25serve.drafters.training.data.options import DataOptions
from k25serve.drafters.training.data.tokenizer import load_tokenizer, turn_ends


def make_encoder(options: DataOptions, target: Path) -> Encoder:
    """Raises TrainingError where the target's tokenizer cannot be loaded."""
    tokenizer = load_tokenizer(target, options.trust_remote_code)
    return Encoder(tokenizer, turn_ends(target, tokenizer), options.thinking, options.max_length)


def encoded_chunks(
    options: DataOptions, target: Path, chunks: Iterable[Sequence[Conversation]]
) -> Iterator[list[Encoded]]:
    """One result a chunk, in order; with workers, few more chunks are in memory than there are workers."""
    if options.workers == 1:
        yield from map(make_encoder(options, target).encode, chunks)
        return
    # spawn: a forked tokenizer's threads would be dead.
    with ProcessPoolExecutor(options.workers, multiprocessing.get_context("spawn")) as pool:
        running: deque[Future[list[Encoded]]] = deque()
        for chunk in chunks:
            running.append(pool.submit(_encode, options, target, chunk))
            if len(running) > options.workers:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


def _encode(options: DataOptions, target: Path, chunk: Sequence[Conversation]) -> list[Encoded]:
    """In a worker. Loading the tokenizer anew costs a second or two a chunk."""
    return make_encoder(options, target).encode(chunk)
