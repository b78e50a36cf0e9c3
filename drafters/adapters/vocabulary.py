"""Steps on the vocabulary map: offsets, t2d beside them, and special tokens swapped in."""

from k25serve.drafters.adapters.data import Rows, Stored, booleans, int64
from k25serve.drafters.adapters.draft import Draft, Job
from k25serve.drafters.checkpoint import (
    AdaptError,
    Tensor,
    end_tokens,
    read_bytes,
    read_ints,
    read_tokens,
)
from k25serve.drafters.vocab import (
    Form,
    find_faults,
    read_counts,
    read_d2t,
    swap_ids,
    to_offsets,
    to_t2d,
    wanted_tokens,
)

# Where a checkpoint may keep its counts, id: count.
COUNTS_FILES = ("token_counts.json", "counts.json")


def write_draft_vocab_size(draft: Draft, job: Job) -> Draft:
    """draft_vocab_size explicit: lm_head's rows, or d2t's length. Raises AdaptError where they or the config differ."""
    head, d2t = draft.tensors.get("lm_head.weight"), draft.tensors.get("d2t")
    sizes = {data.shape[0] for data in (head, d2t) if data is not None}
    written = draft.config.get("draft_vocab_size")
    if len(sizes | ({written} if written is not None else set())) > 1:
        raise AdaptError(
            f"draft_vocab_size: config.json says {written}, lm_head has {head.shape[0] if head else 'none'}, "
            f"d2t {d2t.shape[0] if d2t else 'none'}; take config and weights from one source"
        )
    size = next(iter(sizes), None)
    if size is None or ("draft_vocab_size" in draft.config and written == size):
        return draft
    return draft.with_config(f"draft_vocab_size {size} written down", draft_vocab_size=size)


def write_offsets(draft: Draft, job: Job) -> Draft:
    """d2t in the offset form, as SGLang and vLLM read it. Raises AdaptError where it is missing or unclear."""
    vocab_size = draft.size("vocab_size")
    stored = draft.tensors.get("d2t")
    if not isinstance(stored, Stored):
        draft_vocab_size = draft.config.get("draft_vocab_size")
        if draft_vocab_size is not None and draft_vocab_size < vocab_size:
            raise AdaptError(
                f"d2t is missing, though the drafter has {draft_vocab_size} of {vocab_size} ids; get it from its source"
            )
        if job.options.d2t_form is not None:
            raise AdaptError("--d2t-form: the drafter has no d2t; leave it out")
        return draft
    values, t2d = read_ints(stored.tensor), draft.tensors.get("t2d")
    hot = read_bytes(t2d.tensor) if isinstance(t2d, Stored) else None
    reading = read_d2t(values, vocab_size, hot)
    form, hot_ids = reading.form, reading.hot_ids
    if job.options.d2t_form is not None:
        form = Form(job.options.d2t_form)
        hot_ids = tuple(values) if form is Form.ABSOLUTE else tuple(place + value for place, value in enumerate(values))
    if form is Form.AMBIGUOUS:
        raise AdaptError(
            "d2t makes sense as offsets and as target ids, and there is no t2d to decide; "
            "pass --d2t-form offset or absolute, as its trainer wrote it"
        )
    faults = find_faults(hot_ids, vocab_size)
    if len(faults):
        place = (*faults.outside, *faults.repeated)[0]
        raise AdaptError(
            f"d2t, read as {form}: draft id {place} maps to {hot_ids[place]}, outside {vocab_size} or taken already; "
            "get it from the drafter's source again"
        )
    if hot is not None and hot != to_t2d(hot_ids, vocab_size):
        raise AdaptError("d2t and t2d mark different ids; take both from one source")
    if form is Form.OFFSET and stored.dtype == "I64":
        return draft.noting("d2t read as offsets, kept")
    read = "target ids" if form is Form.ABSOLUTE else f"offsets of {stored.dtype}"
    return draft.with_tensors(f"d2t read as {read}, written as int64 offsets", {"d2t": int64(to_offsets(hot_ids))})


