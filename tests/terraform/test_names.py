"""What Terraform names in the code exists there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from chat_lambda.application import PATH as CHAT_PATH
from chat_lambda.settings import Settings
from fastapi import FastAPI
from hcl import FILES, STACKS, TERRAFORM, named

from serving import emf
from serving.api import probes

TEXTS = {path: path.read_text() for path in FILES}


def found(pattern: str) -> set[str]:
    return {match for text in TEXTS.values() for match in re.findall(pattern, text)}


def test_metrics_are_published() -> None:
    watched = found(r'"((?:vllm|canopy):[a-z_]+)"')
    assert watched
    assert watched <= emf.GAUGES | emf.COUNTERS | emf.DERIVED
    assert f'namespace = "{emf.NAMESPACE}"' in TEXTS[TERRAFORM / "stacks/medium/alarms.tf"]


def test_probes_are_routes() -> None:
    app = FastAPI()
    app.include_router(probes.router)
    paths = set(app.openapi()["paths"])
    assert found(r'health_path +=? *"([^"]+)"') == {"/health"} <= paths
    assert found(r"http://127\.0\.0\.1:\$\{local\.http_port\}(/\w+)") == {"/metrics"} <= paths


def test_modules_that_are_started_are_there() -> None:
    assert found(r'"python", "-m", "([a-z.]+)"') == {emf.__name__}


def test_the_function_gets_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that it reads, and nothing else."""
    text = TEXTS[TERRAFORM / "modules/chat-function/main.tf"]
    given = set(re.findall(r"^ +(CANOPY_[A-Z_]+) +=", text, re.MULTILINE))
    read: set[str] = set()

    class Recorder(dict[str, str]):
        def get(self, name: str, default: object = None) -> str:  # type: ignore[override]
            read.add(name)
            return "1" if name in ("CANOPY_CACHE_TTL_S", "CANOPY_MAX_PROMPT_TOKENS") else '["x"]'

    Settings.load(Recorder())
    assert given == read


def test_the_gateway_leads_to_the_function() -> None:
    text = TEXTS[TERRAFORM / "modules/rest-api/main.tf"]
    parts = re.findall(r'path_part +=? *"([^"]+)"', text)
    assert "/" + "/".join(parts) == CHAT_PATH
    assert f'{CHAT_PATH}"' in text


def test_the_cache_has_the_keys_that_the_function_writes() -> None:
    text = TEXTS[TERRAFORM / "modules/response-cache/main.tf"]
    written = (TERRAFORM.parent / "deploy/lambda/chat_lambda/cache.py").read_text()
    names = set(re.findall(r'(?:hash_key|range_key|attribute_name) +=? *"([^"]+)"', text))
    assert names == {"request_hash", "created_at", "expires_at"}
    assert all(f'"{name}":' in written for name in names)


@pytest.mark.parametrize("stack", STACKS, ids=lambda path: path.name)
def test_everything_of_a_stack_is_tagged(stack: Path) -> None:
    text = (stack / "versions.tf").read_text()
    assert re.search(r"default_tags \{\n\s+tags = local\.tags\n", text)


@pytest.mark.parametrize("path", FILES, ids=named)
def test_variables_and_outputs_are_documented(path: Path) -> None:
    text = TEXTS[path]
    for kind in ("variable", "output"):
        for name, body in re.findall(rf'^{kind} "(\w+)" \{{\n(.*?)^\}}', text, re.MULTILINE | re.DOTALL):
            assert re.search(r'^  description +=? *"[^"]{8,}', body, re.MULTILINE), f"{kind} {name}"
