"""Least privilege, in what a reader of the files can see: nothing is `*` without a reason beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hcl import FILES, blocks, named

# A service's whole set of actions, or every resource there is.
EVERY_ACTION = re.compile(r'"(?:\*|[a-z0-9-]+:\*)"')
EVERY_RESOURCE = re.compile(r'resources\s*=\s*\["\*"\]')


def statements(path: Path) -> list[tuple[str, str]]:
    """(document, statement) of every statement in IAM documents."""
    documents = blocks(path.read_text(), r'data "aws_iam_policy_document"')
    return [
        (document, statement)
        for document in documents
        for statement in blocks(document, r"(?:statement|content)")
    ]


def is_of_a_key(document: str) -> bool:
    """In a key's policy the only resource is the key."""
    return 'aws_iam_policy_document" "key"' in document


@pytest.mark.parametrize("path", FILES, ids=named)
def test_no_star_without_a_reason(path: Path) -> None:
    for document, statement in statements(path):
        if 'effect    = "Deny"' in statement or is_of_a_key(document):
            continue
        actions = "".join(re.findall(r"actions\s*=\s*\[.*?\]", statement, re.DOTALL))
        assert not EVERY_ACTION.search(actions), statement
        if EVERY_RESOURCE.search(statement):
            skipped = "#checkov:skip=CKV_AWS_356:" in document
            assert skipped or re.search(r'\["\*"\] # \w', statement), statement


@pytest.mark.parametrize("path", FILES, ids=named)
def test_every_skipped_check_has_a_reason(path: Path) -> None:
    for line in re.findall(r"#checkov:skip=.*", path.read_text()):
        assert re.fullmatch(r"#checkov:skip=CKV2?_AWS_\d+:.{8,}", line), line


def test_who_may_assume_a_role_is_a_service_or_one_cluster() -> None:
    for path in FILES:
        for _, statement in statements(path):
            if '"sts:AssumeRole"' in statement:
                assert 'type        = "Service"' in statement, f"{path}: {statement}"