def cover_special_tokens(draft: Draft, job: Job) -> Draft:
    """Missing ends and markers take the places of the rarest ids; their rows of lm_head are the target's.

    Ids are then sorted anew, as trainers write them. Raises AdaptError where tokens are missing and nothing says which
    ids are rare.
    """
    d2t, target, vocab_size = draft.tensors.get("d2t"), job.target, draft.size("vocab_size")
    given = None if job.options.counts is None else read_counts(job.options.counts, vocab_size)
    if d2t is None:
        if given is not None or job.options.keep_vocabulary:
            option = "--keep-vocabulary" if given is None else "--counts"
            raise AdaptError(f"{option}: the drafter has no d2t, its vocabulary is whole; leave it out")
        return draft
    tokens = read_tokens(target.folder)
    wanted = wanted_tokens(tokens.special if tokens else {}, end_tokens(target.folder, target.text_config))
    values = read_ints(d2t.tensor) if isinstance(d2t, Stored) else _int64s(b"".join(d2t.chunks()))
    hot_ids = [place + value for place, value in enumerate(values)]
    missing = wanted.missing(hot_ids)
    if not missing.ids:
        unused = "" if given is None else "; the counts were not needed"
        return draft.noting(f"all {len(wanted.ids)} special tokens are in the draft vocabulary{unused}")
    told = ", ".join(f"{text} ({token})" for text, token in {**missing.always, **missing.sometimes}.items())
    if job.options.keep_vocabulary:
        return draft.noting(f"outside the draft vocabulary, kept so as asked: {told}")
    counts = _counts(job, told, vocab_size) if given is None else given
    swapped = swap_ids(hot_ids, wanted.ids, counts)
    head, lent = _head(draft, job), target.head
    if (head.dtype, head.shape[1:]) != (lent.dtype, lent.shape[1:]):
        raise AdaptError(
            f"lm_head is {head.dtype} {list(head.shape)}, the target's head {lent.dtype} {list(lent.shape)}: their "
            f"rows do not go together; first run {job.command(f'eagle --dtype {lent.dtype.lower()}')}, then adapt that "
            "folder, or pass --keep-vocabulary"
        )
    rows = {token: (head, place) for place, token in enumerate(hot_ids) if token not in swapped}
    rows |= {token: (lent, token) for token in swapped.values()}
    ids = sorted(rows)
    return draft.with_tensors(
        f"special tokens swapped into the draft vocabulary for the rarest ids: {told} for "
        f"{', '.join(str(token) for token in swapped)}; their rows of lm_head are the target's own, "
        "untrained here; draft ids sorted anew",
        {
            "lm_head.weight": Rows(tuple(rows[token] for token in ids)),
            "d2t": int64(to_offsets(ids)),
            "t2d": booleans(to_t2d(ids, vocab_size)),
        },
    )


def _counts(job: Job, missing: str, vocab_size: int) -> dict[int, int]:
    for name in COUNTS_FILES:
        if (job.source.folder / name).is_file():
            return read_counts(str(job.source.folder / name), vocab_size)
    raise AdaptError(
        f"outside the draft vocabulary: {missing}; pass --counts FILE (JSON, id: count) to swap the rarest ids for "
        "them, --counts rank to take high ids for rare, or --keep-vocabulary to leave them out"
    )


def _head(draft: Draft, job: Job) -> Tensor:
    head = draft.tensors.get("lm_head.weight")
    if not isinstance(head, Stored):
        raise AdaptError(
            f"lm_head is not stored, its rows cannot be swapped; first run {job.command('eagle --lend-lm-head')}, "
            "then adapt that folder"
        )
    return head.tensor


def _int64s(data: bytes) -> list[int]:
    return [int.from_bytes(data[place : place + 8], "little", signed=True) for place in range(0, len(data), 8)]
