"""One JSON object per line on stderr. Prompts and outputs are never logged."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The client's request being worked on; every line logged meanwhile carries it."""


class JsonFormatter(logging.Formatter):
    """`extra={"fields": {...}}` of a logging call becomes members of the object."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": time,
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (current := request_id.get()) is not None:
            line["request_id"] = current
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def configure_logging(level: str) -> None:
    """Send this package's loggers to stderr. Repeated calls leave one handler, with the latest level."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    package = logging.getLogger("serving")
    package.handlers[:] = [handler]
    package.setLevel(level)
    package.propagate = False
