"""Which tensors a head has, by one set of names for all formats."""

from __future__ import annotations

from serving.models.heads.config import HeadConfig

Shapes = dict[str, tuple[int, ...]]


def tensor_shapes(head: HeadConfig) -> Shapes:
    """Every tensor that the head must have. `layer.` is its one decoder layer."""
    own = _eagle3(head) if head.kind == "eagle3" else _eagle(head)
    return _layer(head) | own


def _layer(head: HeadConfig) -> Shapes:
    a = head.layer
    d, inner = a.hidden_size, a.intermediate_size
    q, kv = a.num_heads * a.head_dim, a.num_kv_heads * a.head_dim
    inputs = 2 * d if head.kind == "eagle3" else d  # EAGLE-3 attends with embedding and hidden side by side
    linears = {
        "self_attn.q_proj": (q, inputs, a.qkv_bias),
        "self_attn.k_proj": (kv, inputs, a.qkv_bias),
        "self_attn.v_proj": (kv, inputs, a.qkv_bias),
        "self_attn.o_proj": (d, q, a.o_bias),
        "mlp.gate_proj": (inner, d, a.mlp_bias),
        "mlp.up_proj": (inner, d, a.mlp_bias),
        "mlp.down_proj": (d, inner, a.mlp_bias),
    }
    shapes: Shapes = {"layer.post_attention_layernorm.weight": (d,)}
    for name, (rows, columns, bias) in linears.items():
        shapes[f"layer.{name}.weight"] = (rows, columns)
        if bias:
            shapes[f"layer.{name}.bias"] = (rows,)
    if a.qk_norm:
        shapes |= {f"layer.self_attn.{x}_norm.weight": (a.head_dim,) for x in "qk"}
    return shapes


def _eagle3(head: HeadConfig) -> Shapes:
    d, features = head.layer.hidden_size, len(head.feature_layers)
    shapes: Shapes = {
        "fc.weight": (d, features * head.target_hidden_size),
        "layer.input_layernorm.weight": (d,),
        "layer.hidden_norm.weight": (d,),
        "norm.weight": (d,),
        "lm_head.weight": (head.draft_vocab_size, d),
    }
    if head.feature_norm == "each":
        shapes |= {f"fc_norm.{i}.weight": (head.target_hidden_size,) for i in range(features)}
    elif head.feature_norm == "joint":
        shapes["input_norm.weight"] = (features * head.target_hidden_size,)
    return shapes


def _eagle(head: HeadConfig) -> Shapes:
    d = head.layer.hidden_size
    return {"fc.weight": (d, 2 * d)} | ({"fc.bias": (d,)} if head.fc_bias else {})
