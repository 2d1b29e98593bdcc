"""Ray's exceptions become the service's own before anyone above sees them."""

from __future__ import annotations

import frames
import pytest
from ray.exceptions import ActorDiedError, RayTaskError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError

from serving.errors import (
    CanopyError,
    ContextLengthError,
    MigratedError,
    OverloadedError,
    UnavailableError,
    VerifierLostError,
)
from serving.router.deployment import Router, _callers_errors


def wrapped(cause: Exception) -> Exception:
    """As a remote call raises it: an instance of the cause's class too, without its attributes."""
    return RayTaskError("generate", "traceback", cause).as_instanceof_cause()


def translated(error: Exception) -> Exception:
    with pytest.raises(Exception) as caught, _callers_errors():  # noqa: PT011 - any
        raise error
    return caught.value


def test_our_own_error_comes_out_of_its_wrapping() -> None:
    error = translated(wrapped(ContextLengthError("too long", "messages")))
    assert type(error) is ContextLengthError
    assert (str(error), error.param) == ("too long", "messages")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ActorDiedError(), VerifierLostError),
        (wrapped(ActorDiedError()), VerifierLostError),
        (DeploymentUnavailableError(None), UnavailableError),
        (BackPressureError(num_queued_requests=1, max_queued_requests=1), OverloadedError),
    ],
)
def test_losses_and_full_queues(error: Exception, expected: type[CanopyError]) -> None:
    assert type(translated(error)) is expected


def test_a_bug_stays_a_bug() -> None:
    assert not isinstance(translated(wrapped(KeyError("x"))), CanopyError)


@pytest.mark.parametrize("cause", [MigratedError, ActorDiedError, KeyError])
async def test_a_failed_call_is_forgotten(cause: type[Exception]) -> None:
    """Its frames hold references to objects of a verifier, which an idle router would keep."""

    async def call(held: frames.Held) -> None:
        with _callers_errors():
            raise wrapped(cause())

    assert not await frames.are_left_by(call)


def test_it_is_a_deployment() -> None:
    assert Router.name == "Router"
