"""Names of the systems that are compared, and what they are."""

from __future__ import annotations

CANOPY_PLAIN = "canopy plain"
CANOPY = "canopy"
TRANSFORMERS = "transformers"
TRANSFORMERS_LOOKUP = "transformers lookup"
ASSISTED = "transformers assisted"
VLLM = "vllm"
VLLM_EAGLE3 = "vllm eagle3"

LEGEND = {
    CANOPY_PLAIN: "our engine in this process, without drafts",
    CANOPY: "our engine as it speculates by default",
    TRANSFORMERS: "transformers' generate, one batch padded on the left",
    TRANSFORMERS_LOOKUP: "the same with prompt_lookup_num_tokens; of one prompt alone",
    ASSISTED: "the same with an assistant model; of one prompt alone",
    VLLM: "vLLM's LLM class",
    VLLM_EAGLE3: "the same with our head, a chain of draft tokens",
}
DRAFTS_FOR_ONE = (TRANSFORMERS_LOOKUP, ASSISTED)
ONE_ONLY = "transformers drafts for one prompt alone"
