"""What a client is told, in OpenAI's form."""

from __future__ import annotations

from typing import Any


class RequestError(Exception):
    """The request cannot be answered. `param` names the field, `status` is HTTP's."""

    def __init__(self, message: str, param: str | None = None, *, status: int = 400, code: str) -> None:
        super().__init__(message)
        self.param = param
        self.status = status
        self.code = code

    def body(self) -> dict[str, Any]:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


def invalid(message: str, param: str) -> RequestError:
    return RequestError(message, param, code="invalid_value")
