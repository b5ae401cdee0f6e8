"""Makes a model of full size with random weights, to measure loading, memory and speed with.

    python3 tools/reference/full_size.py z-image-turbo OUT [--parts transformer text_encoder vae gguf]
    python3 tools/reference/full_size.py klein-4b OUT
    python3 tools/reference/full_size.py qwen-image OUT --parts vae gguf text_gguf
    python3 tools/reference/full_size.py krea-2-turbo OUT --parts vae gguf text_gguf
    python3 tools/reference/full_size.py flux1-schnell OUT --parts text_encoder vae gguf text_gguf
    python3 tools/reference/full_size.py sdxl OUT --parts unet text_encoder text_encoder_2 vae
    python3 tools/reference/full_size.py sd15 OUT --parts unet text_encoder vae
    python3 tools/reference/full_size.py wan-1.3b OUT --parts vae gguf text_gguf
    python3 tools/reference/full_size.py wan-a14b OUT --parts vae gguf text_gguf
    python3 tools/reference/full_size.py wan-ti2v-5b OUT --parts vae gguf text_gguf

OUT becomes a folder as the model is published: what --parts names in bf16 (Stable Diffusion in f16), in files of 5 GB (Z-Image's transformer has
12.3 GB, klein's 7.8 GB, their text encoder 8 GB), and always configs, scheduler and tokenizers, whose merges and pieces
are made up. With `gguf`, beside it in OUT-Q4_K.gguf the transformer as random blocks of Q4_K under its original names
(Z-Image 3.5 GB, klein 2.2, Qwen-Image 11.5, Krea 2 7.2, FLUX.1 6.7, Wan 1.3B 0.8, TI2V-5B 2.8, and each expert of A14B 8.1, the
second in OUT-2-Q4_K.gguf); with `text_gguf` in OUT-text-Q4_K.gguf the large text encoder under llama.cpp's names; with
`original_vae` in OUT-vae.safetensors Wan's or Qwen-Image's autoencoder under the names of its team. A tensor is made
and written in pieces of 64 MiB: no more is ever in memory.
"""

import argparse
import dataclasses
import json
import pathlib
import random
import re
from collections.abc import Callable

import gguf
import numpy as np
import torch
from diffusers import (
    AutoencoderKL,
    AutoencoderKLFlux2,
    AutoencoderKLQwenImage,
    AutoencoderKLWan,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    Flux2Transformer2DModel,
    FluxTransformer2DModel,
    Krea2Transformer2DModel,
    QwenImageTransformer2DModel,
    UNet2DConditionModel,
    UniPCMultistepScheduler,
    WanTransformer3DModel,
    ZImageTransformer2DModel,
)
from tokenizers import pre_tokenizers
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3VLConfig,
    Qwen3VLModel,
    T5Config,
    T5EncoderModel,
    UMT5Config,
    UMT5EncoderModel,
)

