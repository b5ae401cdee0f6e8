"""Makes a model of full size with random weights, to measure loading, memory and speed with.

    python3 tools/reference/full_size.py z-image-turbo OUT [--parts transformer text_encoder vae gguf]
    python3 tools/reference/full_size.py klein-4b OUT
    python3 tools/reference/full_size.py qwen-image OUT --parts vae gguf text_gguf

OUT becomes a folder as the model is published: transformer (12.3 GB and 7.8 GB in bf16, files of 5 GB), text_encoder
(8 GB), vae, scheduler, and a tokenizer with 151669 ids whose merges are made up; with `gguf`, beside it in OUT-Q4_K.gguf
the transformer as random blocks of Q4_K under its original names (3.5 GB and 2.2 GB). Qwen-Image has GGUF files alone:
its transformer (11.5 GB), and with `text_gguf` in OUT-text-Q4_K.gguf Qwen2.5-VL under llama.cpp's names (4.3 GB). A tensor is made and written in
pieces of 64 MiB: no more is ever in memory.
"""

import argparse
import dataclasses
import json
import pathlib
import random
from collections.abc import Callable

import gguf
import numpy as np
import torch
from diffusers import (
    AutoencoderKL,
    AutoencoderKLFlux2,
    AutoencoderKLQwenImage,
    FlowMatchEulerDiscreteScheduler,
    Flux2Transformer2DModel,
    QwenImageTransformer2DModel,
    ZImageTransformer2DModel,
)
from tokenizers import pre_tokenizers
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen3Config, Qwen3ForCausalLM

import byte_pair
import flux2_gguf

# Of Tongyi-MAI/Z-Image-Turbo, and of FLUX.2-klein-4B likewise.
TEXT = dict(
    vocab_size=151936, hidden_size=2560, intermediate_size=9728, num_hidden_layers=36, num_attention_heads=32,
    num_key_value_heads=8, head_dim=128, max_position_embeddings=40960, tie_word_embeddings=True,
    rope_parameters={"rope_type": "default", "rope_theta": 1e6},
)  # fmt: skip
# Of Tongyi-MAI/Z-Image-Turbo; those of its transformer and of FLUX.2's autoencoder are the classes' defaults.
Z_IMAGE_VAE = dict(
    down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
    block_out_channels=(128, 256, 512, 512), layers_per_block=2, latent_channels=16, sample_size=1024,
    use_quant_conv=False, use_post_quant_conv=False, scaling_factor=0.3611, shift_factor=0.1159,
)  # fmt: skip
# Of black-forest-labs/FLUX.2-klein-4B.
KLEIN_4B = dict(
    num_layers=5, num_single_layers=20, num_attention_heads=24, joint_attention_dim=7680, guidance_embeds=False,
)  # fmt: skip
# Of Qwen/Qwen-Image, whose transformer and autoencoder have the classes' defaults.
VISION_TEXT = dict(
    vocab_size=152064, hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28,
    num_key_value_heads=4, max_position_embeddings=128000,
    rope_parameters={"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
)  # fmt: skip
QWEN_SCHEDULER = dict(
    base_image_seq_len=256, base_shift=0.5, max_image_seq_len=8192, max_shift=0.9, shift=1.0, shift_terminal=0.02,
    time_shift_type="exponential", use_dynamic_shifting=True,
)  # fmt: skip
TOKENS = 151643
PIECE = 1 << 25
SHARD_BYTES = 5 * 10**9

# Standard deviation of a random Q4_K block with d = 1 and dmin = 7.5: the mean is 0 then.
Q4_K_SPREAD = 258.0
BLOCK, BLOCK_BYTES = 256, 144


def rule(name, shape):
    """Mean and standard deviation of a parameter."""
    if name.endswith(("running_mean", "running_var")):
        return (0.0, 0.3) if name.endswith("mean") else (1.0, 0.05)
    if len(shape) == 1:
        return (1.0, 0.1) if name.endswith("weight") else (0.0, 0.02)
    return 0.0, float(np.prod(shape[1:])) ** -0.5


def pieces(rng, count, mean, std):
    """`count` bf16 values as bytes, piece by piece."""
    for start in range(0, count, PIECE):
        size = min(PIECE, count - start)
        values = torch.randn(size, generator=rng) * std + mean
        yield values.to(torch.bfloat16).view(torch.int16).numpy()


def write_safetensors(path, shapes, rng):
    """One file of bf16 tensors."""
    header, place = {}, 0
    for name, shape in shapes.items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [place, place + size]}
        place += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shapes.items():
            for piece in pieces(rng, int(np.prod(shape)), *rule(name, shape)):
                piece.tofile(file)


