"""Errors of the Kubernetes API, as one sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from kubernetes.dynamic.exceptions import ResourceNotFoundError
from urllib3.exceptions import HTTPError

from deploy.errors import DeployError


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn the client's errors into a DeployError that begins with `what`."""
    try:
        yield
    except ApiException as error:
        raise DeployError(f"{what}: {reason(error)}.") from error
    except ResourceNotFoundError as error:
        raise DeployError(
            f"{what}: the cluster does not know this kind; is its operator installed?"
        ) from error
    except ConfigException as error:
        raise DeployError(f"{what}: {str(error).rstrip('.')}.") from error
    except HTTPError as error:
        raise DeployError(f"{what}: the cluster cannot be reached ({_cause(error)}).") from error


def reason(error: ApiException) -> str:
    """Without a full stop."""
    match error.status:
        case 401:
            return "the cluster does not accept these credentials (log in again)"
        case 403:
            return f"not permitted: {_message(error)}"
        case 404:
            return f"not found: {_message(error)}"
        case 409:
            return f"in conflict: {_message(error)}"
        case None | 0:  # a stream that could not be opened
            return f"no stream ({str(error.reason).partition(' -+-+- ')[0]})"
        case status:
            return f"answered {status}: {_message(error)}"


def _message(error: ApiException) -> str:
    """What the API says in its Status object, on one line."""
    try:
        body = json.loads(error.body or "")
        message = body["message"]
    except (ValueError, TypeError, KeyError):
        message = error.reason
    return " ".join(str(message).split()).rstrip(".")


def _cause(error: HTTPError) -> str:
    return str(getattr(error, "reason", None) or error).rpartition(": ")[2]
