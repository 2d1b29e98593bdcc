"""Heads for a tiny target, and configurations that leave them little memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tiny_heads import TinyHead
from tiny_models import config_for

from serving.config import ServeConfig
from serving.engine.attention.base import kv_bytes_per_token
from serving.models.architecture import Architecture

VOCAB = 24  # so few tokens that an undecided head is often right
CACHE_TOKENS = 192
SIZES: dict[str, Any] = {"vocab_size": VOCAB, "sharpness": 0.3}
HEADS = {
    "eagle3": TinyHead(**SIZES, draft_vocab=20, fc_norm=True),
    "eagle3-joint-norm": TinyHead(**SIZES, draft_vocab=20, joint_norm=True, norm_output=True),
    "eagle": TinyHead("eagle", **SIZES),
}


def layout(head: TinyHead) -> str:
    return "speculators" if head.norm_output else "specforge"


FIXED = {"placement": "colocated", "min_level_reach": 0.0, "num_speculative_tokens": 5}


def config(target: Path, dtype: str, speculation: dict[str, Any], **engine: Any) -> ServeConfig:
    per_token = kv_bytes_per_token(Architecture.from_folder(target), getattr(torch, dtype))
    sizes = {"max_model_len": 112, "kv_cache_memory": CACHE_TOKENS * per_token, **engine}
    base = config_for(target, dtype, **sizes).model_dump()
    return ServeConfig.model_validate({**base, "speculation": {**FIXED, **speculation}})