import byte_pair
import clip_tokenizer
import flux2_gguf
import single_files
import tokenizer

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
# Of krea/Krea-2-Turbo, whose transformer and autoencoder have the classes' defaults.
KREA_2_TEXT = dict(TEXT, rope_parameters={"rope_type": "default", "rope_theta": 5e6, "mrope_section": [24, 20, 20]})
KREA_2_SCHEDULER = dict(QWEN_SCHEDULER, max_image_seq_len=6400, max_shift=1.15, shift_terminal=None)
# Of black-forest-labs/FLUX.1-schnell; its VAE is Z-Image's.
CLIP_L = dict(
    hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12, projection_dim=768,
    max_position_embeddings=77, hidden_act="quick_gelu", bos_token_id=0, eos_token_id=2, vocab_size=49408,
)  # fmt: skip
T5_XXL = dict(
    vocab_size=32128, d_model=4096, d_kv=64, num_heads=64, d_ff=10240, num_layers=24, feed_forward_proj="gated-gelu",
)  # fmt: skip
# Of Wan-AI/Wan2.1-T2V-1.3B-Diffusers; the classes' defaults are those of 14B.
UMT5_XXL = dict(T5_XXL, vocab_size=256384)
WAN_1_3B = dict(num_attention_heads=12, ffn_dim=8960, num_layers=30)
# Of Wan-AI/Wan2.2-TI2V-5B-Diffusers; latents come as they are.
WAN_TI2V_5B = dict(num_attention_heads=24, ffn_dim=14336, num_layers=30, in_channels=48, out_channels=48)
WAN_2_2_VAE = dict(
    base_dim=160, decoder_base_dim=256, z_dim=48, dim_mult=[1, 2, 4, 4], num_res_blocks=2,
    temperal_downsample=[False, True, True], is_residual=True, in_channels=12, out_channels=12, patch_size=2,
    scale_factor_spatial=16, scale_factor_temporal=4, latents_mean=[0.0] * 48, latents_std=[1.0] * 48,
)  # fmt: skip
# Of stable-diffusion-v1-5 and stable-diffusion-xl-base-1.0, whose autoencoder differs from FLUX.1's.
SD_VAE = dict(
    Z_IMAGE_VAE, latent_channels=4, use_quant_conv=True, use_post_quant_conv=True, scaling_factor=0.18215, shift_factor=None,
)  # fmt: skip
SD15 = dict(sample_size=64, cross_attention_dim=768, attention_head_dim=8)
SDXL = dict(
    sample_size=128, block_out_channels=(320, 640, 1280), cross_attention_dim=2048, attention_head_dim=(5, 10, 20),
    down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"), transformer_layers_per_block=(1, 2, 10),
    use_linear_projection=True, addition_embed_type="text_time", addition_time_embed_dim=256,
    projection_class_embeddings_input_dim=2816,
)  # fmt: skip
CLIP_G = dict(
    CLIP_L, hidden_size=1280, intermediate_size=5120, num_hidden_layers=32, num_attention_heads=20, projection_dim=1280,
    hidden_act="gelu",
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


def pieces(rng, count, mean, std, dtype):
    """`count` values of 16 bits, piece by piece."""
    for start in range(0, count, PIECE):
        size = min(PIECE, count - start)
        values = torch.randn(size, generator=rng) * std + mean
        yield values.to(dtype).view(torch.int16).numpy()


def write_safetensors(path, shapes, rng, dtype=torch.bfloat16):
    """One file of bf16 tensors, or f16."""
    header, place = {}, 0
    kind = "F16" if dtype == torch.float16 else "BF16"
    for name, shape in shapes.items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [place, place + size]}
        place += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shapes.items():
            for piece in pieces(rng, int(np.prod(shape)), *rule(name, shape), dtype):
                piece.tofile(file)


def write_component(folder, module, stem, rng, dtype):
    """The module's parameters, in as many files as its library would write."""
    statistics = [(name, buffer) for name, buffer in module.named_buffers() if "running_" in name]
    # Files have kept a level that the class has lost since; the one with a projection has it still.
    level = "text_model." if isinstance(module, CLIPTextModel) else ""
    shapes = {level + name: tuple(tensor.shape) for name, tensor in [*module.named_parameters(), *statistics]}
    shards, room = [{}], SHARD_BYTES
    for name, shape in shapes.items():
        size = 2 * int(np.prod(shape))
        if size > room and shards[-1]:
            shards.append({})
            room = SHARD_BYTES
        shards[-1][name] = shape
        room -= size
    if len(shards) == 1:
        return write_safetensors(folder / f"{stem}.safetensors", shards[0], rng, dtype)
    weight_map = {}
    for i, shard in enumerate(shards):
        name = f"{stem}-{i + 1:05}-of-{len(shards):05}.safetensors"
        write_safetensors(folder / name, shard, rng, dtype)
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


def krea2_shapes(module):
    """Likewise; the vectors of a block's table lie in one row."""
    shapes = {}
    for name, parameter in module.named_parameters():
        shape = tuple(parameter.shape)
        if re.search(r"blocks\.\d+\.scale_shift_table", name):
            shape = (shape[0] * shape[1],)
        for pattern, theirs in KREA_2_NAMES:
            name = re.sub(pattern, theirs, name)
        shapes[name] = shape
    return shapes


KREA_2_NAMES = (
    (r"^img_in", "first"), (r"^time_embed\.linear_1", "tmlp.0"), (r"^time_embed\.linear_2", "tmlp.2"),
    (r"^time_mod_proj", "tproj.1"), (r"^txt_in\.norm\.weight", "txtmlp.0.scale"), (r"^txt_in\.linear_1", "txtmlp.1"),
    (r"^txt_in\.linear_2", "txtmlp.3"), (r"^text_fusion", "txtfusion"), (r"^transformer_blocks", "blocks"),
    (r"^final_layer\.linear", "last.linear"), (r"^final_layer\.norm\.weight", "last.norm.scale"),
    (r"^final_layer\.scale_shift_table", "last.modulation.lin"), (r"attn\.to_([qkv])", r"attn.w\1"),
    (r"attn\.to_out\.0", "attn.wo"), (r"attn\.to_gate", "attn.gate"), (r"attn\.norm_([qk])\.weight", r"attn.qknorm.\1norm.scale"),
    (r"\.ff\.", ".mlp."), (r"\.norm1\.weight", ".prenorm.scale"), (r"\.norm2\.weight", ".postnorm.scale"),
    (r"\.scale_shift_table", ".mod.lin"),
)  # fmt: skip


