"""A router process must come up without the libraries that cost seconds and hundreds of megabytes."""

from __future__ import annotations

import subprocess
import sys

PROBE = """
import sys
import serving.api.app, serving.router.deployment
print(*sorted({"torch", "transformers"} & set(sys.modules)))
"""


def test_router_imports_neither_torch_nor_transformers() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
