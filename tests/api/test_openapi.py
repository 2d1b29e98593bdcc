"""The service answers as its own OpenAPI document says, whatever is sent; requests come from the document."""

from __future__ import annotations

import pytest
import schemathesis
from http_harness import MODEL, ScriptedVerifier, config
from hypothesis import settings
from schemathesis import Case
from schemathesis.checks import CheckContext
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import positive_data_acceptance

from serving.api.app import create_app
from serving.router.service import Service

SERVICE = Service(config(max_choices=4), ScriptedVerifier())
DOCUMENT = schemathesis.openapi.from_asgi("/openapi.json", create_app(SERVICE))


@DOCUMENT.parametrize()
@settings(max_examples=25, derandomize=True)
def test_answers_are_as_documented(case: Case) -> None:
    ask(case)


@pytest.mark.slow
@DOCUMENT.parametrize()
@settings(max_examples=1500)
def test_answers_are_as_documented_at_length(case: Case) -> None:
    ask(case)


def ask(case: Case) -> None:
    """No 5xx; status, type, body and every event fit the document; what does not fit it is refused."""
    if isinstance(case.body, dict) and isinstance(case.body.get("model"), str):
        case.body["model"] = MODEL
        if case.body.get("timeout_s") and case.meta is not None and case.meta.generation.mode.is_positive:
            case.body["timeout_s"] = 60.0  # less is right to be answered 504
    # What a field may be can depend on the others, so not all that fits the document is accepted.
    case.call_and_validate(
        excluded_checks=[positive_data_acceptance], additional_checks=[refusals_name_a_field]
    )


def refusals_name_a_field(ctx: CheckContext, response: Response, case: Case) -> bool | None:
    if response.status_code == 400 and case.meta is not None and case.meta.generation.mode.is_positive:
        assert response.json()["error"]["param"], response.text
    return None
