"""Every setting, in one place. Names people know from vLLM keep their meaning.

A configuration comes from a Serve config file (`args:` of the application), from `serve run serving.app:build
key=value`, or from environment variables `CANOPY_<SECTION>_<FIELD>` (`CANOPY_MODEL` for a top-level field).
"""

from __future__ import annotations

import os
from datetime import time
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from serving.config_values import (
    explained,
    from_environment,
    parse_bytes,
    parse_clock,
    parse_list,
    parse_number,
    put,
)

DEFAULT = "default"
"""The model that is served when none is named, and its head."""

Bytes = Annotated[int, BeforeValidator(parse_bytes)]
Texts = Annotated[tuple[str, ...], BeforeValidator(parse_list)]
TreePaths = tuple[tuple[int, ...], ...]
Schedule = tuple[tuple[int, int, int], ...]
Home = Annotated[Path, AfterValidator(Path.expanduser)]
Clock = Annotated[time, BeforeValidator(parse_clock)]
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEK: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EngineConfig(_Section):
    """The step loop of one verifier replica."""

    max_model_len: int | None = Field(
        None, ge=2, description="Context limit in tokens; None: the model's own."
    )
    max_num_seqs: int = Field(64, ge=1, description="Sequences that decode at the same time.")
    max_num_batched_tokens: int = Field(
        512, ge=16, description="Rows of one forward: draft trees + prefill chunks."
    )
    block_size: Annotated[Literal[16, 32, 64], BeforeValidator(parse_number)] = Field(
        16, description="Tokens per block of the paged KV cache."
    )
    enable_prefix_caching: bool = Field(
        True, description="Keep the KV of past requests for those that begin with the same tokens."
    )
    kv_cache_memory: Bytes = Field(2**29, ge=2**16, description="Bytes of KV cache on CPU, of each rank.")
    gpu_memory_utilization: float = Field(
        0.9, gt=0, le=1, description="Share of a GPU's memory the engine may use."
    )
    tensor_parallel_size: int = Field(
        1,
        ge=1,
        le=64,
        description="Ranks that share a verifier's model, a process each. They must divide the attention "
        "heads, and divide the key/value heads or be a multiple of them.",
    )
    device: Literal["auto", "cpu", "cuda"] = "auto"
    num_threads: int | None = Field(
        None, ge=1, description="Torch threads on CPU of a process; None: the machine's cores over its ranks."
    )
    attention_backend: Literal["auto", "native", "torch"] = Field(
        "auto",
        description="`native`: compiled CPU kernels; `torch`: runs anywhere; `auto`: native where it can and "
        "is faster (on x86: with AVX-512).",
    )

    deterministic: bool = Field(
        False,
        description="Where torch computes, make a row's bits the same in any company, at a price; the CPU "
        "kernels always do.",
    )

    @property
    def threads(self) -> int:
        """CPU threads of a process that computes: `num_threads`, or its share of the cores it may run on."""
        return self.num_threads or max(1, len(os.sched_getaffinity(0)) // self.tensor_parallel_size)


class DraftBudget(_Section):
    """How m, the draft tokens verified per sequence and step, is chosen. May be changed while serving."""

    mode: Literal["auto", "latency", "fixed", "schedule", "off"] | None = Field(
        None,
        description="How m, the draft tokens verified per sequence and step, is chosen. `auto`: in every "
        "step, by what they are worth and what they cost; `latency`: the same, for requests of priority 0 "
        "above all; `fixed`: num_speculative_tokens; `schedule`: num_speculative_tokens_per_batch_size; "
        "`off`: none. None: by which of these, or of latency's settings, is set; else auto.",
    )
    num_speculative_tokens: int | None = Field(None, ge=0, le=255, description="m of mode fixed.")
    num_speculative_tokens_per_batch_size: Annotated[Schedule | None, BeforeValidator(parse_list)] = Field(
        None,
        description="m of mode schedule: entries [first, last, m] for so many sequences that decode, both "
        "ends included; between two entries the lower one holds.",
    )
    max_num_speculative_tokens: int = Field(
        32, ge=1, le=255, description="The most draft tokens of a sequence in modes auto and latency."
    )
    min_throughput: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Mode latency: the share of mode auto's tokens per second, all requests together, that "
        "has to be left; None: 0.8.",
    )
    low_priority_weight: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Mode latency: what a token of a request of priority 1 is worth, one of priority 0 being "
        "worth 1; None: 0.1.",
    )
    min_path_value: float = Field(
        0.05,
        ge=0,
        lt=1,
        description="Modes fixed and schedule: nodes less likely than this to be accepted are not verified.",
    )

    @model_validator(mode="after")
    def _check_mode(self) -> Self:
        if self.mode == "fixed" and self.num_speculative_tokens is None:
            raise ValueError("mode fixed needs num_speculative_tokens")
        if self.mode == "schedule" and self.num_speculative_tokens_per_batch_size is None:
            raise ValueError("mode schedule needs num_speculative_tokens_per_batch_size")
        return self

    @property
    def chosen_mode(self) -> Literal["auto", "latency", "fixed", "schedule", "off"]:
        """`mode`, or what the other settings say."""
        if self.mode is not None:
            return self.mode
        if self.num_speculative_tokens_per_batch_size is not None:
            return "schedule"
        if self.num_speculative_tokens is not None:
            return "fixed"
        latency = self.min_throughput is not None or self.low_priority_weight is not None
        return "latency" if latency else "auto"

    @field_validator("num_speculative_tokens_per_batch_size")
    @classmethod
    def _check_schedule(cls, entries: Schedule | None) -> Schedule | None:
        if entries is not None and not entries:
            raise ValueError("there must be at least one entry")
        ordered = sorted(entries or ())
        for first, last, m in ordered:
            if not 1 <= first <= last or not 0 <= m <= 255:
                raise ValueError(f"[{first}, {last}, {m}] is not [first, last, m] with 1 <= first <= last")
        for (_, last, _), (first, _, _) in pairwise(ordered):
            if first <= last:
                raise ValueError(f"two entries are for {first} sequences")
        return entries


