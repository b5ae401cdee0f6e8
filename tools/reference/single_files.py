"""A Wan model as people have it: in single files with the names of the Wan team and of llama.cpp, in
scaled fp8 and in GGUF of mixed types, and what diffusers makes of the numbers in them.

    python3 tools/reference/single_files.py

Writes tests/goldens/single_files/wan: `all.safetensors` holds three components behind prefixes, its
transformer in scaled fp8; `transformer.gguf` is another transformer, `text_encoder.gguf` the same
encoder. The calls `fp8` and `gguf` are pipelines of either, run on the numbers that their blocks stand
for, in float32. Tokenizer: that of tests/goldens/wan/pipeline-t2v.
"""

import pathlib
import re
import shutil
import tempfile

import gguf
import numpy as np
import torch
from diffusers import AutoencoderKLWan, UniPCMultistepScheduler, WanPipeline, WanTransformer3DModel
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, UMT5EncoderModel

from common import fresh_folder, generator, normal, randomise, rescale, write_golden
from lora_files import original
from pipeline import run_pipeline
from seeded import with_weights

ROOT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "goldens"
OUT = ROOT / "single_files" / "wan"
BASE = ROOT / "wan" / "pipeline-t2v"
SEED = 900
TEXT_DIM = 64
Type = gguf.GGMLQuantizationType


def transformer(heads, seed):
    config = dict(
        num_attention_heads=heads, attention_head_dim=128, in_channels=16, out_channels=16,
        text_dim=TEXT_DIM, freq_dim=256, ffn_dim=256, num_layers=1,
    )  # fmt: skip
    model = randomise(WanTransformer3DModel(**config), seed)
    with torch.no_grad():
        rng = generator(seed + 2)
        sample = model(
            normal(rng, 1, 16, 1, 6, 10), torch.tensor([500.0]), normal(rng, 1, 8, TEXT_DIM)
        )
        rescale(model.proj_out, 1.0 / sample.sample.std().item())
    return model


# Names


def wan_name(name):
    if name == "scale_shift_table":
        return "head.modulation"
    if name.endswith(".scale_shift_table"):
        return name.replace(".scale_shift_table", ".modulation")
    module, _, tail = name.rpartition(".")
    module = module.replace("condition_embedder.time_embedder.linear_2", "time_embedding.2")
    return f"{original(module)}.{tail}"


def vae_name(name, per_level):
    """`per_level`: entries of a level of the decoder in the flat list, its upsampler included."""
    for ours, theirs in (("norm1.", "residual.0."), ("conv1.", "residual.2."),
                         ("norm2.", "residual.3."), ("conv2.", "residual.6."),
                         ("conv_shortcut.", "shortcut.")):  # fmt: skip
        name = re.sub(rf"(resnets\.\d+|down_blocks\.\d+)\.{re.escape(ours)}", rf"\1.{theirs}", name)
    name = re.sub(r"mid_block\.resnets\.(\d)", lambda m: f"middle.{2 * int(m[1])}", name)
    name = name.replace("mid_block.attentions.0", "middle.1")
    name = name.replace("down_blocks", "downsamples")
    name = re.sub(
        r"up_blocks\.(\d+)\.resnets\.(\d+)",
        lambda m: f"upsamples.{per_level * int(m[1]) + int(m[2])}",
        name,
    )
    name = re.sub(
        r"up_blocks\.(\d+)\.upsamplers\.0",
        lambda m: f"upsamples.{per_level * (int(m[1]) + 1) - 1}",
        name,
    )
    for ours, theirs in (("conv_in", "conv1"), ("norm_out", "head.0"), ("conv_out", "head.2"),
                         ("post_quant_conv", "conv2"), ("quant_conv", "conv1")):  # fmt: skip
        name = name.replace(ours, theirs)
    return name


def t5_name(name):
    for ours, theirs in (("shared", "token_embd"), ("encoder.block.", "enc.blk."),
                         ("layer.0.SelfAttention.relative_attention_bias", "attn_rel_b"),
                         ("layer.0.SelfAttention.", "attn_"), ("layer.0.layer_norm", "attn_norm"),
                         ("layer.1.layer_norm", "ffn_norm"),
                         ("layer.1.DenseReluDense.wi_0", "ffn_gate"),
                         ("layer.1.DenseReluDense.wi_1", "ffn_up"),
                         ("layer.1.DenseReluDense.wo", "ffn_down"),
                         ("encoder.final_layer_norm", "enc.output_norm")):  # fmt: skip
        name = name.replace(ours, theirs)
    return name


# Files


def scaled_fp8(model):
    """Tensors of the file, and in place the numbers that they stand for."""
    prefix = "model.diffusion_model."
    tensors = {f"{prefix}scaled_fp8": torch.zeros(2).to(torch.float8_e4m3fn)}
    for name, parameter in model.named_parameters():
        stored = wan_name(name)
        if stored.endswith(".weight") and parameter.ndim == 2 and stored.startswith("blocks"):
            scale = parameter.abs().max() / 448
            tensors[prefix + stored] = (parameter / scale).to(torch.float8_e4m3fn)
            tensors[prefix + stored.replace(".weight", ".scale_weight")] = scale.clone()
            parameter.copy_(tensors[prefix + stored].float() * scale)
        else:
            tensors[prefix + stored] = parameter.bfloat16()
            parameter.copy_(tensors[prefix + stored].float())
    return tensors


