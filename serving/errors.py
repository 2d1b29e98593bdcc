"""One exception tree. `status` is the HTTP status the router answers with; nothing else maps errors."""

from __future__ import annotations


class CanopyError(Exception):
    """Base of every error a caller can see."""

    status = 500
    code = "internal_error"
    retry_after_s: int | None = None
    """When a client may try again, where that is of use."""

    @property
    def kind(self) -> str:
        """OpenAI's `error.type`."""
        return "invalid_request_error" if 400 <= self.status < 500 else "server_error"


class RequestError(CanopyError):
    """The request is wrong. `param` names the field, in the client's own words."""

    status = 400
    code = "invalid_value"

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        if code is not None:
            self.code = code

    def __reduce__(self) -> tuple[type[RequestError], tuple[str, str | None, str]]:
        return type(self), (str(self), self.param, self.code)


class UnsupportedParameterError(RequestError):
    """A parameter we know of or not, but do not honour: said, never ignored."""

    code = "unsupported_parameter"


class ContextLengthError(RequestError):
    code = "context_length_exceeded"


class AuthenticationError(RequestError):
    status = 401
    code = "invalid_api_key"


class ModelNotFoundError(RequestError):
    status = 404
    code = "model_not_found"


class BodyTooLargeError(RequestError):
    status = 413
    code = "body_too_large"


class OverloadedError(CanopyError):
    """Not now: the queue is full."""

    status = 429
    code = "overloaded"
    retry_after_s = 1


class UnavailableError(CanopyError):
    """Nothing is ready to serve the request."""

    status = 503
    code = "unavailable"
    retry_after_s = 5


class VerifierLostError(UnavailableError):
    """The verifier died while it worked on the request. What it said before stands, and can be continued."""

    code = "verifier_lost"


class MigratedError(UnavailableError):
    """The verifier hands the request back, or does not take it: it is to go. What it said before stands."""

    code = "migrated"


class ModelReplacedError(UnavailableError):
    """The verifier has another model than the one that the request is for, or was begun by."""

    code = "model_replaced"
    retry_after_s = 1


class TokenizerReplacedError(ModelReplacedError):
    """Not even the request's tokens are the verifier's model's."""


class RankLostError(CanopyError):
    """A rank of this verifier no longer answers: the verifier as a whole is lost."""

    code = "rank_lost"


class RequestTimeoutError(CanopyError):
    """The request took longer than its client, or the configuration, allows."""

    status = 504
    code = "timeout"


class GenerationError(CanopyError):
    """The engine gave this request up (NaN logits, a lost replica); the others go on."""

    code = "generation_failed"


class ModelLoadError(CanopyError):
    """A model or head cannot be loaded. The message is one sentence that says what to do."""

    code = "model_load_failed"


class ConfigError(CanopyError):
    """The configuration contradicts itself or the model."""

    code = "bad_configuration"