def write_component(folder, module, stem, rng):
    """The module's parameters, in as many files as its library would write."""
    statistics = [(name, buffer) for name, buffer in module.named_buffers() if "running_" in name]
    shapes = {name: tuple(tensor.shape) for name, tensor in [*module.named_parameters(), *statistics]}
    shards, room = [{}], SHARD_BYTES
    for name, shape in shapes.items():
        size = 2 * int(np.prod(shape))
        if size > room and shards[-1]:
            shards.append({})
            room = SHARD_BYTES
        shards[-1][name] = shape
        room -= size
    if len(shards) == 1:
        return write_safetensors(folder / f"{stem}.safetensors", shards[0], rng)
    weight_map = {}
    for i, shard in enumerate(shards):
        name = f"{stem}-{i + 1:05}-of-{len(shards):05}.safetensors"
        write_safetensors(folder / name, shard, rng)
        weight_map |= dict.fromkeys(shard, name)
    total = sum(2 * int(np.prod(shape)) for shape in shapes.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / f"{stem}.safetensors.index.json").write_text(json.dumps(index) + "\n")


def z_image_shapes(module):
    """Shapes under the names that GGUF files have: queries, keys and values in one."""
    renames = {".to_out.0.": ".out.", ".norm_q.": ".q_norm.", ".norm_k.": ".k_norm.",
               "all_x_embedder.2-1.": "x_embedder.", "all_final_layer.2-1.": "final_layer."}  # fmt: skip
    shapes = {}
    for name, parameter in module.named_parameters():
        shape = tuple(parameter.shape)
        if ".to_k." in name or ".to_v." in name:
            continue
        if ".to_q." in name:
            name, shape = name.replace(".to_q.", ".qkv."), (3 * shape[0], *shape[1:])
        for ours, theirs in renames.items():
            name = name.replace(ours, theirs)
        shapes[name] = shape
    return shapes


def flux2_shapes(module):
    """Likewise."""
    own = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
    return {
        theirs: (len(ours) * own[ours[0]][0], *own[ours[0]][1:])
        for theirs, ours, _ in flux2_gguf.original_tensors(module)
    }


def qwen_image_shapes(module):
    """Likewise; they are those of diffusers."""
    return {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}


def llama_cpp_shapes(text):
    """A Qwen2.5-VL without its vision tower, under the names of llama.cpp."""
    wide, deep, keys = text.hidden_size, text.intermediate_size, 128 * text.num_key_value_heads
    shapes = {"token_embd.weight": (text.vocab_size, wide), "output_norm.weight": (wide,)}
    for i in range(text.num_hidden_layers):
        block = f"blk.{i}"
        for name, rows in (("attn_q", wide), ("attn_k", keys), ("attn_v", keys)):
            shapes |= {f"{block}.{name}.weight": (rows, wide), f"{block}.{name}.bias": (rows,)}
        for name in ("attn_norm", "ffn_norm"):
            shapes[f"{block}.{name}.weight"] = (wide,)
        for name, shape in (
            ("attn_output", (wide, wide)),
            ("ffn_gate", (deep, wide)),
            ("ffn_up", (deep, wide)),
            ("ffn_down", (wide, deep)),
        ):
            shapes[f"{block}.{name}.weight"] = shape
    return shapes


def random_blocks(rng, count, std):
    """Blocks of Q4_K with random scales and quants."""
    blocks = rng.integers(0, 256, (count, BLOCK_BYTES), dtype=np.uint8)
    d = std / Q4_K_SPREAD
    blocks[:, :4] = np.array([d, 7.5 * d], np.float16).view(np.uint8)
    return blocks


