"""docs/clients.md: every example prints what the page says it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from deployed import Deployed

pytestmark = pytest.mark.ray

PAGE = (Path(__file__).parents[2] / "docs" / "clients.md").read_text()
EXAMPLES = re.findall(r"```(python|bash)\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_has_its_examples() -> None:
    assert [language for language, _, _ in EXAMPLES] == ["python"] * 4 + ["bash"]


@pytest.mark.parametrize(
    ("language", "code", "printed"), EXAMPLES, ids=["whole", "streamed", "async", "langchain", "llm"]
)
def test_it_prints_what_the_page_says(
    default: Deployed, tmp_path: Path, language: str, code: str, printed: str
) -> None:
    here = code.replace("http://127.0.0.1:8000", default.url).replace("smollm2-135m-instruct", default.model)
    command = [sys.executable, "-c", here] if language == "python" else ["bash", "-euc", here]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, env={**os.environ, "HOME": str(tmp_path), "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
