"""Small real tokenizers of the kinds that models have, as `tokenizer.json`."""

from __future__ import annotations

from functools import cache

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

BOS, EOS = "<|im_start|>", "<|im_end|>"
CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

_CORPUS = [
    "the quick brown fox jumps over the lazy dog",
    "a light draft head proposes a tree of next tokens and the target checks them",
    "naïve café, Größe, 東京, Привет, 🙂 and 👩‍👩‍👧",
]


@cache
def byte_level() -> bytes:
    """GPT-2's kind: tokens are bytes, so one character may take several."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>", BOS, EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    tokenizer.add_tokens([AddedToken("<tool call>", special=False, normalized=False)])
    return tokenizer.to_str().encode()


@cache
def sentence_piece() -> bytes:
    """Llama 2's kind: a space is `▁`, the text's first is dropped, unknown characters become bytes."""
    tokenizer = Tokenizer(_byte_fallback_bpe())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    return tokenizer.to_str().encode()


@cache
def metaspace() -> bytes:
    """SentencePiece's kind with the Metaspace decoder."""
    tokenizer = Tokenizer(_byte_fallback_bpe())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    return tokenizer.to_str().encode()


def _byte_fallback_bpe() -> models.BPE:
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abcdefghijklmnopqrstuvwxyz.,é東\ufffd"]
    merges = [("▁", "t"), ("h", "e"), ("▁t", "he"), ("▁", "a"), ("▁", "▁"), ("a", "n")]
    pieces += [left + right for left, right in merges]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    return models.BPE(vocabulary, merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True)
