"""What the head's confidence promises, and what comes true, by depth."""

from __future__ import annotations

from argparse import Namespace

from benchmarks.ablation.options import Options
from benchmarks.ablation.trees import tree_config
from benchmarks.calibration import measure as measured
from benchmarks.calibration import rows_of
from benchmarks.report import Row

CONCURRENCY = 4  # confidences do not depend on it


def measure(options: Options) -> list[Row]:
    """Greedy. Trees are as large as they get here: what is unlikely is verified too."""
    asked = Namespace(
        questions=options.questions,
        tasks=",".join(options.tasks),
        limit=options.limit,
        max_tokens=options.max_tokens,
        temperatures=[0.0],
        concurrency=CONCURRENCY,
    )
    return rows_of(measured(tree_config(max(options.beam), options), asked), CONCURRENCY)
