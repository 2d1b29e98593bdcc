"""AWS clients, whose errors become one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from boto3.exceptions import Boto3Error
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
)

from deploy.errors import DeployError

_DENIED = {
    "403",
    "AccessDenied",
    "AccessDeniedException",
    "AuthorizationError",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidToken",
    "SignatureDoesNotMatch",
}
_MISSING = {
    "NoSuchBucket": "there is no such bucket",
    "NoSuchKey": "there is no such object",
    "404": "there is no such bucket or object",
    "AWS.SimpleQueueService.NonExistentQueue": "there is no such queue in this account and region",
    "QueueDoesNotExist": "there is no such queue in this account and region",
}
_KMS = "KMS."  # S3 passes the errors of KMS through with this prefix


def client(service: str, connections: int = 10) -> Any:
    """Credentials, region and endpoint come from the usual AWS configuration. Raises DeployError."""
    with explained(service.upper()):
        return boto3.Session().client(service, config=Config(max_pool_connections=connections))


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn the client's errors into a DeployError that begins with `what`."""
    try:
        yield
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise DeployError(
            f"{what}: no AWS credentials; set AWS_ACCESS_KEY_ID and its secret, a profile or a role."
        ) from error
    except NoRegionError as error:
        raise DeployError(f"{what}: no AWS region; set AWS_REGION or a profile's region.") from error
    except ProfileNotFound as error:
        raise DeployError(f"{what}: {str(error).rstrip('.')}.") from error
    except ClientError as error:
        raise DeployError(f"{what}: {_reason(error)}.") from error
    except (BotoCoreError, Boto3Error) as error:
        raise DeployError(f"{what}: {str(error).rstrip('.')}.") from error


def code_of(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code"))


def _reason(error: ClientError) -> str:
    code, operation = code_of(error), error.operation_name
    if code in _DENIED:
        return f"{operation} is denied ({code}); check the credentials and what they may do"
    if code in _MISSING:
        return _MISSING[code]
    message = str(error.response.get("Error", {}).get("Message", "")).rstrip(".")
    if code.startswith(_KMS):
        return f"the KMS key cannot be used ({message or code})"
    return f"{operation} was answered {code} ({message})"
