"""The ways to answer that are compared."""

from __future__ import annotations

PLAIN = "plain"
PROMPT_LOOKUP = "prompt_lookup"
EAGLE3 = "eagle3"
EAGLE3_LOOKUP = "eagle3_lookup"
TRANSFORMERS = "transformers"
PLAIN_HTTP = "plain_http"
POOL_HTTP = "prompt_lookup_pool_http"
EAGLE3_POOL_HTTP = "eagle3_lookup_pool_http"
EAGLE3_COLOCATED_HTTP = "eagle3_lookup_colocated_http"

LEGEND = {
    PLAIN: "the engine in process, num_speculative_tokens 0",
    PROMPT_LOOKUP: "the engine in process, drafts by prompt lookup",
    EAGLE3: "the engine in process, drafts by an EAGLE-3 head",
    EAGLE3_LOOKUP: "the engine in process, drafts of both merged",
    TRANSFORMERS: "transformers' generate, same dtype and threads",
    PLAIN_HTTP: "the whole service over HTTP, num_speculative_tokens 0",
    POOL_HTTP: "the whole service over HTTP, prompt lookup in the drafter pool",
    EAGLE3_POOL_HTTP: "the whole service over HTTP, both merged in the drafter pool",
    EAGLE3_COLOCATED_HTTP: "the whole service over HTTP, both merged in the verifier",
}
WITHOUT_HEAD = {"engine": (PLAIN, PROMPT_LOOKUP), "http": (PLAIN_HTTP, POOL_HTTP)}
WITH_HEAD = {"engine": (EAGLE3, EAGLE3_LOOKUP), "http": (EAGLE3_POOL_HTTP, EAGLE3_COLOCATED_HTTP)}
"""What each way adds where there is a head."""
