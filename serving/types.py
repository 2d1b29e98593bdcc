"""What crosses every boundary: a request, the tokens that answer it, and why it ended."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class FinishReason(StrEnum):
    """Why a request ended. `stop` and `length` are OpenAI's; the others never reach a client as success."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to choose tokens. Validated at the router; the engine only asserts.

    temperature 0 is greedy. top_k 0, top_p 1 and min_p 0 are off. `seed` is always set (the router draws
    one), so that a request is a function of its own fields and can be replayed.
    presence_penalty and frequency_penalty (-2 to 2, 0: off) are taken from the logits of tokens in the
    output, once or for every occurrence. repetition_penalty (1: off) divides the positive logits, and
    multiplies the negative ones, of tokens in prompt or output. logit_bias: (token, -100 to 100), each once.
    `stop_token_ids` includes the model's end-of-sequence ids, unless they are to be ignored. Before
    `min_tokens` tokens of output there is no stop token.
    logprobs: report log-probabilities, with those of so many of the likeliest tokens; None: report none.
    prompt_logprobs: report as many of the prompt's tokens. `num_speculative_tokens` caps the draft tokens
    verified per step for this request (0: plain decoding; None: no cap of its own).
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int = 0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    min_tokens: int = 0
    stop_token_ids: frozenset[int] = frozenset()
    logprobs: int | None = None
    prompt_logprobs: bool = False
    num_speculative_tokens: int | None = None

    def __post_init__(self) -> None:
        assert self.max_tokens >= 1
        assert self.temperature >= 0.0
        assert 0.0 < self.top_p <= 1.0
        assert self.top_k >= 0
        assert 0.0 <= self.min_p <= 1.0
        assert 0 <= self.seed < 2**64
        assert self.repetition_penalty > 0.0
        assert len({token for token, _ in self.logit_bias}) == len(self.logit_bias)
        assert 0 <= self.min_tokens <= self.max_tokens
        assert self.logprobs is None or self.logprobs >= 0
        assert self.logprobs is not None or not self.prompt_logprobs

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One completion to generate.

    prompt_ids and output_ids stay apart: a replayed request has both, and max_tokens, penalties and
    noise count from the boundary. `choice_index` is the i-th of `n` completions of the same prompt.
    Computed prefixes are shared only among requests of the same `cache_salt`. `fingerprint`: of the model
    that began it, which alone may go on; None: any. `priority`: 0 or 1, which yields to 0. Requests of one
    `cache_key` are best sent to the same verifier; None: those that begin with the same tokens are.
    `tokenizer`: ModelCard.tokenizer of the model that the ids are for, which alone may read them; None: any.
    """

    request_id: str
    prompt_ids: tuple[int, ...]
    params: SamplingParams
    choice_index: int = 0
    output_ids: tuple[int, ...] = ()
    cache_salt: str | None = None
    fingerprint: str | None = None
    priority: int = 0
    cache_key: str | None = None
    tokenizer: str | None = None

    def __post_init__(self) -> None:
        assert self.prompt_ids
        assert len(self.output_ids) < self.params.max_tokens
        assert self.priority in (0, 1)


@dataclass(slots=True)
class SpeculationStats:
    """Counts of one request (or a sum of many). tau = committed tokens per sequence and decode step.

    accepted_per_position[d]: how often a draft token at tree depth d + 1 was accepted.
    offered_per_position[d]: how often there were draft tokens at that depth below what had been accepted: no
    others can be right.
    """

    steps: int = 0
    committed_tokens: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    accepted_per_position: list[int] = field(default_factory=list)
    offered_per_position: list[int] = field(default_factory=list)

    @property
    def tau(self) -> float:
        """0.0 when there was no decode step."""
        return self.committed_tokens / self.steps if self.steps else 0.0

    def accepted_at(self, depth: int) -> int:
        """How often a draft token at `depth` + 1 was accepted."""
        counts = self.accepted_per_position
        return counts[depth] if depth < len(counts) else 0

    def record(self, drafted: int, accepted: int, committed: int, offered: int) -> None:
        """Count one decode step of one sequence. offered: depths at which its path met draft tokens."""
        assert offered >= accepted
        self.steps += 1
        self.committed_tokens += committed
        self.draft_tokens += drafted
        self.accepted_tokens += accepted
        _add_counts(self.accepted_per_position, [1] * accepted)
        _add_counts(self.offered_per_position, [1] * offered)

    def add(self, other: SpeculationStats) -> None:
        self.steps += other.steps
        self.committed_tokens += other.committed_tokens
        self.draft_tokens += other.draft_tokens
        self.accepted_tokens += other.accepted_tokens
        _add_counts(self.accepted_per_position, other.accepted_per_position)
        _add_counts(self.offered_per_position, other.offered_per_position)


def _add_counts(counts: list[int], more: list[int]) -> None:
    counts.extend([0] * (len(more) - len(counts)))
    for depth, count in enumerate(more):
        counts[depth] += count


class TokenLogprobs(NamedTuple):
    """Natural log-probabilities of the model itself, before temperature, penalties or bias.

    logprob: of the token that was said. likeliest: (token, log-probability), falling, the lower id first on
    ties; whether or not they include the token that was said.
    """

    logprob: float
    likeliest: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class TokenDelta:
    """New tokens of one request. The last delta carries `finish_reason` and is sent exactly once.

    `stats` are the request's counts so far: a client that stops early still has them. `cached_tokens` of its
    prompt were in the prefix cache when it started; the same in every delta.

    `error` is set with FinishReason.ERROR only: one sentence for the client.
    logprobs: one per token where they were asked for, else none. prompt_logprobs: one per token of the prompt
    but the first, in the delta that has the first token; a replayed request's prompt was reported before.
    fingerprint: of the model that made them; set by its verifier.
    """

    request_id: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason | None = None
    error: str | None = None
    stats: SpeculationStats | None = None
    cached_tokens: int = 0
    logprobs: tuple[TokenLogprobs, ...] = ()
    prompt_logprobs: tuple[TokenLogprobs, ...] = ()
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        assert len(self.logprobs) in (0, len(self.token_ids))
        assert (self.error is not None) == (self.finish_reason is FinishReason.ERROR)

    def merged(self, later: TokenDelta) -> TokenDelta:
        """This delta followed by `later` as one (a slow consumer coalesces)."""
        assert self.finish_reason is None
        return TokenDelta(
            self.request_id,
            self.token_ids + later.token_ids,
            later.finish_reason,
            later.error,
            later.stats,
            later.cached_tokens,
            self.logprobs + later.logprobs,
            self.prompt_logprobs + later.prompt_logprobs,
            later.fingerprint,
        )


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    """How to sample where a request does not say: the model's own recommendation. As in SamplingParams."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What a router must know of the model it fronts; a verifier hands it out.

    `tokenizer_json` is the file's content, so routers need no access to the model's source.
    `fingerprint` changes with the weights, dtype or tensor-parallel size: only equal ones may continue each
    other's requests.
    """

    name: str
    fingerprint: str
    max_model_len: int
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    tokenizer_json: bytes = field(repr=False)
    chat_template: str | None = field(repr=False)
    bos_token: str | None = None
    eos_token: str | None = None
    created: int = 0
    sampling: SamplingDefaults = SamplingDefaults()

    @property
    def tokenizer(self) -> str:
        """16 hexadecimal digits: equal where text becomes the same tokens, and ends with the same."""
        digest = hashlib.sha256(self.tokenizer_json)
        digest.update(repr((self.chat_template, self.bos_token, self.eos_token, self.eos_token_ids)).encode())
        return digest.hexdigest()[:16]