class UserConfig(_Section):
    """Serve's `user_config` of the verifiers: what changes without a restart."""

    speculation: DraftBudget


class SpeculationConfig(DraftBudget):
    """How drafts are made and how many of their tokens are verified."""

    method: Literal["auto", "prompt_lookup", "eagle3", "eagle", "draft_model", "off"] = Field(
        "auto",
        description="`eagle`: heads of EAGLE-1 and EAGLE-2; `auto`: eagle3 where there is a head (the "
        "default model has one), draft_model where there is one, else prompt_lookup.",
    )
    head: str | None = Field(
        None,
        description="Draft head of eagle3 and eagle: a folder, `s3://bucket/prefix`, a hub id, or `default`: "
        "the default model's own.",
    )
    draft_model: str | None = Field(
        None, description="Small model of the same tokenizer, named as `model` is; for method draft_model."
    )
    draft_kv_cache_memory: Bytes = Field(
        2**26, ge=2**16, description="Bytes of KV cache of a head or draft model."
    )
    tree: Literal["dynamic", "static"] = Field(
        "dynamic", description="`dynamic`: shaped by confidence (EAGLE-2); `static`: of one shape."
    )
    beam: int = Field(
        8, ge=1, le=64, description="Nodes expanded per level of a dynamic tree, and children of each (k)."
    )
    static_tree: Annotated[TreePaths | None, BeforeValidator(parse_list)] = Field(
        None, description="Nodes of a static tree by child ranks, as Medusa's choices; None: 25 nodes."
    )
    placement: Literal["auto", "pool", "colocated"] = Field(
        "auto",
        description="`pool`: drafters are replicas; `colocated`: one in each verifier. `auto`: a pool "
        "where drafters are given something of their own (a GPU, nodes by pin_to_roles, a number above one, "
        "transport rdt), else colocated, which is faster on the same cores.",
    )
    transport: Literal["object_store", "rdt"] = Field(
        "object_store",
        description="How large features reach drafters of the pool: by Ray's object store, or from process "
        "to process by Ray Direct Transport (alpha in Ray).",
    )
    overlap: Literal["auto", "always", "off"] = Field(
        "auto",
        description="Verify the other half of the batch, or read prompts, while a pool drafts. `auto`: where "
        "the choice of m predicts that it is faster; `always`: drafts even where that does not pay.",
    )
    max_depth: int = Field(8, ge=1, le=32, description="Longest path of a draft tree.")
    min_level_reach: float = Field(
        0.25,
        ge=0,
        lt=1,
        description="Levels of dynamic trees that are reached less often are not drafted.",
    )
    coupled: bool = Field(
        True, description="Draft sampled tokens with the noise that the target will draw them with."
    )
    coupling_spread: float = Field(
        1.2, gt=0, description="How little a head is to be trusted where drafts are coupled."
    )
    with_prompt_lookup: bool = Field(
        True, description="Merge prompt lookup's candidates into the trees of a head or draft model."
    )
    prompt_lookup_max: int = Field(8, ge=1, description="Longest suffix that is looked up.")
    prompt_lookup_min: int = Field(1, ge=1, description="Shortest suffix that is looked up.")
    deadline_s: float = Field(
        0.05, gt=0, description="Least time a proposal may take before the step goes on without."
    )
    lease_s: float = Field(
        30.0, gt=0, description="A drafter forgets a sequence that is silent for this long."
    )

    @property
    def direct(self) -> bool:
        """Whether actors must be made for Ray Direct Transport: prompt lookup is fed no features."""
        return self.transport == "rdt" and self.placement == "pool" and self.method in ("eagle3", "eagle")

    @property
    def overlap_mode(self) -> Literal["auto", "always", "off"]:
        """`overlap`; off for `auto` where the drafter works in the verifier's own thread."""
        return "off" if self.overlap == "auto" and self.placement != "pool" else self.overlap

    @model_validator(mode="after")
    def _check_method(self) -> Self:
        if self.prompt_lookup_min > self.prompt_lookup_max:
            raise ValueError("prompt_lookup_min must not exceed prompt_lookup_max")
        if self.method == "auto" and self.head is not None and self.draft_model is not None:
            raise ValueError("there are a head and a draft_model: say which by method")
        if self.method == "draft_model" and self.draft_model is None:
            raise ValueError("method draft_model needs a draft_model")
        return self

    @field_validator("static_tree")
    @classmethod
    def _check_static_tree(cls, paths: TreePaths | None) -> TreePaths | None:
        for path in paths or ():
            if not path or not all(0 <= rank < 64 for rank in path):
                raise ValueError(f"{list(path)} is not a path of child ranks from 0 to 63")
            if path[:-1] and path[:-1] not in (paths or ()):
                raise ValueError(f"{list(path)} has no parent among the nodes")
        if paths is not None and not 0 < len(paths) == len(set(paths)):
            raise ValueError("nodes must be different, and at least one")
        return paths


