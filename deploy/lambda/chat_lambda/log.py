"""JSON lines on standard output, which go to the log group. Prompts and answers are never logged."""

from __future__ import annotations

import json
import sys
import time


def log(message: str, **fields: object) -> None:
    line = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "message": message, **fields}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
