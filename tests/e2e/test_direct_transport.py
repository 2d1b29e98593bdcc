"""A whole service whose features reach the drafter by Ray Direct Transport."""

from __future__ import annotations

import re
from typing import Any

import pytest
from deployed import deploy

SETTINGS = {
    "served_model_name": "direct",
    "engine": {"kv_cache_memory": "64MiB", "max_model_len": 1024},
    "speculation": {"num_speculative_tokens": 5, "transport": "rdt", "deadline_s": 5.0},
    "replicas": {"router_cpus": 0.01, "verifier_cpus": 0.01, "drafter_cpus": 0.01},
}
PROMPT = "The sea is wide and deep, and the ships that cross it are small. " * 20  # 300 tokens


@pytest.mark.slow
@pytest.mark.ray
def test_a_long_prompt_is_drafted_for(port: int) -> None:
    service = deploy(port, "direct", SETTINGS)

    def complete(**extra: int) -> Any:
        return service.client().completions.create(
            model="direct", prompt=PROMPT, max_tokens=24, temperature=0, extra_body=extra
        )

    service.wait_until_drafting()
    drafted, plain = complete(), complete(num_speculative_tokens=0)
    assert drafted.choices[0].text == plain.choices[0].text
    assert drafted.model_extra["speculation"]["accepted_tokens"] > 0
    metrics = service.get("metrics").text
    fed = dict(re.findall(r'canopy:draft_fed_bytes_total{.*path="(\w+)"} (\S+)', metrics))
    assert float(fed["rdt"]) >= 300 * 576 * 2
