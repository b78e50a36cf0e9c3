"""The data step: from sources to two data sets on disk."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from importlib.metadata import version
from pathlib import Path

from k25serve.drafters.adapters.write import sha256
from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.data.conversation import Conversation
from k25serve.drafters.training.data.files import found_files
from k25serve.drafters.training.data.gather import Gathered, gather
from k25serve.drafters.training.data.options import DataOptions
from k25serve.drafters.training.data.pool import encoded_chunks
from k25serve.drafters.training.data.publish import begin, finished, publish
from k25serve.drafters.training.data.regenerate import regenerate
from k25serve.drafters.training.data.report import DataReport
from k25serve.drafters.training.data.split import HELD_OUT, TRAIN, SplitWriter
from k25serve.drafters.training.data.spool import Entry, Spool
from k25serve.drafters.training.data.tokenizer import load_tokenizer, tokenizer_hashes
from k25serve.drafters.training.progress import Progress

CHUNK = 1024  # conversations encoded at a time
ANSWERS = "answers.jsonl"
PACKAGES = ("datasets", "tokenizers", "transformers")


def prepare(options: DataOptions, target: Path, out: Path, progress: Progress) -> DataReport:
    """Write `out`/train, `out`/held_out and `out`/report.json. What is finished there already is not done again.

    Raises TrainingError where an input, the target or what lies in `out` is not as it should be.
    """
    files = found_files(options.inputs)
    hashes = [sha256(path) for path in files]
    versions = tokenizer_hashes(target, load_tokenizer(target, options.trust_remote_code))
    done = finished(out, options.decisive, hashes, versions)
    if done is not None:
        return done
    work = begin(out)
    with ExitStack() as stack:
        spool = stack.enter_context(closing(Spool(work / "conversations.jsonl")))
        gathered = gather(options, files, hashes, spool, progress)
        counts: Counter[str] = Counter()
        if options.regenerate is not None:
            asked, spool = spool, stack.enter_context(closing(Spool(work / "answered.jsonl")))
            regenerate(options, options.regenerate, gathered, (asked, spool), out / ANSWERS, counts, progress)
        writers = _write(options, target, work, gathered, spool, counts, progress)
        reports = {name: writer.save(work / name) for name, writer in writers.items()}
    if not reports[TRAIN].rows:
        raise TrainingError(f"nothing to train on is left ({dict(gathered.dropped)}); give more, or raise --max-length")
    report = DataReport(
        settings=options.decisive,
        inputs=gathered.inputs,
        target=versions,
        train=reports[TRAIN],
        held_out=reports[HELD_OUT],
        dropped=dict(sorted((+gathered.dropped).items())),
        counts=dict(sorted((+counts).items())),
        versions={name: version(name) for name in PACKAGES},
    )
    publish(out, work, (TRAIN, HELD_OUT), report)
    return report


def _write(
    options: DataOptions,
    target: Path,
    work: Path,
    gathered: Gathered,
    spool: Spool,
    counts: Counter[str],
    progress: Progress,
) -> dict[str, SplitWriter]:
    """Both splits' streams, closed."""
    progress.start("tokenize", len(gathered.entries))
    writers = {name: SplitWriter(work / f"{name}.arrow") for name in (TRAIN, HELD_OUT)}
    chunks = [gathered.entries[start : start + CHUNK] for start in range(0, len(gathered.entries), CHUNK)]
    with ExitStack() as stack:
        for writer in writers.values():
            stack.enter_context(writer)
        for entries, results in zip(chunks, encoded_chunks(options, target, _read(chunks, spool)), strict=True):
            for entry, encoded in zip(entries, results, strict=True):
                progress.advance()
                if encoded.fault and not options.skip_bad:
                    raise TrainingError(f"{entry.place}: {encoded.fault}; or pass --skip-bad")
                why = f"bad row: {encoded.fault.reason}" if encoded.fault else encoded.dropped
                counts.update(encoded.counts)
                if why:
                    gathered.dropped[why] += 1
                else:
                    writers[entry.split].add(entry.id, entry.label, encoded.rows)
    return writers


def _read(chunks: list[list[Entry]], spool: Spool) -> Iterator[list[Conversation]]:
    for entries in chunks:
        yield [spool.read(entry) for entry in entries]