class RouterConfig(_Section):
    """The HTTP side."""

    api_keys: Texts = Field((), repr=False, description="Accepted bearer keys; none: open.")
    api_keys_file: Home | None = Field(None, description="One key per line; `#` starts a comment.")
    max_body_bytes: Bytes = Field(4 * 2**20, ge=1024)
    max_choices: int = Field(16, ge=1, description="Largest `n`.")
    default_max_tokens: int = Field(
        1024, ge=1, description="When a chat request does not say, and context allows."
    )
    connect_wait_s: float = Field(
        5.0,
        ge=0,
        description="How long a request waits for a verifier where none is in service; with "
        "replicas.verifiers 0 until its timeout.",
    )
    request_timeout_s: float = Field(
        600.0, gt=0, description="A request that takes longer ends with an error."
    )
    affinity_tokens: int = Field(
        256,
        ge=1,
        description="Requests that begin with the same tokens, so many, go to the same verifier; "
        "`prompt_cache_key` decides instead where a request has one.",
    )
    load_bound: float = Field(
        1.25,
        ge=1,
        description="But to another one where that has more than this times the average verifier's requests.",
    )
    max_ongoing_requests: int = Field(
        1024,
        ge=1,
        description="HTTP requests that a router holds, and those that wait in each proxy while all routers "
        "are full.",
    )
    max_queued_requests: int = Field(
        256,
        ge=1,
        description="Requests that wait in each router while all verifiers are full, those of priority 1 in "
        "half of the places; the next gets a 429.",
    )
    max_replays: int = Field(
        3, ge=0, description="How often a request goes on elsewhere when its verifier is lost."
    )
    replay_wait_s: float = Field(
        120.0, ge=0, description="How long a request without its verifier waits for one that goes on."
    )


