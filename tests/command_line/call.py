"""`k25serve WORDS` inside this process: the console script's own entry point, without an interpreter's start."""

import contextlib
import os
import sys
from dataclasses import dataclass
from io import StringIO
from unittest.mock import patch

import pytest

from k25serve.server.main import main


@dataclass(frozen=True)
class Answer:
    """As subprocess.CompletedProcess has it."""

    returncode: int
    stdout: str
    stderr: str


def call(*words: object, columns: int = 200) -> Answer:
    """What the script says, and the code that it ends with. Not from inside an event loop where it starts one."""
    out, err = StringIO(), StringIO()
    with (
        patch.object(sys, "argv", ["k25serve", *map(str, words)]),
        patch.dict(os.environ, COLUMNS=str(columns)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    assert ended.value.code is None or isinstance(ended.value.code, int)
    return Answer(ended.value.code or 0, out.getvalue(), err.getvalue())
