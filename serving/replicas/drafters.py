"""Which drafter the configuration asks for, wherever it runs."""

from __future__ import annotations

from serving.config import ServeConfig
from serving.drafting.base import Drafter
from serving.drafting.combined import CombinedDrafter
from serving.drafting.prompt_lookup import PromptLookupDrafter


def build_drafter(config: ServeConfig) -> Drafter:
    """Raises ModelLoadError when a head or a draft model cannot be loaded."""
    assert config.speculation.method != "off"
    if config.speculation.method == "prompt_lookup":
        return PromptLookupDrafter(config.speculation)
    from serving.engine.build_drafter import build_network_drafter  # torch: only where a network runs

    drafter = build_network_drafter(config)
    if not config.speculation.with_prompt_lookup:
        return drafter
    return CombinedDrafter((drafter, PromptLookupDrafter(config.speculation)))