class ReplicaConfig(_Section):
    """How many of each kind, and what Ray reserves for them."""

    routers: int = Field(1, ge=1)
    verifiers: int = Field(
        1,
        ge=0,
        description="Where autoscaling.max_verifiers is set the least; 0: none while there is no load.",
    )
    drafters: int = Field(1, ge=1, description="Where autoscaling.max_drafters is set the least.")
    router_cpus: float = Field(0.1, ge=0)
    verifier_cpus: float = Field(0.5, ge=0, description="CPU share reserved for each rank of a verifier.")
    drafter_cpus: float = Field(0.2, ge=0, description="CPU share reserved for a drafter's worker.")
    verifier_gpus: float = Field(0.0, ge=0, description="GPUs reserved for each rank of a verifier.")
    verifier_placement_strategy: Literal["STRICT_PACK", "PACK", "SPREAD", "STRICT_SPREAD"] = Field(
        "STRICT_PACK",
        description="Ray's strategy for the front and the ranks of a verifier. STRICT_PACK: on one node.",
    )
    router_metrics_port: int = Field(0, ge=0, le=65535, description="Of a router's own metrics; 0: any.")
    verifier_metrics_port: int = Field(0, ge=0, le=65535, description="Of an engine's own metrics; 0: any.")
    drafter_metrics_port: int = Field(0, ge=0, le=65535, description="Of a drafter's own metrics; 0: any.")
    max_ongoing_requests: int = Field(
        256, ge=1, description="Requests that a verifier holds, waiting ones included."
    )
    verifier_drain_s: float = Field(
        5.0,
        ge=0,
        description="How long a verifier that is to go works on; what is left then goes on elsewhere.",
    )
    max_surge_percent: int = Field(
        25,
        ge=0,
        le=100,
        description="Replicas of a new version that an update starts before old ones stop, of each kind, in "
        "percent, rounded up. 0: old ones stop first, for clusters without room for one more.",
    )
    drafter_gpus: float = Field(0.0, ge=0, description="For a head or draft model; prompt lookup uses none.")
    pin_to_roles: bool = Field(
        False,
        description="Place routers, verifiers and drafters only on Ray nodes whose label canopy-role says "
        "router, verifier or drafter.",
    )


class Hours(_Section):
    """When at least how many replicas are to be there, load or not."""

    days: Annotated[tuple[Day, ...], BeforeValidator(parse_list)] = Field(
        WEEK, min_length=1, description="Days on which the hours begin."
    )
    start: Clock
    end: Clock = Field(description="Not after `start`: on the next day.")
    verifiers: int = Field(0, ge=0)
    drafters: int = Field(0, ge=0)


