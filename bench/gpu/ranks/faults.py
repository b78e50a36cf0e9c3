"""What a step or an arm may end in without costing those after it: a host with several GPUs is dear."""

from subprocess import SubprocessError

from aiohttp import ClientError

from k25serve.bench.trace.errors import TraceError
from k25serve.server.errors import UserError

FAULTS = (
    UserError,
    TraceError,
    ClientError,
    OSError,
    SubprocessError,
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
)