def flux1_shapes(module):
    """Likewise: queries, keys and values in one, in single blocks with the feed-forward's first layer."""
    own = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
    shapes = {}
    for name, shape in own.items():
        if re.search(r"\.(to_k|to_v|add_k_proj|add_v_proj|proj_mlp)\.", name):
            continue
        stored = name
        if ".to_q." in name or ".add_q_proj." in name:
            is_single = name.startswith("single")
            rows = 3 * shape[0] + (own[name.replace("attn.to_q", "proj_mlp")][0] if is_single else 0)
            shape = (rows, *shape[1:])
        for pattern, theirs in FLUX1_NAMES:
            stored = re.sub(pattern, theirs, stored)
        shapes[stored] = shape
    return shapes


FLUX1_NAMES = (
    (r"^x_embedder", "img_in"), (r"^context_embedder", "txt_in"),
    (r"^time_text_embed\.timestep_embedder", "time_in"), (r"^time_text_embed\.guidance_embedder", "guidance_in"),
    (r"^time_text_embed\.text_embedder", "vector_in"), (r"_in\.linear_1", "_in.in_layer"),
    (r"_in\.linear_2", "_in.out_layer"), (r"^norm_out\.linear", "final_layer.adaLN_modulation.1"),
    (r"^proj_out", "final_layer.linear"),
    (r"^single_transformer_blocks\.(\d+)\.attn\.to_q", r"single_blocks.\1.linear1"),
    (r"^single_transformer_blocks\.(\d+)\.proj_out", r"single_blocks.\1.linear2"),
    (r"^single_transformer_blocks\.(\d+)\.norm\.linear", r"single_blocks.\1.modulation.lin"),
    (r"^single_transformer_blocks\.(\d+)\.attn\.norm_q\.weight", r"single_blocks.\1.norm.query_norm.scale"),
    (r"^single_transformer_blocks\.(\d+)\.attn\.norm_k\.weight", r"single_blocks.\1.norm.key_norm.scale"),
    (r"^transformer_blocks", "double_blocks"), (r"\.norm1\.linear", ".img_mod.lin"),
    (r"\.norm1_context\.linear", ".txt_mod.lin"), (r"attn\.to_q", "img_attn.qkv"),
    (r"attn\.add_q_proj", "txt_attn.qkv"), (r"attn\.to_out\.0", "img_attn.proj"),
    (r"attn\.to_add_out", "txt_attn.proj"), (r"attn\.norm_q\.weight", "img_attn.norm.query_norm.scale"),
    (r"attn\.norm_k\.weight", "img_attn.norm.key_norm.scale"),
    (r"attn\.norm_added_q\.weight", "txt_attn.norm.query_norm.scale"),
    (r"attn\.norm_added_k\.weight", "txt_attn.norm.key_norm.scale"),
    (r"\.ff\.net\.0\.proj", ".img_mlp.0"), (r"\.ff\.net\.2", ".img_mlp.2"),
    (r"\.ff_context\.net\.0\.proj", ".txt_mlp.0"), (r"\.ff_context\.net\.2", ".txt_mlp.2"),
)  # fmt: skip


def wan_shapes(module):
    """Likewise."""
    return {single_files.wan_name(name): tuple(parameter.shape) for name, parameter in module.named_parameters()}


def t5_shapes(module):
    """A T5 or UMT5 encoder under the names of llama.cpp."""
    return {
        single_files.t5_name(name): tuple(parameter.shape)
        for name, parameter in module.named_parameters()
        if not name.startswith("encoder.embed_tokens")
    }


def wan_vae_shapes(module):
    """The autoencoder of Wan or Qwen-Image under the names of Wan's team."""
    return {
        single_files.vae_name(name, module.config.num_res_blocks + 2): tuple(parameter.shape)
        for name, parameter in module.named_parameters()
    }


def llama_cpp_qwen3_shapes(module):
    """A Qwen3-VL without its vision tower, under the names of llama.cpp."""
    shapes = {}
    for name, parameter in module.language_model.named_parameters():
        for pattern, theirs in LLAMA_CPP_QWEN3:
            name = re.sub(pattern, theirs, name)
        shapes[name] = tuple(parameter.shape)
    return shapes