class ScalingTriggers(_Section):
    """What a replica should have at most: whatever is exceeded most says how many replicas are wanted.

    These are also the `policy_kwargs` of the joint policy in a Serve config file.
    """

    waiting: float = Field(10.0, gt=0, description="Sequences that wait, for each verifier.")
    busy: float = Field(
        0.7,
        gt=0,
        le=1,
        description="Share of its time that a verifier's accelerator works, as its step loop measures it.",
    )
    kv_usage: float = Field(0.85, gt=0, le=1, description="Used share of a verifier's KV cache.")
    first_token_s: float | None = Field(
        None, gt=0, description="Mean seconds from a verifier's getting a request to its first token."
    )
    token_s: float | None = Field(None, gt=0, description="Mean seconds for each further token.")
    drafter_sequences: float = Field(64.0, gt=0, description="Sequences that a drafter drafts for.")
    drafter_busy: float = Field(0.7, gt=0, le=1, description="Share of its time that a drafter drafts.")
    timezone: str = Field("UTC", description="Of `hours`, as Europe/Berlin.")
    hours: Annotated[tuple[Hours, ...], BeforeValidator(parse_list)] = Field(
        (), description="When more replicas than the least are to be there."
    )

    @field_validator("timezone")
    @classmethod
    def _check_timezone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            raise ValueError(f"{name!r} is no time zone that this machine knows") from None
        return name

    @classmethod
    def load(cls, values: dict[str, Any]) -> Self:
        """Raises ConfigError naming each wrong field."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise explained(error, cls) from None


class ScalingConfig(ScalingTriggers):
    """Numbers of replicas that follow the load. Off unless a largest number is named."""

    max_verifiers: int | None = Field(None, ge=1, description="None: always replicas.verifiers of them.")
    max_drafters: int | None = Field(None, ge=1, description="None: always replicas.drafters of them.")
    sequences: float | None = Field(
        None,
        gt=0,
        description="Sequences, running or waiting, for each verifier; None: 70% of engine.max_num_seqs.",
    )
    up_after_s: float = Field(10.0, ge=0, description="How long more replicas must be wanted.")
    down_after_s: float = Field(300.0, ge=0, description="How long fewer must be: then half of them go.")

    @property
    def triggers(self) -> dict[str, Any]:
        """As JSON has them."""
        return self.model_dump(mode="json", include=set(ScalingTriggers.model_fields))


class ServeConfig(_Section):
    """All settings of the service."""

    model: str = Field(
        "default", description="`default`, a folder, a .gguf file, `s3://bucket/prefix` or a hub id."
    )
    served_model_name: str | None = Field(None, description="Name clients use; None: derived from `model`.")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    cache_dir: Home = Field(
        Path("~/.cache/canopy"), validate_default=True, description="Downloads, conversions."
    )
    metrics_dir: Path | None = Field(
        None, description="Set by the service: where this machine's processes meet."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    engine: EngineConfig = EngineConfig()
    speculation: SpeculationConfig = SpeculationConfig()
    router: RouterConfig = RouterConfig()
    replicas: ReplicaConfig = ReplicaConfig()
    autoscaling: ScalingConfig = ScalingConfig()

    @model_validator(mode="after")
    def _check_numbers(self) -> Self:
        for role in ("verifiers", "drafters"):
            least, most = getattr(self.replicas, role), getattr(self.autoscaling, f"max_{role}")
            if most is not None and most < least:
                raise ValueError(f"autoscaling.max_{role} must not be less than replicas.{role}")
            if any(getattr(hours, role) > (most or least) for hours in self.autoscaling.hours):
                raise ValueError(
                    f"autoscaling.hours must not ask for more {role} than autoscaling.max_{role}"
                )
        if self.replicas.verifiers == 0 and self.autoscaling.max_verifiers is None:
            raise ValueError("replicas.verifiers may be 0 only where autoscaling.max_verifiers is set")
        return self

    @model_validator(mode="after")
    def _settle_drafting(self) -> Self:
        """Nobody behind this point meets method or placement `auto`, or a head's method without a head."""
        settings = self.speculation
        method, head = settings.method, settings.head
        if method == "auto" and settings.draft_model is not None:
            method = "draft_model"
        if head is None and method in ("auto", "eagle3") and self.model == DEFAULT:
            head = DEFAULT
        if method == "auto":
            method = "eagle3" if head else "prompt_lookup"
        if method in ("eagle3", "eagle") and head is None:
            raise ValueError(f"speculation.method {method} needs a speculation.head")
        update = {"method": method, "head": head, "placement": self._settled_placement}
        settled = settings.model_copy(update=update)
        object.__setattr__(self, "speculation", settled)
        return self

    @property
    def _settled_placement(self) -> str:
        if self.speculation.placement != "auto":
            return self.speculation.placement
        replicas, several = self.replicas, self.replicas.drafters > 1 or self.autoscaling.max_drafters
        own = several or replicas.drafter_gpus or replicas.pin_to_roles or self.speculation.transport == "rdt"
        return "pool" if own else "colocated"

    @property
    def sequences_per_verifier(self) -> float:
        """What autoscaling aims at."""
        return self.autoscaling.sequences or 0.7 * self.engine.max_num_seqs

    @property
    def model_name(self) -> str:
        if self.served_model_name is not None:
            return self.served_model_name
        if self.model == DEFAULT:
            return "smollm2-135m-instruct"
        return self.model.rstrip("/").rsplit("/", 1)[-1].removesuffix(".gguf")

    def budget(self, user_config: dict[str, Any]) -> DraftBudget:
        """The settings of `speculation` that choose m, with those in `user_config` in their place.

        Raises ConfigError naming each field that is wrong, or cannot be changed while serving.
        """
        own = self.speculation.model_dump(include=set(DraftBudget.model_fields))
        changed = user_config.get("speculation", {})
        merged = {**own, **changed} if isinstance(changed, dict) else changed
        try:
            return UserConfig.model_validate({**user_config, "speculation": merged}).speculation
        except ValidationError as error:
            raise explained(error, UserConfig) from None

    @classmethod
    def load(cls, values: dict[str, Any] | None = None, environ: dict[str, str] | None = None) -> ServeConfig:
        """Settings from the environment, overridden by `values` (nested, or with dotted keys).

        Raises ConfigError naming each wrong field.
        """
        merged = from_environment(cls, os.environ if environ is None else environ)
        for key, value in (values or {}).items():
            put(merged, key.split("."), value)
        try:
            return cls.model_validate(merged)
        except ValidationError as error:
            raise explained(error, cls) from None
