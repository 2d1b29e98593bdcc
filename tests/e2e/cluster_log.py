"""What the cluster's processes logged, for the report of a test that failed because one of them did."""

from __future__ import annotations

import re
from pathlib import Path

LOGS = Path("/tmp/ray/session_latest/logs")
ALARMING = re.compile(r"error|exception|fatal|lost|died|kill|oom|exit|sig[a-z]{3,}", re.IGNORECASE)


def alarms(since: float, lines: int = 12) -> str:
    """The last alarming lines of every file written to after `since` (seconds since the epoch)."""
    files = [*LOGS.glob("serve/*.log"), *LOGS.glob("worker-*.err"), LOGS / "raylet.out"]
    files = [file for file in files if file.exists() and file.stat().st_mtime >= since]
    found = {file: _alarming_lines(file)[-lines:] for file in sorted(files, key=_age)}
    return "\n".join(f"{file.name}:\n" + "\n".join(said) for file, said in found.items() if said)


def _alarming_lines(file: Path) -> list[str]:
    """With what follows an alarm directly: tracebacks are indented."""
    said: list[str] = []
    alarmed = False
    for line in file.read_text(errors="replace").splitlines():
        alarmed = bool(ALARMING.search(line)) or (alarmed and line.startswith((" ", "\t")))
        if alarmed:
            said.append(line[:300])
    return said


def _age(file: Path) -> float:
    return -file.stat().st_mtime