LLAMA_CPP_QWEN3 = (
    (r"^embed_tokens", "token_embd"), (r"^norm", "output_norm"), (r"^layers", "blk"),
    (r"input_layernorm", "attn_norm"), (r"post_attention_layernorm", "ffn_norm"), (r"self_attn\.o_proj", "attn_output"),
    (r"self_attn\.([qkv])_(proj|norm)", lambda found: "attn_" + found[1] + ("_norm" if found[2] == "norm" else "")),
    (r"mlp\.(\w+)_proj", r"ffn_\1"),
)  # fmt: skip


def llama_cpp_shapes(module):
    """A Qwen2.5-VL without its vision tower, under the names of llama.cpp."""
    text = module.config.text_config
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
    """What differs between models. Text encoders and tokenizers are by their folders."""

    pipeline: str
    settings: dict
    transformer: Callable
    vae: Callable
    scheduler: Callable
    # Of its GGUF file, where it has one.
    architecture: str = ""
    original_shapes: Callable | None = None
    texts: dict = dataclasses.field(default_factory=lambda: {"text_encoder": QWEN3})
    # The one whose GGUF file is written, its architecture there, and its names.
    text_gguf: tuple | None = None
    tokenizers: dict = dataclasses.field(default_factory=lambda: {"tokenizer": QWEN_TOKENIZER})
    transformers: tuple = ("transformer",)
    dtype: torch.dtype = torch.bfloat16


QWEN3 = lambda: Qwen3ForCausalLM(Qwen3Config(**TEXT))
QWEN_TOKENIZER = ("Qwen2Tokenizer", lambda folder: byte_pair.build(folder, *made_up_merges(7)))


def flow(**settings):
    """The scheduler of image models."""
    return lambda: FlowMatchEulerDiscreteScheduler(**settings)


def wan(experts, shift, transformer, vae=None):
    """Wan 2.1, with two experts or another autoencoder Wan 2.2."""
    settings = {"boundary_ratio": 0.875} if experts == 2 else {}
    return Family(
        "WanPipeline",
        {**settings, "expand_timesteps": vae is not None} if settings or vae else {},
        lambda: WanTransformer3DModel(**transformer),
        lambda: AutoencoderKLWan(**(vae or {})),
        lambda: UniPCMultistepScheduler(
            prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=shift, num_train_timesteps=1000
        ),
        "wan",
        wan_shapes,
        {"text_encoder": lambda: UMT5EncoderModel(UMT5Config(**UMT5_XXL))},
        ("text_encoder", "t5encoder", t5_shapes),
        {"tokenizer": ("T5TokenizerFast", lambda folder: tokenizer.build(folder, UMT5_XXL["vocab_size"]))},
        ("transformer", "transformer_2")[:experts],
    )  # fmt: skip


def stable_diffusion(name, unet, vae, texts, **settings):
    """One encoder and tokenizer, or two."""
    suffixes = ["", "_2"][: len(texts)]
    return Family(
        name,
        settings,
        lambda: UNet2DConditionModel(**unet),
        lambda: AutoencoderKL(**{**SD_VAE, **vae}),
        lambda: EulerDiscreteScheduler(
            beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", timestep_spacing="leading", steps_offset=1
        ),
        texts={f"text_encoder{suffix}": text for suffix, text in zip(suffixes, texts)},
        tokenizers={f"tokenizer{suffix}": ("CLIPTokenizer", clip_tokenizer.build) for suffix in suffixes},
        transformers=("unet",),
        dtype=torch.float16,
    )


