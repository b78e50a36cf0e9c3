"""Which form a row has, and its reader."""

from collections.abc import Callable
from typing import Any

from k25serve.drafters.training.data.bad_row import BadRow
from k25serve.drafters.training.data.conversation import Conversation
from k25serve.drafters.training.data.openai import read_openai
from k25serve.drafters.training.data.options import Format
from k25serve.drafters.training.data.perfectblend import read_perfectblend
from k25serve.drafters.training.data.sharegpt import read_sharegpt

READERS: dict[Format, Callable[[dict[str, Any]], Conversation]] = {
    Format.OPENAI: read_openai,
    Format.SHAREGPT: read_sharegpt,
    Format.PERFECTBLEND: read_perfectblend,
}


def read_row(row: Any, form: Format) -> tuple[Format, Conversation]:
    """The row's form and its conversation. Raises BadRow where it is none."""
    if not isinstance(row, dict):
        raise BadRow("no object", "row", row, "an object belongs there")
    form = recognised(row) if form is Format.AUTO else form
    return form, READERS[form](row)


def recognised(row: dict[str, Any]) -> Format:
    """From the keys alone. Raises BadRow where none of them is known."""
    if row.get("messages") is not None:
        return Format.OPENAI
    if row.get("conversations") is not None:
        return Format.PERFECTBLEND if row.get("source") else Format.SHAREGPT
    raise BadRow(
        "form", "row", ", ".join(map(str, row)) or "empty", "its keys should include messages or conversations"
    )
