"""What is known of one HTTP request while it is answered; its log line at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, cast

from starlette.requests import Request

from serving.errors import CanopyError, RequestError

_KEY = "canopy.record"


@dataclass(slots=True)
class RequestRecord:
    """`status` is what was sent, or 499 when the client left first. Routes fill `details` and `error`."""

    request_id: str
    started: float = field(default_factory=perf_counter)
    status: int = 0
    error: CanopyError | None = None
    details: Callable[[], dict[str, Any]] = dict

    @property
    def response_started(self) -> bool:
        return self.status != 0

    def attach(self, scope: Any) -> None:
        scope[_KEY] = self

    @staticmethod
    def of(request: Request) -> RequestRecord:
        return cast(RequestRecord, request.scope[_KEY])

    def log_fields(self) -> dict[str, Any]:
        """Numbers, codes and field names; messages may quote the client's words and stay out."""
        fields = {
            "status": self.status,
            "duration_s": round(perf_counter() - self.started, 4),
            **self.details(),
        }
        if self.error is not None:
            fields["error"] = self.error.code
            fields["param"] = self.error.param if isinstance(self.error, RequestError) else None
        return fields
