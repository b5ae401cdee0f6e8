"""A small Wan transformer as a GGUF file with the names of the Wan team, blocks of Q4_K and Q8_0
mixed, for lora.py."""

import json

import gguf
import numpy as np
import torch
from diffusers import WanTransformer3DModel

from common import fresh_folder, generator, normal, randomise, rescale
from lora_files import original

CONFIG = dict(
    num_attention_heads=2, attention_head_dim=128, in_channels=4, out_channels=4, text_dim=64,
    freq_dim=64, ffn_dim=256, num_layers=1, rope_max_seq_len=64,
)  # fmt: skip

# Of the layers with 256 columns; the others are Q8_0. Everything else is float32.
Q4_K = ("attn1", "attn2.to_q", "attn2.to_v", "time_proj", "ffn.net.0", "linear_2")
NAME = "wan-tiny-mixed.gguf"


def quantise_q4_k(values):
    """Blocks of 256: eight sub-blocks, each with a scale and a least value of six bits."""
    x = values.reshape(-1, 8, 32).astype(np.float64)
    least = np.minimum(x.min(axis=2), 0)
    scale = (x.max(axis=2) - least) / 15
    d = (scale.max(axis=1) / 63).astype(np.float16)
    dmin = (-least.min(axis=1) / 63).astype(np.float16)
    wide_d, wide_min = (v.astype(np.float64)[:, None] for v in (d, dmin))
    s = np.clip(np.rint(scale / wide_d), 1, 63).astype(np.uint8)
    m = np.clip(np.rint(-least / wide_min), 0, 63).astype(np.uint8)
    q = np.rint((x + (wide_min * m)[:, :, None]) / (wide_d * s)[:, :, None])
    q = np.clip(q, 0, 15).astype(np.uint8).reshape(-1, 4, 2, 32)
    packed = np.concatenate(
        [
            s[:, :4] | (s[:, 4:] >> 4) << 6,
            m[:, :4] | (m[:, 4:] >> 4) << 6,
            (s[:, 4:] & 15) | (m[:, 4:] & 15) << 4,
        ],
        axis=1,
    )
    halves = np.stack([d, dmin], axis=1).view(np.uint8)
    quants = (q[:, :, 0] | q[:, :, 1] << 4).reshape(-1, 128)
    return np.concatenate([halves, packed, quants], axis=1).reshape(values.shape[0], -1)


def build(folder, seed):
    fresh_folder(folder)
    model = randomise(WanTransformer3DModel(**CONFIG), seed)
    with torch.no_grad():
        rng = generator(seed + 2)
        sample = model(normal(rng, 1, 4, 2, 6, 10), torch.tensor([500.0]), normal(rng, 1, 8, 64))
        rescale(model.proj_out, 1.0 / sample.sample.std().item())
    writer = gguf.GGUFWriter(folder / NAME, "wan")
    for name, parameter in model.named_parameters():
        module, _, tail = name.rpartition(".")
        values = parameter.detach().numpy()
        kind = gguf.GGMLQuantizationType.F32
        if tail == "weight" and values.ndim == 2:
            if values.shape[1] == 256 and any(part in module for part in Q4_K):
                kind = gguf.GGMLQuantizationType.Q4_K
                values = quantise_q4_k(values)
            else:
                kind = gguf.GGMLQuantizationType.Q8_0
                values = gguf.quants.quantize(values, kind)
        writer.add_tensor(stored_name(name), values, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (folder / NAME).chmod(0o644)
    model.save_config(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def stored_name(name):
    if name == "scale_shift_table":
        return "head.modulation"
    module, _, tail = name.rpartition(".")
    return f"{module}.modulation" if tail == "scale_shift_table" else f"{original(module)}.{tail}"


def load(folder):
    """The model with the values that its blocks stand for, in float32."""
    model = WanTransformer3DModel(**CONFIG).eval()
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(folder / NAME).tensors}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            tensor = stored[stored_name(name)]
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            parameter.copy_(torch.from_numpy(values.copy()).reshape(parameter.shape))
    return model
