"""What a client is told when its request cannot be served, before any wire shape is put on it."""


class Refusal(Exception):
    """An answer other than a reply: HTTP status, what was found, what was expected and what to do."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        kind: str,
        code: str | None = None,
        param: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.kind = kind
        """OpenAI's error type."""
        self.code = code
        self.param = param
        self.retry_after_s = retry_after_s

    @classmethod
    def invalid(cls, message: str, *, param: str | None = None, code: str | None = None) -> "Refusal":
        """400: the request itself is wrong."""
        return cls(message, status=400, kind="invalid_request_error", code=code, param=param)

    @classmethod
    def not_found(cls, message: str, *, code: str) -> "Refusal":
        """404: what the request names is not there for this caller."""
        return cls(message, status=404, kind="invalid_request_error", code=code)

    @classmethod
    def busy(cls, message: str, *, code: str, retry_after_s: int = 5) -> "Refusal":
        """503: the same request may well succeed later."""
        return cls(message, status=503, kind="server_error", code=code, retry_after_s=retry_after_s)

    @classmethod
    def fault(cls) -> "Refusal":
        """500: a fault of the collector's own; its log has the traceback."""
        message = "the collector failed on this request, which is no fault of the request's; its log says why"
        return cls(message, status=500, kind="server_error", code="internal_error")

    @classmethod
    def upstream(cls, message: str, *, code: str) -> "Refusal":
        """502: the engine answered with something that is not a reply."""
        return cls(message, status=502, kind="server_error", code=code)
