"""The function as Lambda starts it: its own process behind the runtime API, Bedrock and AWS on loopback."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import bedrock as bedrock_api
import boto3
import gateway as gateway_api
import pytest
from loopback_aws import aws_server

FUNCTION = Path(__file__).parents[2] / "deploy/lambda"
MODEL = "amazon.nova-micro-v1:0"
TABLE, SECRET, KEY = "responses", "chat/api-keys", "k-1234"

Ask = Callable[..., gateway_api.Reply]


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[str]:
    """The server's host:port."""
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def aws() -> Iterator[str]:
    """DynamoDB and Secrets Manager."""
    with aws_server() as url:
        yield url


@pytest.fixture
def environment(aws: str, bedrock_url: str, tmp_path: Path) -> dict[str, str]:
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ENDPOINT_URL": aws,
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": bedrock_url,
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "LAMBDA_TASK_ROOT": str(FUNCTION),
        "LAMBDA_RUNTIME_DIR": str(tmp_path),
        "CANOPY_MODEL_ID": MODEL,
        "CANOPY_CACHE_TABLE": TABLE,
        "CANOPY_CACHE_TTL_S": "60",
        "CANOPY_API_KEYS_SECRET": SECRET,
        "CANOPY_MAX_PROMPT_TOKENS": "100",
        "CANOPY_FORBIDDEN_PATTERNS": json.dumps([r"\bproject\s+x\b"]),
        "CANOPY_ALLOWED_ORIGINS": json.dumps(["https://chat.example.com"]),
    }


@pytest.fixture(scope="session")
def shared_bedrock() -> bedrock_api.Bedrock:
    return bedrock_api.Bedrock()


@pytest.fixture(scope="session")
def bedrock_address(shared_bedrock: bedrock_api.Bedrock) -> Iterator[str]:
    with running(bedrock_api.served(shared_bedrock)) as address:
        yield address


@pytest.fixture
def bedrock_url(bedrock_address: str) -> str:
    return f"http://{bedrock_address}"


@pytest.fixture
def bedrock(shared_bedrock: bedrock_api.Bedrock) -> bedrock_api.Bedrock:
    """As new: it says `Hello there` and holds nothing back."""
    fresh = bedrock_api.Bedrock()
    fresh.hold.set()
    shared_bedrock.__dict__.update(fresh.__dict__)
    return shared_bedrock


@pytest.fixture(scope="session")
def gateway() -> gateway_api.Gateway:
    return gateway_api.Gateway()


@pytest.fixture(scope="session")
def runtime_api(gateway: gateway_api.Gateway) -> Iterator[str]:
    with running(gateway_api.served(gateway)) as address:
        yield address


@pytest.fixture(scope="session")
def clients(aws: str) -> Callable[[str], Any]:
    """boto3's client of a service; making one takes longer than most tests."""
    session = boto3.Session(
        aws_access_key_id="key", aws_secret_access_key="secret", region_name="eu-central-1"
    )
    return functools.cache(lambda name: session.client(name, endpoint_url=aws))


@pytest.fixture(scope="session")
def _secret(clients: Callable[[str], Any]) -> None:
    clients("secretsmanager").create_secret(Name=SECRET, SecretString=f"other\n{KEY}\n")


@pytest.fixture
def account(_secret: None, clients: Callable[[str], Any]) -> Iterator[None]:
    """API keys, and an empty cache as terraform/modules/response-cache makes it."""
    dynamodb = clients("dynamodb")
    dynamodb.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[
            {"AttributeName": "request_hash", "KeyType": "HASH"},
            {"AttributeName": "created_at", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "request_hash", "AttributeType": "S"},
            {"AttributeName": "created_at", "AttributeType": "N"},
        ],
    )
    yield
    with suppress(dynamodb.exceptions.ResourceNotFoundException):
        dynamodb.delete_table(TableName=TABLE)


_started: list[subprocess.Popen[bytes]] = []


@pytest.fixture(scope="session", autouse=True)
def _stop_function() -> Iterator[None]:
    yield
    for process in _started:
        process.kill()
        process.wait()


@pytest.fixture
def ask(environment: dict[str, str], runtime_api: str, gateway: gateway_api.Gateway, account: None) -> Ask:
    """Sends a chat request, or whatever `event` says. The function is one process for all tests."""
    if not _started:
        variables = environment | {"AWS_LAMBDA_RUNTIME_API": runtime_api}
        _started.append(subprocess.Popen([FUNCTION / "bootstrap"], env=variables, cwd="/"))

    def send(
        body: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        raw: str | None = None,
        **event: Any,
    ) -> gateway_api.Reply:
        request = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}
        default = {
            "httpMethod": "POST",
            "path": "/v1/chat/completions",
            "headers": {"authorization": f"Bearer {KEY}"} | (headers or {}),
            "body": raw or json.dumps(request | (body or {})),
            "isBase64Encoded": False,
        }
        return gateway.send(default | event)

    return send


@pytest.fixture
def start() -> Callable[[dict[str, str]], int]:
    """Runs the function with these variables until it ends; returns its exit status."""
    return lambda variables: (
        subprocess.run([FUNCTION / "bootstrap"], env=variables, cwd="/", timeout=120).returncode
    )
