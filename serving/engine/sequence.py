"""One request inside the engine: its tokens, and how far the caches have come with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from serving.engine.adjust import Adjuster
from serving.types import GenerationRequest, SpeculationStats, TokenLogprobs


class Status(Enum):
    WAITING = auto()  # holds no blocks; new, or preempted
    RUNNING = auto()
    FINISHED = auto()


@dataclass(slots=True, eq=False)
class Sequence:
    """State of one request; what is not a field is derived.

    token_ids   |  KV in the cache  |  to compute  | root |
                '-- num_computed ---'--- num_uncomputed ---'     (1 when decoding: the root alone)

    token_ids: prompt + output, a replayed request's earlier output included; grows by `append`.
    num_computed: positions whose KV is in the cache and committed; the engine advances it.
    num_drafted: positions the drafter holds; 0: not open there. The engine's, too.
    num_cached: positions found in the prefix cache when the sequence first ran; None: it was not looked for.
    block_table[i]: the cache block of positions i * block_size .. (i + 1) * block_size - 1.
    block_keys[i]: what that block is known by when it is full (the prefix cache's, made as needed).
    adjuster: what changes its logits before they are sampled; None: nothing does.
    prompt_logprobs: of the prompt's tokens from the second on, as far as they were computed and asked for.
    """

    seq_id: int
    request: GenerationRequest
    token_ids: list[int]
    num_computed: int = 0
    num_drafted: int = 0
    num_cached: int | None = None
    block_table: list[int] = field(default_factory=list)
    block_keys: list[bytes] = field(default_factory=list)
    status: Status = Status.WAITING
    stats: SpeculationStats = field(default_factory=SpeculationStats)
    adjuster: Adjuster | None = None
    prompt_logprobs: list[TokenLogprobs] = field(default_factory=list)

    @classmethod
    def create(cls, seq_id: int, request: GenerationRequest) -> Sequence:
        token_ids = [*request.prompt_ids, *request.output_ids]
        return cls(seq_id, request, token_ids, adjuster=Adjuster.of(request))

    @property
    def num_prompt(self) -> int:
        return len(self.request.prompt_ids)

    @property
    def num_output(self) -> int:
        """Tokens generated so far, those of a replayed request included."""
        return len(self.token_ids) - self.num_prompt

    @property
    def wants_trees(self) -> bool:
        return self.request.params.num_speculative_tokens != 0

    @property
    def num_uncomputed(self) -> int:
        """Rows it takes to get the next token: at least 1, for the last token is fed to draw the next."""
        return len(self.token_ids) - self.num_computed

    @property
    def cached_prompt(self) -> int:
        """Prompt tokens that did not have to be computed."""
        return min(self.num_cached or 0, self.num_prompt)

    @property
    def root(self) -> int:
        """The last token, from which a draft tree grows."""
        return self.token_ids[-1]

    @property
    def remaining(self) -> int:
        """Tokens that max_tokens still allows."""
        return self.request.params.max_tokens - self.num_output

    @property
    def is_decoding(self) -> bool:
        """Only the root is left to compute. True of a prompt's last token also: no draft is wrong there."""
        return self.num_uncomputed == 1

    @property
    def wants_prompt_logits(self) -> bool:
        """The logits of every row of the prompt, not of the last alone. Preemption asks for none twice."""
        if not self.request.params.prompt_logprobs or self.request.output_ids:
            return False
        return len(self.prompt_logprobs) < self.num_prompt - 1

    @property
    def finished(self) -> bool:
        return self.status is Status.FINISHED

    def append(self, tokens: Iterable[int]) -> None:
        """Commit tokens, already cut at a stop token or limit."""
        self.token_ids.extend(tokens)
        assert self.remaining >= 0

    def restart(self) -> None:
        """Forget what was computed, not what was said: the tokens so far become the prompt of a recompute."""
        self.num_computed = 0
        self.num_drafted = 0
        self.status = Status.WAITING
