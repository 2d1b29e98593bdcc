"""docs/operations.md: every alarm has its section, and whatever the page names exists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from charts import CHART, NODES, ROOT
from metric_names import NEIGHBOURS, RAY, service_metrics

from serving.config import ServeConfig
from serving.config_values import settings_of

PAGE = ROOT / "docs" / "operations.md"
TEXT = PAGE.read_text()
CODE = set(re.findall(r"`([^`\n]+)`", TEXT))
ALARMS = yaml.safe_load((CHART / "files" / "alarms.yaml").read_text())["alarms"]
FOLDERS = ("benchmarks", "deploy", "docs", "k8s", "serving", "terraform", "tests", "training")
OF_OTHERS = {"settings.interruptionQueue"}  # Karpenter's chart


def section(title: str) -> str:
    """What stands below a heading, up to the next one."""
    found = re.findall(rf"^#+ {re.escape(title)}\n(.+?)(?=^#|\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert len(found) == 1, title
    return str(found[0])


def slug(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("alarm", ALARMS, ids=lambda alarm: alarm["alert"])
def test_every_alarm_says_what_it_means_and_what_to_do(alarm: dict[str, Any]) -> None:
    text = section(alarm["alert"])
    assert text.strip().startswith(f"{alarm['severity'].capitalize()}. ")
    assert re.findall(r"^- \*\*(.+?)\*\*: ", text, re.MULTILINE) == ["Means", "Look at", "Do"]


def test_alarms_of_the_page_are_the_charts() -> None:
    named = set(re.findall(r"\bCanopy[A-Z]\w+", TEXT))
    assert named == {alarm["alert"] for alarm in ALARMS}


def rows_of(title: str) -> list[list[str]]:
    """Cells of the tables below a heading, without their heads."""
    lines = [line for line in section(title).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_every_panel_of_the_dashboard_is_explained() -> None:
    panels = json.loads((CHART / "files" / "dashboard.json").read_text())["panels"]
    explained: list[str] = []
    for panel in panels:
        if panel["type"] == "row":
            explained = [name for row in rows_of(panel["title"]) for name in row[0].split(", ")]
        else:
            assert panel["title"] in explained


def test_links_lead_somewhere() -> None:
    headings = {
        path: {slug(heading) for heading in re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)}
        for path in (PAGE, *ROOT.glob("*/**/*.md"))
        if ".venv" not in str(path)
    }
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        file, _, anchor = target.partition("#")
        path = (PAGE.parent / file).resolve() if file else PAGE
        assert path.exists(), target
        assert not anchor or anchor in headings[path], target


def test_paths_exist() -> None:
    named = {code for code in CODE if code.split("/")[0] in FOLDERS and "/" in code}
    assert len(named) > 30
    assert not {path for path in named if not (ROOT / path).exists()}


def test_metrics_exist() -> None:
    named = set(re.findall(r"\b(?:vllm|canopy):\w+|\b(?:ray|karpenter|kube|DCGM)_\w+", TEXT))
    assert named
    assert named <= {*service_metrics(), *RAY, *NEIGHBOURS}


def values_of(chart: Path) -> set[str]:
    def paths(value: object, path: str) -> Iterator[str]:
        yield path
        for name, inner in value.items() if isinstance(value, dict) else ():
            yield from paths(inner, f"{path}.{name}" if path else name)

    return set(paths(yaml.safe_load((chart / "values.yaml").read_text()), ""))


def test_settings_and_values_exist() -> None:
    """A dotted name is a setting of the service, a value of a chart, or a field of a stack's variable."""
    settings = {".".join(path) for path in settings_of(ServeConfig)}
    known = settings | {f"settings.{name}" for name in settings} | values_of(CHART) | values_of(NODES)
    for file in (ROOT / "terraform" / "stacks").glob("*/variables.tf"):
        for name, body in re.findall(r'^variable "(\w+)" \{\n(.*?)^\}', file.read_text(), re.M | re.S):
            known |= {f"{name}.{field}" for field in re.findall(r"(\w+) += \w+", body)}
    dotted = {code for code in CODE if re.fullmatch(r"[a-z]\w*(\.[A-Za-z][\w-]*)+", code)}
    assert len(dotted) > 30
    assert dotted - known == OF_OTHERS


def test_twenty_measures_each_with_a_place_or_the_word_that_there_is_none() -> None:
    rows = rows_of("What keeps the cost down")
    assert [row[0] for row in rows] == [str(number) for number in range(1, 21)]
    for _, measure, where, state in rows:
        assert "`" in where or "not yet" in state, measure
        assert re.search(r"not yet|done|of machines", state), measure
