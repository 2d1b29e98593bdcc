"""One JSON object per line on stderr."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import logging
from serving.logs import configure_logging, request_id

configure_logging("DEBUG")
configure_logging("INFO")
logger = logging.getLogger("serving.part")
logger.debug("not this")
logger.info("one\\ntwo", extra={"fields": {"tokens": 3, "name": "ü"}})
request_id.set("r-1")
try:
    1 / 0
except ZeroDivisionError:
    logger.exception("failed %s", "here")
"""


def test_lines() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    first, second = map(json.loads, done.stderr.splitlines())
    time = first.pop("time")
    assert time.endswith("+00:00")
    assert first == {
        "level": "INFO",
        "logger": "serving.part",
        "message": "one\ntwo",
        "tokens": 3,
        "name": "ü",
    }
    assert (second["level"], second["message"], second["request_id"]) == ("ERROR", "failed here", "r-1")
    assert "ZeroDivisionError" in second["exception"]
