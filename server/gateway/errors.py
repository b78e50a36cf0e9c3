"""Every way a request can fail, and the one place that turns it into an OpenAI error.

GatewayError
├── RejectedError             the engine is never asked
│   ├── InvalidRequestError   400
│   ├── UnauthorizedError     401
│   ├── ForbiddenError        403
│   ├── ModelNotFoundError    404
│   ├── UnknownPathError      404
│   ├── WrongMethodError      405
│   ├── BodyTooLargeError     413
│   ├── BodyEncodingError     415
│   ├── RateLimitedError      429, Retry-After
│   ├── NoCapacityError       503, Retry-After
│   └── NotReadyError         503, Retry-After
└── UpstreamError             the engine failed
    ├── UnreachableError      503, Retry-After
    ├── ClosedError           502, or an error frame in an open stream
    ├── AbortedError          502, or an error frame in an open stream
    └── UpstreamTimeoutError  504, or an error frame in an open stream
"""

from typing import Any, ClassVar

import orjson

Headers = list[tuple[bytes, bytes]]


class GatewayError(Exception):
    """A failure that the client is told of.

    `kind` is a metric label: a word from a fixed set, never text from a request.
    """

    status: ClassVar[int] = 500
    error_type: ClassVar[str] = "server_error"

    def __init__(self, message: str, *, kind: str, code: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.code = code
        self.param = param

    def body(self) -> bytes:
        """The JSON body, as OpenAI writes it."""
        return orjson.dumps(error_object(self.message, self.error_type, self.param, self.code))

    def frame(self) -> bytes:
        """The same as one server-sent event, for a stream whose status has gone out."""
        return b"data: " + self.body() + b"\n\n"

    def headers(self) -> Headers:
        return []


class RejectedError(GatewayError):
    error_type = "invalid_request_error"


class InvalidRequestError(RejectedError):
    """A body that the engine could not serve; `param` is the field's path, such as messages[1].content[0].type."""

    status = 400

    def __init__(self, message: str, param: str | None, code: str = "invalid_value") -> None:
        super().__init__(message, kind="invalid_request", code=code, param=param)


class UnauthorizedError(RejectedError):
    status = 401
    error_type = "authentication_error"

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message, kind="unauthorized", code=code)

    def headers(self) -> Headers:
        return [(b"www-authenticate", b"Bearer")]


class ForbiddenError(RejectedError):
    status = 403
    error_type = "permission_error"

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="forbidden", code="permission_denied")


class ModelNotFoundError(RejectedError):
    status = 404

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="model_not_found", code="model_not_found", param="model")


class UnknownPathError(RejectedError):
    status = 404

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="unknown_path", code="unknown_url")


class WrongMethodError(RejectedError):
    status = 405

    def __init__(self, message: str, allowed: str) -> None:
        super().__init__(message, kind="wrong_method", code="method_not_allowed")
        self.allowed = allowed

    def headers(self) -> Headers:
        return [(b"allow", self.allowed.encode())]


class BodyTooLargeError(RejectedError):
    status = 413

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="body_too_large", code="request_too_large")

    def headers(self) -> Headers:
        # The rest of the body is still on its way; the connection can't serve another request before it is read.
        return [(b"connection", b"close")]


class BodyEncodingError(RejectedError):
    status = 415

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="body_encoding", code="unsupported_content_encoding")


class _LaterError(RejectedError):
    """The same request may be served later."""

    def __init__(self, message: str, kind: str, code: str, retry_after_s: int) -> None:
        super().__init__(message, kind=kind, code=code)
        self.retry_after_s = retry_after_s

    def headers(self) -> Headers:
        return [(b"retry-after", str(self.retry_after_s).encode())]


class RateLimitedError(_LaterError):
    status = 429
    error_type = "rate_limit_error"

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message, "key_limit", "rate_limit_exceeded", retry_after_s)


class NoCapacityError(_LaterError):
    """`kind` is queue_full or queue_timeout."""

    status = 503
    error_type = "server_error"

    def __init__(self, message: str, kind: str, retry_after_s: int) -> None:
        super().__init__(message, kind, "no_capacity", retry_after_s)


class NotReadyError(_LaterError):
    status = 503
    error_type = "server_error"

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message, "not_ready", "engine_not_ready", retry_after_s)


class UpstreamError(GatewayError):
    """The engine failed; `kind` is the label of upstream_errors_total.

    `fails_over`: another arm may be asked, as long as the client has nothing.
    """

    fails_over: ClassVar[bool] = False


class UnreachableError(UpstreamError):
    status = 503
    fails_over = True

    def __init__(self, message: str, kind: str, retry_after_s: int) -> None:
        super().__init__(message, kind=kind, code="engine_unreachable")
        self.retry_after_s = retry_after_s

    def headers(self) -> Headers:
        return [(b"retry-after", str(self.retry_after_s).encode())]


class ClosedError(UpstreamError):
    status = 502
    fails_over = True

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message, kind=kind, code="engine_closed_connection")


class AbortedError(UpstreamError):
    """The engine gave the request up, which it tells as a finish reason of its own."""

    status = 502

    def __init__(self) -> None:
        super().__init__("The engine aborted the request. Its log says why.", kind="aborted", code="engine_aborted")


class UpstreamTimeoutError(UpstreamError):
    status = 504

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message, kind=kind, code="engine_timeout")

    def headers(self) -> Headers:
        # The openai client retries a 5xx twice; a request that took minutes to fail would be queued again.
        return [(b"x-should-retry", b"false")]


class StoppingError(GatewayError):
    status = 503

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="stopping", code="gateway_stopping")


def error_object(message: str, error_type: str, param: str | None, code: str | None) -> dict[str, Any]:
    return {"error": {"message": message, "type": error_type, "param": param, "code": code}}
