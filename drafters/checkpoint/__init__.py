"""Model folders read lazily: names, shapes and dtypes from the headers, single tensors, nothing else.

A 547 GB target costs what its index and the headers of two of its shards cost.
"""

from k25serve.drafters.checkpoint.errors import AdaptError, CheckpointError, DrafterError, GateError, RegistryError
from k25serve.drafters.checkpoint.folder import Checkpoint, read_bytes, read_chunks, read_ints, read_rows
from k25serve.drafters.checkpoint.header import Tensor, read_header
from k25serve.drafters.checkpoint.near_miss import did_you_mean, near_misses
from k25serve.drafters.checkpoint.target import Target
from k25serve.drafters.checkpoint.tokens import Tokens, end_tokens, read_tokens

__all__ = [
    "AdaptError",
    "Checkpoint",
    "CheckpointError",
    "DrafterError",
    "GateError",
    "RegistryError",
    "Target",
    "Tensor",
    "Tokens",
    "did_you_mean",
    "end_tokens",
    "near_misses",
    "read_bytes",
    "read_chunks",
    "read_header",
    "read_ints",
    "read_rows",
    "read_tokens",
]
