"""The ways to answer that are compared, and how long each takes, roughly."""

from __future__ import annotations

PLAIN = "plain"
PROMPT_LOOKUP = "prompt_lookup"
TRANSFORMERS = "transformers"
PLAIN_HTTP = "plain_http"
POOL_HTTP = "prompt_lookup_pool_http"

LEGEND = {
    PLAIN: "the engine in process, num_speculative_tokens 0",
    PROMPT_LOOKUP: "the engine in process, drafts made there too",
    TRANSFORMERS: "transformers' generate, same dtype and threads",
    PLAIN_HTTP: "the whole service over HTTP, num_speculative_tokens 0",
    POOL_HTTP: "the whole service over HTTP, drafts from the pool",
}
