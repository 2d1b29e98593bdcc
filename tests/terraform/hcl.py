"""Reading our own Terraform files: formatted, so a block ends at a brace in the column that it began in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TERRAFORM = ROOT / "terraform"
FILES = sorted(path for path in TERRAFORM.rglob("*.tf") if ".terraform" not in path.parts)
STACKS = sorted((TERRAFORM / "stacks").iterdir())


def blocks(text: str, head: str) -> Iterator[str]:
    """Blocks whose first line matches `head`, whatever they are nested in."""
    pattern = rf"^([ \t]*){head}[^\n]*\{{\n.*?^\1\}}"
    yield from (match.group(0) for match in re.finditer(pattern, text, re.MULTILINE | re.DOTALL))


def named(path: Path) -> str:
    return str(path.relative_to(TERRAFORM))
