"""The page, from its parts."""

from __future__ import annotations

from pathlib import Path

from benchmarks.evidence import alpha, confidence, scaling, speedups, step_by_step, throughput, trees
from benchmarks.evidence.markdown import table
from benchmarks.evidence.results import Results
from benchmarks.evidence.section import Section
from benchmarks.evidence.trained import Trained
from benchmarks.figure import draw

FIGURES = "figures"
GREEDY, SAMPLED = 0.0, 1.0

HEADER = """\
# Evidence

Every table and figure of EAGLE-2 (arXiv 2406.16858) and EAGLE-3 (arXiv 2503.01840) beside ours. This page
is written by `python -m benchmarks evidence` from the JSON files in `benchmarks/results`, which hold command,
commit, machine and settings; nothing on it is typed in by hand but the papers' figures and the paragraphs
that begin with **Why**.

**What may be compared.** The papers draft for models of 7 to 70 billion parameters on GPUs, with heads that
learned from 68,000 conversations and more. Ours drafts for a model of 135 million parameters on two CPU
cores, with heads trained within the hour on what the model wrote itself, and there a verification of 16 rows
takes 1.5 times one of a single row. So levels of tau and speed-up are not the papers'. What can be compared
is the *order*: which part helps, what falls and what stays. Below each table it says whether that is the
same, and why where it is not."""

# What the page does not repeat, and why.
LEFT_OUT = (
    ("EAGLE-2, Table 2 (70B and 8B models)", "no such model fits here"),
    (
        "EAGLE-2, Figure 5 (acceptance by place in a static tree)",
        "acceptance by depth is in each result's JSON",
    ),
    ("EAGLE-2, Figures 3, 4, 7; EAGLE-3, Figures 3, 5, 6", "drawings of the methods"),
    ("EAGLE-3, Table 1, DeepSeek-R1-Distill and 70B rows", "no such model fits here"),
    (
        "EAGLE-3, Table 4 (SGLang at batch 1, tokens/s on H100)",
        "no GPU; *Beside other systems* has batch 1 here",
    ),
)


def write(results_folder: Path, path: Path) -> None:
    """The page, and the figures beside it. Raises BenchmarkError where a file is no report."""
    parts = sections(Results(results_folder))
    figures = path.parent / FIGURES
    figures.mkdir(exist_ok=True)
    for part in parts:
        for name, panels in part.figures.items():
            draw(panels, figures / name)
    path.write_text(page(parts))
    missing = [part.title for part in parts if not part.is_measured]
    print(f"{path}: {len(parts) - len(missing)} of {len(parts)} parts are measured")


def sections(results: Results) -> list[Section]:
    trained = Trained.of(results)
    return [
        *(speedups.section(results, temperature) for temperature in (GREEDY, SAMPLED)),
        trees.section(results),
        confidence.section(results),
        *step_by_step.sections(trained),
        scaling.section(trained),
        alpha.section(trained),
        *throughput.sections(results),
    ]


def page(parts: list[Section]) -> str:
    contents = [[f"[{part.title}](#{_anchor(part.title)})", _state(part)] for part in parts]
    left_out = [list(pair) for pair in LEFT_OUT]
    texts = [HEADER, table(["", "measured"], contents), *(part.text(FIGURES) for part in parts)]
    texts += ["## Not repeated here", table(["", "why"], left_out)]
    return "\n\n".join(texts) + "\n"


def _state(part: Section) -> str:
    return "yes" if part.is_measured else "no"


def _anchor(title: str) -> str:
    """GitHub's."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")