def write_gguf(path, architecture, shapes, seed):
    """Matrices as Q4_K, where a row fills whole blocks; small ones in f16, vectors in f32."""
    rng, kinds = np.random.default_rng(seed), gguf.GGMLQuantizationType
    writer = gguf.GGUFWriter(path, architecture)
    kind_of = {}
    for name, shape in shapes.items():
        is_block = len(shape) == 2 and shape[1] % BLOCK == 0 and shape[0] > 1
        kind = kinds.Q4_K if is_block else kinds.F16 if len(shape) == 2 else kinds.F32
        kind_of[name] = kind
        count = int(np.prod(shape))
        size = count // BLOCK * BLOCK_BYTES if is_block else count * (2 if kind == kinds.F16 else 4)
        stored = (shape[0], shape[1] // BLOCK * BLOCK_BYTES) if is_block else shape
        dtype = np.dtype(np.uint8 if is_block else np.float16 if kind == kinds.F16 else np.float32)
        writer.add_tensor_info(name, stored, dtype, size, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for name, shape in shapes.items():
        mean, std = rule(name, shape)
        count = int(np.prod(shape))
        if kind_of[name] == kinds.Q4_K:
            writer.write_tensor_data(random_blocks(rng, count // BLOCK, std).reshape(-1))
        else:
            dtype = np.float16 if kind_of[name] == kinds.F16 else np.float32
            writer.write_tensor_data((rng.standard_normal(count) * std + mean).astype(dtype))
    writer.close()


def made_up_merges(seed):
    """A vocabulary of full size whose merges join random pieces."""
    rng = random.Random(seed)
    names = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {name: i for i, name in enumerate(names)}
    merges = []
    while len(vocab) < TOKENS:
        # Early pieces are short and often joined.
        left, right = (names[int(len(names) * rng.random() ** 2)] for _ in range(2))
        joined = left + right
        if len(joined) > 12 or joined in vocab:
            continue
        vocab[joined] = len(names)
        names.append(joined)
        merges.append((left, right))
    return vocab, merges


@dataclasses.dataclass
class Family:
    """What differs between models; the text encoder does not."""

    pipeline: str
    settings: dict
    transformer: Callable
    vae: Callable
    scheduler: dict
    architecture: str
    original_shapes: Callable
    text: Callable = lambda: Qwen3ForCausalLM(Qwen3Config(**TEXT))


FAMILIES = {
    "z-image-turbo": Family(
        "ZImagePipeline",
        {},
        ZImageTransformer2DModel,
        lambda: AutoencoderKL(**Z_IMAGE_VAE),
        dict(shift=3.0),
        "lumina2",
        z_image_shapes,
    ),
    "klein-4b": Family(
        "Flux2KleinPipeline",
        {"is_distilled": True},
        lambda: Flux2Transformer2DModel(**KLEIN_4B),
        AutoencoderKLFlux2,
        dict(shift=3.0, use_dynamic_shifting=True),
        "flux",
        flux2_shapes,
    ),
    "qwen-image": Family(
        "QwenImagePipeline",
        {},
        QwenImageTransformer2DModel,
        AutoencoderKLQwenImage,
        QWEN_SCHEDULER,
        "qwen_image",
        qwen_image_shapes,
        lambda: Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(text_config=VISION_TEXT)),
    ),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--parts", nargs="+", default=["transformer", "text_encoder", "vae", "gguf"])
    arguments = parser.parse_args()
    family, out, parts = FAMILIES[arguments.family], arguments.out, arguments.parts
    rng = torch.Generator().manual_seed(5)
    for name in ("transformer", "text_encoder", "vae", "scheduler", "tokenizer"):
        (out / name).mkdir(parents=True, exist_ok=True)
    with torch.device("meta"):
        transformer = family.transformer()
        text = family.text()
        vae = family.vae()
    text.config.architectures = [type(text).__name__]
    text.config.save_pretrained(out / "text_encoder")
    transformer.save_config(out / "transformer")
    vae.save_config(out / "vae")
    FlowMatchEulerDiscreteScheduler(**family.scheduler).save_config(out / "scheduler")
    byte_pair.build(out / "tokenizer", *made_up_merges(7))
    index = {
        "_class_name": family.pipeline,
        **family.settings,
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", type(text).__name__],
        "tokenizer": ["transformers", "Qwen2Tokenizer"],
        "transformer": ["diffusers", type(transformer).__name__],
        "vae": ["diffusers", type(vae).__name__],
    }
    (out / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    if "transformer" in parts:
        write_component(out / "transformer", transformer, "diffusion_pytorch_model", rng)
    if "text_encoder" in parts:
        write_component(out / "text_encoder", text, "model", rng)
    if "vae" in parts:
        write_component(out / "vae", vae, "diffusion_pytorch_model", rng)
    if "gguf" in parts:
        path = out.with_name(out.name + "-Q4_K.gguf")
        write_gguf(path, family.architecture, family.original_shapes(transformer), 6)
    if "text_gguf" in parts:
        path = out.with_name(out.name + "-text-Q4_K.gguf")
        write_gguf(path, "qwen2vl", llama_cpp_shapes(text.config.text_config), 8)


if __name__ == "__main__":
    main()
