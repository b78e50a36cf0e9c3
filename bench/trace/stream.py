"""A trace file as chunks of JSON text, whatever it is packed in, within bounded memory."""

import importlib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from k25serve.bench.trace.errors import DamagedTrace, TraceError

CHUNK = 1 << 20  # bytes of JSON text at a time; larger chunks leave the processor's cache and are slower
PACKED_CHUNK = 1 << 16
GZIP_MAGIC = b"\x1f\x8b"
GZIP_WINDOW = 31  # zlib's wbits for a gzip member

OnBytes = Callable[[int], None]


def read_chunks(path: Path, on_bytes: OnBytes) -> Iterator[bytes]:
    """JSON text of `path` in pieces; `on_bytes` hears how many bytes of the file each read took.

    Raises TraceError where it cannot be read, DamagedTrace where a gzip stream is cut or broken.
    """
    try:
        with path.open("rb") as file:
            packed = file.read(2) == GZIP_MAGIC
            file.seek(0)
            pieces = iter(lambda: file.read(PACKED_CHUNK if packed else CHUNK), b"")
            yield from _unpack(path, _counted(pieces, on_bytes)) if packed else _counted(pieces, on_bytes)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror}); correct its rights, or copy it again") from None


def _counted(pieces: Iterator[bytes], on_bytes: OnBytes) -> Iterator[bytes]:
    for piece in pieces:
        on_bytes(len(piece))
        yield piece


def _unpack(path: Path, pieces: Iterator[bytes]) -> Iterator[bytes]:
    library = _library()
    inflate, written = library.decompressobj(GZIP_WINDOW), 0
    for piece in pieces:
        while piece:
            if inflate.eof:
                if not piece.startswith(GZIP_MAGIC):
                    return  # what follows the last member is padding
                inflate = library.decompressobj(GZIP_WINDOW)
            try:
                text = inflate.decompress(piece, CHUNK)
            except (library.error, ValueError) as error:
                raise DamagedTrace(path, written, f"broken gzip stream ({error}); copy the file again,") from None
            piece = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            written += len(text)
            if text:
                yield text
    if not inflate.eof:
        raise DamagedTrace(
            path, written, "incomplete rank: the gzip stream is cut; wait for the profiler to finish, or copy it again;"
        )


def _library() -> Any:
    """python-isal's zlib where it is installed (inflates about twice as fast), else the standard one."""
    try:
        return importlib.import_module("isal.isal_zlib")
    except ImportError:
        return zlib
