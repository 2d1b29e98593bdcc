"""What the papers report, from their tables.

EAGLE-2: Li et al., EMNLP 2024, arXiv 2406.16858v2. EAGLE-3: Li et al., NeurIPS 2025, arXiv 2503.01840.
"""

from __future__ import annotations

from typing import NamedTuple

TASKS = {
    "mt_bench": "MT-bench",
    "humaneval": "HumanEval",
    "gsm8k": "GSM8K",
    "alpaca": "Alpaca",
    "cnn_dm": "CNN/DM",
    "natural_questions": "Natural Questions",
}


class Cell(NamedTuple):
    speedup: float
    tau: float


class Line(NamedTuple):
    """A row of a table. method: our name of it. cells: in the order of TASKS, as many as there are."""

    paper: str
    model: str
    method: str
    temperature: float
    name: str
    cells: tuple[Cell, ...]


def _cells(text: str) -> tuple[Cell, ...]:
    """ "2.90x 3.94 3.33x 4.29": speed-up and tau in turn."""
    numbers = [float(word.rstrip("x")) for word in text.split()]
    return tuple(Cell(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=True))


# EAGLE-2's Table 1 for Vicuna 7B, EAGLE-3's for LLaMA-Instruct 3.1 8B, which has no Natural Questions.
_TABLE = """
EAGLE-2 V7B prompt_lookup  0 PLD     1.61x 1.68 1.82x 1.87 1.82x 1.99 1.21x 1.31 2.53x 2.72 1.23x 1.44
EAGLE-2 V7B draft_model    0 SpS     1.82x 2.36 1.99x 2.61 1.71x 2.26 1.65x 2.21 1.81x 2.44 1.60x 2.16
EAGLE-2 V7B eagle1_static  0 EAGLE   2.90x 3.94 3.33x 4.29 3.01x 4.00 2.79x 3.89 2.33x 3.42 2.31x 3.21
EAGLE-2 V7B eagle2_dynamic 0 EAGLE-2 3.62x 4.98 3.95x 5.33 3.63x 4.97 3.46x 4.86 2.94x 4.12 2.76x 3.82
EAGLE-3 L8B eagle2_dynamic 0 EAGLE-2 3.16x 4.05 3.66x 4.71 3.39x 4.24 3.28x 4.12 2.65x 3.45
EAGLE-3 L8B eagle3         0 EAGLE-3 4.40x 6.13 4.85x 6.74 4.48x 6.23 4.82x 6.70 3.65x 5.34
EAGLE-2 V7B draft_model    1 SpS     1.50x 1.87 1.55x 1.95 1.53x 1.82 1.56x 1.85 1.63x 1.91 1.33x 1.72
EAGLE-2 V7B eagle1_static  1 EAGLE   2.13x 3.17 2.39x 3.43 2.34x 3.29 2.21x 3.30 2.08x 3.12 1.95x 2.86
EAGLE-2 V7B eagle2_dynamic 1 EAGLE-2 3.05x 4.28 3.33x 4.65 3.07x 4.49 3.08x 4.43 2.63x 3.76 2.48x 3.56
EAGLE-3 L8B eagle2_dynamic 1 EAGLE-2 2.44x 3.16 3.39x 4.39 2.86x 3.74 2.83x 3.65 2.44x 3.14
EAGLE-3 L8B eagle3         1 EAGLE-3 3.07x 4.24 4.13x 5.82 3.32x 4.59 3.90x 5.56 2.99x 4.39
"""
_MODELS = {"V7B": "Vicuna 7B", "L8B": "LLaMA-Instruct 3.1 8B"}


def _line(text: str) -> Line:
    paper, model, method, temperature, name, cells = text.split(maxsplit=5)
    return Line(paper, _MODELS[model], method, float(temperature), name, _cells(cells))


SPEEDUPS = tuple(map(_line, _TABLE.strip().splitlines()))

# EAGLE-3, Table 2: MT-bench and GSM8K.
ABLATION = {
    "EAGLE-2": _cells("3.16x 4.05 3.39x 4.24"),
    "+ remove fea con": _cells("3.82x 5.37 3.77x 5.22"),
    "+ fused features": _cells("4.40x 6.13 4.48x 6.23"),
}

# Throughput over plain decoding by batch size, MT-bench, LLaMA-Instruct 3.1 8B; chains, no trees.
SGLANG_SIZES = (2, 4, 8, 16, 24, 32, 48, 56, 64)  # EAGLE-3, Table 3: H100, chains of 3
SGLANG = {
    "EAGLE": (1.40, 1.38, 1.23, 1.02, 0.93, 0.94, 0.88, 0.99, 0.99),
    "EAGLE-3": (1.81, 1.82, 1.62, 1.48, 1.39, 1.32, 1.38, 1.34, 1.38),
}
VLLM_SIZES = (2, 4, 8, 16, 24, 32, 48, 56)  # EAGLE-3, Table 5: chains of 2
VLLM = {
    "EAGLE": (1.30, 1.25, 1.21, 1.10, 1.03, 0.93, 0.82, 0.71),
    "EAGLE-3": (1.75, 1.68, 1.58, 1.49, 1.42, 1.36, 1.21, 1.01),
}

# EAGLE-2, section 3.2: acceptance where confidence is below .05, and above .95.
LEAST_CONFIDENT, MOST_CONFIDENT = 0.04, 0.98
