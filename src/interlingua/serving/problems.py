"""Errors as HTTP responses: one JSON shape, `{"detail": {"error", "message", "path", "remedy"}}`.

It is the shape that the LLM Canvas server publishes, with path and remedy added; `error` is a code for programs,
`message` a sentence for people.
"""

from typing import Any

from aiohttp import web

from ..sessions.store import SessionBusy, SessionDamaged, SessionError, SessionNotFound
from ..values import jsontext
from ..values.errors import DialectError, FormatError, InterlinguaError, ProviderError, TransportError

STATUS_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "timeout",
    409: "conflict",
    410: "gone",
    413: "too_large",
    415: "unsupported_type",
    422: "invalid",
    429: "rate_limited",
    500: "internal",
    502: "upstream",
    503: "stopping",
}


class HttpProblem(InterlinguaError):
    """A request that cannot be served: status, code, path and remedy."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        path: str | None = None,
        remedy: str | None = None,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code or STATUS_CODES.get(status, "error")
        self.path = path
        self.remedy = remedy
        self.headers = headers or {}
        self.more = more

    def body(self) -> dict[str, Any]:
        named = {"error": self.code, "message": str(self), "path": self.path, "remedy": self.remedy}
        return {"detail": {key: value for key, value in named.items() if value is not None} | self.more}

    def response(self) -> web.Response:
        return web.Response(
            body=jsontext.write(self.body()), status=self.status, content_type="application/json", headers=self.headers
        )


def problem_of(error: BaseException) -> HttpProblem:
    """Maps an exception to an HTTP error; an unexpected one is a 500 without its text."""
    match error:
        case HttpProblem():
            return error
        case SessionNotFound():
            return HttpProblem(404, str(error), remedy="reload the list of sessions")
        case SessionBusy():
            return HttpProblem(409, str(error), code="session_busy", remedy="wait, or continue in a linked fork")
        case SessionDamaged():
            return HttpProblem(
                409, str(error), code="session_damaged", remedy="repair it: interlingua doctor FILE -o NEW"
            )
        case SessionError():
            return HttpProblem(409, str(error), code="session_error")
        case FormatError() | DialectError():
            return HttpProblem(422, error.message, path=error.path, remedy="write it as the format has it")
        case ProviderError() | TransportError():
            return HttpProblem(502, str(error))
        case InterlinguaError():
            return HttpProblem(422, str(error))
        case web.HTTPRequestEntityTooLarge():
            return HttpProblem(413, "the body is too large", remedy="send less at once")
        case web.HTTPException():
            text = (error.reason or "").lower() or "refused"
            headers = {key: value for key, value in error.headers.items() if key in ("Allow", "Location")}
            return HttpProblem(error.status, text, headers=headers)
        case _:
            return HttpProblem(500, "the server failed; its log says why", remedy="try again; report it if it stays")