# Elements of a block, where its float16 scales lie, and by what the second exceeds the first.
RANDOM = {Type.Q4_K: (256, 0, 7.5), Type.Q5_K: (256, 0, 15.5), Type.Q6_K: (256, 208, None)}


def random_blocks(kind, shape, rng):
    """Blocks of a kind that gguf does not quantise to, their values about as large as weights are."""
    elements, at, offset = RANDOM[kind]
    size = gguf.GGML_QUANT_SIZES[kind][1]
    count = shape[0] * shape[1] // elements
    blocks = rng.integers(0, 256, size=(count, size), dtype=np.uint8)

    def scale(d):
        blocks[:, at : at + 2] = np.full((count, 1), d, "<f2").view(np.uint8)
        if offset:
            blocks[:, at + 2 : at + 4] = np.full((count, 1), d * offset, "<f2").view(np.uint8)

    scale(2.0**-8)
    scale(2.0**-8 * shape[1] ** -0.5 / gguf.quants.dequantize(blocks, kind).std())
    return blocks.reshape(shape[0], -1)


# By what a name has in it; the first counts.
KINDS = [
    ("patch_embedding", Type.F16), ("self_attn.q", Type.Q4_K), ("self_attn.k", Type.Q5_K),
    ("self_attn.v", Type.Q6_K), ("self_attn.o", Type.Q5_0), ("cross_attn.q", Type.Q4_K),
    ("cross_attn.k", Type.Q4_K), ("cross_attn.v", Type.Q4_0), ("cross_attn.o", Type.Q6_K),
    ("ffn.0", Type.Q4_K), ("ffn.2", Type.Q8_0), ("time_projection", Type.Q4_K),
    ("time_embedding", Type.BF16), ("text_embedding", Type.Q5_0), ("head.head", Type.F16),
]  # fmt: skip


def write_gguf(path, architecture, model, name_of, kind_of):
    """Writes the file, and in place the numbers that its blocks stand for."""
    rng = np.random.default_rng(SEED)
    writer = gguf.GGUFWriter(path, architecture)
    for name, parameter in model.named_parameters():
        stored = name_of(name)
        values = parameter.detach().numpy()
        kind = kind_of(stored) if stored.endswith(".weight") and values.ndim > 1 else Type.F32
        if kind in RANDOM:
            data = random_blocks(kind, values.shape, rng)
        else:
            data = gguf.quants.quantize(values, kind)
        raw = data.view(np.float16) if kind == Type.F16 else data
        writer.add_tensor(stored, np.ascontiguousarray(raw), raw_dtype=kind)
        numbers = gguf.quants.dequantize(data, kind).reshape(values.shape)
        parameter.copy_(torch.from_numpy(numbers.copy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    path.chmod(0o644)


def kind_of(name):
    return next((kind for part, kind in KINDS if part in name), Type.F32)


# Pipelines


def call(name, model, encoder, vae):
    with tempfile.TemporaryDirectory() as folder:
        WanPipeline(
            tokenizer=AutoTokenizer.from_pretrained(BASE / "tokenizer"),
            text_encoder=encoder,
            vae=vae,
            transformer=model,
            scheduler=UniPCMultistepScheduler(
                prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0
            ),
        ).save_pretrained(folder)
        result = run_pipeline(
            folder, name, "a red circle on the left", "blurry", 48, 32, 1, steps=3,
        )  # fmt: skip
    result.intermediates.clear()
    return result


@torch.no_grad()
def main():
    fresh_folder(OUT)
    base = with_weights(BASE)
    encoder = UMT5EncoderModel.from_pretrained(base / "text_encoder", dtype=torch.float32)
    weights = load_file(base / "vae" / "diffusion_pytorch_model.safetensors")
    config = AutoencoderKLWan.load_config(BASE / "vae")
    config.pop("latents_mean"), config.pop("latents_std")
    vae = AutoencoderKLWan.from_config(config)
    vae.load_state_dict({name: tensor.float() for name, tensor in weights.items()})

    fp8 = transformer(1, SEED)
    tensors = scaled_fp8(fp8)
    per_level = vae.config.num_res_blocks + 2
    for name, tensor in weights.items():
        tensors[f"vae.{vae_name(name, per_level)}"] = tensor
    for name, tensor in encoder.named_parameters():
        tensors[f"text_encoders.umt5xxl.transformer.{name}"] = tensor.half()
    save_file(tensors, OUT / "all.safetensors")
    calls = [call("fp8", fp8, encoder, vae)]

    model = transformer(2, SEED + 10)
    write_gguf(OUT / "transformer.gguf", "wan", model, wan_name, kind_of)
    write_gguf(OUT / "text_encoder.gguf", "t5encoder", encoder, t5_name,
               lambda name: Type.F16 if "rel_b" in name else Type.Q8_0)  # fmt: skip
    calls.append(call("gguf", model, encoder, vae))
    write_golden(OUT, "Wan pipelines from single files", SEED, calls)
    print(*sorted(f"{path.stat().st_size:>9} {path.name}" for path in OUT.iterdir()), sep="\n")


if __name__ == "__main__":
    main()
