"""Imports point one way, and heavy libraries stay where they belong (docs/architecture.md)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SERVING = ROOT / "serving"
MODULES = sorted(SERVING.rglob("*.py"))

LEAVES = {"types", "config", "errors", "logs", "metrics"}
# Which parts of `serving` each part may import. A part may always import itself.
ALLOWED = {
    "types": set(),
    "errors": set(),
    "config_values": {"errors"},
    "config": {"errors", "config_values"},
    "logs": set(),
    "metrics": {"types"},
    "emf": set(),
    "spec": {"types", "config", "errors"},
    "kernels": {"types", "config", "errors"},
    "models": {"types", "config", "errors", "kernels", "spec"},
    "drafting": {"types", "config", "errors", "kernels", "spec", "models"},
    "engine": {"types", "config", "errors", "metrics", "kernels", "spec", "models", "drafting"},
    "scaling": {"config"},
    "replicas": {*LEAVES, "kernels", "spec", "models", "drafting", "engine", "scaling"},
    "api": {*LEAVES, "router"},
    "router": {*LEAVES, "api"},
    "app": {*LEAVES, "replicas", "router"},
}
RAY_IS_USED_IN = {"replicas", "router", "app", "metrics"}
HEAVY = {"torch", "transformers"}
# Where a process must come up without them: they cost seconds and hundreds of megabytes.
NO_TORCH = {
    "types",
    "config",
    "config_values",
    "errors",
    "logs",
    "metrics",
    "emf",
    "api",
    "router",
    "scaling",
    "app",
}
NO_TORCH_FILES = {
    "spec/tree.py",
    "drafting/messages.py",
    "drafting/base.py",
    "drafting/prompt_lookup.py",
}


def part_of(path: Path) -> str:
    return path.relative_to(SERVING).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Dotted names a module imports, each with whether that happens when the module is imported."""
    tree = ast.parse(path.read_text())
    late = {id(node) for outer in ast.walk(tree) if _runs_later(outer) for node in ast.walk(outer)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) not in late
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            for alias in node.names:
                yield f"{node.module}.{alias.name}", id(node) not in late


def _runs_later(node: ast.AST) -> bool:
    """A function's body, and what only a type checker reads."""
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def relative(path: Path) -> str:
    return str(path.relative_to(SERVING))


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_imports_point_one_way(path: Path) -> None:
    part = part_of(path)
    if part == "__init__":
        assert not list(imports(path))
        return
    for name, _ in imports(path):
        package, _, rest = name.partition(".")
        assert package not in {"training", "benchmarks", "deploy", "tests"}, f"{part} imports {name}"
        if package == "serving":
            other = rest.split(".")[0]
            assert other == part or other in ALLOWED[part], f"{part} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_ray_stays_at_the_edge(path: Path) -> None:
    if part_of(path) not in RAY_IS_USED_IN:
        assert not [name for name, _ in imports(path) if name.split(".")[0] == "ray"]


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_torch_stays_out_of_light_processes(path: Path) -> None:
    if part_of(path) in NO_TORCH or relative(path) in NO_TORCH_FILES:
        assert not [name for name, _ in imports(path) if name.split(".")[0] in HEAVY]


def reachable_at_import(start: str) -> set[str]:
    """Modules of this project that importing `start` imports, itself included."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        path = _file(name)
        if name in seen or path is None:
            continue
        seen.add(name)
        for imported, at_import in imports(path):
            if at_import:
                waiting += [imported, imported.rpartition(".")[0]]
    return seen


def _file(module: str) -> Path | None:
    base = ROOT / Path(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


@pytest.mark.parametrize(
    "module",
    [
        "serving.app",
        "serving.router.deployment",
        "serving.replicas.verifier",
        "serving.replicas.drafter",
        "serving.replicas.drafter_worker",
    ],
)
def test_light_processes_import_no_torch(module: str) -> None:
    assert _file(module), f"{module} has moved"
    for name in reachable_at_import(module):
        path = _file(name)
        assert path is not None
        heavy = [
            i for i, at_import in imports(path) if at_import and i.split(".")[0] in {"torch", "transformers"}
        ]
        assert not heavy, f"{module} imports {name}, which imports {heavy}"
