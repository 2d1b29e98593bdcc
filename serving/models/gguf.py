"""GGUF files: converted once into a folder of safetensors.

The conversion runs in a process of its own (`python -m serving.models.gguf SOURCE FOLDER`), so that the
memory of transformers is given back and the verifier never imports it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from serving.errors import ModelLoadError
from serving.models.cache import build_once
from serving.models.folder import check_folder

if TYPE_CHECKING:
    import torch

# Raised when the conversion changes what it writes, so that older results are not taken for new ones.
CONVERSION = 1
_MAGIC = b"GGUF"


def converted(source: Path, cache_dir: Path) -> Path:
    """The folder with `source` as safetensors, converted on first use. Raises ModelLoadError."""
    check_header(source)
    stat = source.stat()
    identity = f"{source.resolve()}/{stat.st_size}/{stat.st_mtime_ns}/{CONVERSION}"
    key = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return build_once(cache_dir / "gguf" / f"{source.stem}-{key}", lambda folder: convert(source, folder))


def check_header(source: Path) -> None:
    """Raises ModelLoadError unless the file can be read and starts like a GGUF."""
    try:
        with source.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except OSError as error:
        raise ModelLoadError(f"{source} cannot be read: {error.strerror}.") from error
    if magic != _MAGIC:
        raise ModelLoadError(f"{source} is not a GGUF file.")


def convert(source: Path, folder: Path) -> None:
    """Convert in a process of its own, and check the result. Raises ModelLoadError.

    The child's progress bars stay on stderr; the reason of a failure is what it writes to stdout.
    """
    command = [sys.executable, "-m", "serving.models.gguf", str(source.resolve()), str(folder)]
    quiet = {} if sys.stderr.isatty() else {"TQDM_MININTERVAL": "10"}  # a log should not hold every redraw
    environ = os.environ | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"} | quiet
    child = subprocess.run(command, stdout=subprocess.PIPE, env=environ, text=True, check=False)
    if child.returncode < 0:
        raise ModelLoadError(f"the conversion of {source} was killed: is there enough memory?")
    if child.returncode:
        reason = child.stdout.strip() or f"exit status {child.returncode}"
        raise ModelLoadError(f"{source} cannot be converted: {reason.rstrip('.')}.")
    check_folder(folder)


def _main(source: Path, folder: Path) -> int:
    """The child: whatever goes wrong becomes one line on stdout."""
    try:
        _convert_here(source, folder)
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if not isinstance(error, ModelLoadError):
            reason = f"it is damaged, or of a kind that transformers does not know ({reason})"
        sys.stdout.write(reason)
        return 1
    return 0


def _convert_here(source: Path, folder: Path) -> None:
    from safetensors.torch import save_file
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig

    from serving.models.architecture import Architecture

    # Alone in its folder: transformers would prefer a config.json or tokenizer.json found beside it.
    with tempfile.TemporaryDirectory() as alone:
        (Path(alone) / source.name).symlink_to(source)
        config = AutoConfig.from_pretrained(alone, gguf_file=source.name)
        Architecture.from_hf(config.to_dict())  # refuse before the work, not after
        tokenizer = AutoTokenizer.from_pretrained(alone, gguf_file=source.name)
        model = AutoModelForCausalLM.from_pretrained(
            alone,
            gguf_file=source.name,
            dtype=_dtype(source),
            quantization_config=GgufConfig(dequantize=True),
        )
    state = model.state_dict()
    if model.config.tie_word_embeddings:
        del state["lm_head.weight"]
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)  # safetensors writes 0600, but a cache may be shared
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _dtype(source: Path) -> torch.dtype:
    """bfloat16 unless the file holds plain float32 or float16.

    Its relative rounding error, 2^-9, is below the steps of the block formats (Q8_0: 2^-8 of a block's
    largest weight, Q4: 2^-4): nothing that quantisation left is lost.
    """
    import torch
    from gguf import GGUFReader, LlamaFileType

    field = GGUFReader(source).get_field("general.file_type")
    plain = {LlamaFileType.ALL_F32: torch.float32, LlamaFileType.MOSTLY_F16: torch.float16}
    return plain.get(field.contents(), torch.bfloat16) if field else torch.bfloat16


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1]), Path(sys.argv[2])))
