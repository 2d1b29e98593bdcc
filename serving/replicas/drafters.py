"""Which drafter the configuration asks for, wherever it runs."""

from __future__ import annotations

from serving.config import ServeConfig
from serving.drafting.base import Drafter
from serving.drafting.prompt_lookup import PromptLookupDrafter


def build_drafter(config: ServeConfig) -> Drafter:
    """Raises ModelLoadError when a head cannot be loaded."""
    if config.speculation.method == "eagle3":
        from serving.engine.head import build_head_drafter  # torch: only in a process that runs a head

        return build_head_drafter(config)
    assert config.speculation.method == "prompt_lookup"
    return PromptLookupDrafter(config.speculation)