FAMILIES = {
    "sd15": stable_diffusion("StableDiffusionPipeline", SD15, {}, [lambda: CLIPTextModel(CLIPTextConfig(**CLIP_L))]),
    "sdxl": stable_diffusion(
        "StableDiffusionXLPipeline",
        SDXL,
        {"scaling_factor": 0.13025, "force_upcast": True},
        [
            lambda: CLIPTextModel(CLIPTextConfig(**CLIP_L)),
            lambda: CLIPTextModelWithProjection(CLIPTextConfig(**CLIP_G)),
        ],
        force_zeros_for_empty_prompt=True,
    ),
    "z-image-turbo": Family(
        "ZImagePipeline",
        {},
        ZImageTransformer2DModel,
        lambda: AutoencoderKL(**Z_IMAGE_VAE),
        flow(shift=3.0),
        "lumina2",
        z_image_shapes,
    ),
    "klein-4b": Family(
        "Flux2KleinPipeline",
        {"is_distilled": True},
        lambda: Flux2Transformer2DModel(**KLEIN_4B),
        AutoencoderKLFlux2,
        flow(shift=3.0, use_dynamic_shifting=True),
        "flux",
        flux2_shapes,
    ),
    "qwen-image": Family(
        "QwenImagePipeline",
        {},
        QwenImageTransformer2DModel,
        AutoencoderKLQwenImage,
        flow(**QWEN_SCHEDULER),
        "qwen_image",
        qwen_image_shapes,
        {"text_encoder": lambda: Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(text_config=VISION_TEXT))},
        ("text_encoder", "qwen2vl", llama_cpp_shapes),
    ),
    "krea-2-turbo": Family(
        "Krea2Pipeline",
        {"is_distilled": True},
        Krea2Transformer2DModel,
        AutoencoderKLQwenImage,
        flow(**KREA_2_SCHEDULER),
        "krea2",
        krea2_shapes,
        {"text_encoder": lambda: Qwen3VLModel(Qwen3VLConfig(text_config=KREA_2_TEXT))},
        ("text_encoder", "qwen3vl", llama_cpp_qwen3_shapes),
    ),
    "flux1-schnell": Family(
        "FluxPipeline",
        {},
        FluxTransformer2DModel,
        lambda: AutoencoderKL(**Z_IMAGE_VAE),
        flow(shift=1.0),
        "flux",
        flux1_shapes,
        {
            "text_encoder": lambda: CLIPTextModel(CLIPTextConfig(**CLIP_L)),
            "text_encoder_2": lambda: T5EncoderModel(T5Config(**T5_XXL)),
        },
        ("text_encoder_2", "t5encoder", t5_shapes),
        {
            "tokenizer": ("CLIPTokenizer", clip_tokenizer.build),
            "tokenizer_2": ("T5TokenizerFast", lambda folder: tokenizer.build(folder, T5_XXL["vocab_size"])),
        },
    ),
    "wan-1.3b": wan(1, 3.0, WAN_1_3B),
    "wan-a14b": wan(2, 12.0, {}),
    "wan-ti2v-5b": wan(1, 5.0, WAN_TI2V_5B, WAN_2_2_VAE),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--parts", nargs="+", default=["transformer", "text_encoder", "vae", "gguf"])
    arguments = parser.parse_args()
    family, out, parts = FAMILIES[arguments.family], arguments.out, arguments.parts
    rng = torch.Generator().manual_seed(5)
    with torch.device("meta"):
        transformer = family.transformer()
        texts = {name: make() for name, make in family.texts.items()}
        vae = family.vae()
    modules = {**dict.fromkeys(family.transformers, transformer), **texts, "vae": vae}
    scheduler = family.scheduler()
    for name in (*modules, *family.tokenizers, "scheduler"):
        (out / name).mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        text.config.architectures = [type(text).__name__]
        text.config.save_pretrained(out / name)
    for name in (*family.transformers, "vae"):
        modules[name].save_config(out / name)
    scheduler.save_config(out / "scheduler")
    for name, (_, build) in family.tokenizers.items():
        build(out / name)
    index = {
        "_class_name": family.pipeline,
        **family.settings,
        "scheduler": ["diffusers", type(scheduler).__name__],
        **{name: ["transformers", type(text).__name__] for name, text in texts.items()},
        **{name: ["transformers", kind] for name, (kind, _) in family.tokenizers.items()},
        **{name: ["diffusers", type(modules[name]).__name__] for name in (*family.transformers, "vae")},
    }
    (out / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    for name in modules:
        if name in parts:
            write_component(out / name, modules[name], "model" if name in texts else "diffusion_pytorch_model", rng, family.dtype)
    if "gguf" in parts and family.original_shapes:
        for i, _ in enumerate(family.transformers):
            path = out.with_name(out.name + ("-2-Q4_K.gguf" if i else "-Q4_K.gguf"))
            write_gguf(path, family.architecture, family.original_shapes(transformer), 6 + i)
    if "text_gguf" in parts and family.text_gguf:
        name, architecture, shapes = family.text_gguf
        path = out.with_name(out.name + "-text-Q4_K.gguf")
        write_gguf(path, architecture, shapes(texts[name]), 8)
    if "original_vae" in parts:
        write_safetensors(out.with_name(out.name + "-vae.safetensors"), wan_vae_shapes(vae), rng)


if __name__ == "__main__":
    main()
