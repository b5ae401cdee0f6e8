"""A small FLUX.2 transformer as a GGUF file with the names of Black Forest Labs, blocks of Q4_0 and Q8_0 mixed."""

import re

import gguf
import numpy as np
import torch
from diffusers import Flux2Transformer2DModel

from common import randomise

# Heads as all published models have them: a single file does not tell their axes.
CONFIG = dict(
    in_channels=32, num_layers=1, num_single_layers=1, attention_head_dim=128, num_attention_heads=1,
    joint_attention_dim=48, timestep_guidance_channels=64, guidance_embeds=False,
)  # fmt: skip
NAME = "klein-tiny-mixed.gguf"

RENAMES = [
    (r"^transformer_blocks", "double_blocks"),
    (r"^single_transformer_blocks", "single_blocks"),
    (r"attn\.norm_added_q\.weight", "txt_attn.norm.query_norm.scale"),
    (r"attn\.norm_added_k\.weight", "txt_attn.norm.key_norm.scale"),
    (r"attn\.to_add_out", "txt_attn.proj"),
    (r"attn\.to_out\.0", "img_attn.proj"),
    (r"ff\.linear_in", "img_mlp.0"),
    (r"ff\.linear_out", "img_mlp.2"),
    (r"ff_context\.linear_in", "txt_mlp.0"),
    (r"ff_context\.linear_out", "txt_mlp.2"),
    (r"attn\.to_qkv_mlp_proj", "linear1"),
    (r"attn\.to_out\.weight", "linear2.weight"),
    (r"(single_blocks\.\d+)\.attn\.norm_q\.weight", r"\1.norm.query_norm.scale"),
    (r"(single_blocks\.\d+)\.attn\.norm_k\.weight", r"\1.norm.key_norm.scale"),
    (r"attn\.norm_q\.weight", "img_attn.norm.query_norm.scale"),
    (r"attn\.norm_k\.weight", "img_attn.norm.key_norm.scale"),
    (r"modulation(\w*)\.linear", r"modulation\1.lin"),
    (r"time_guidance_embed\.timestep_embedder\.linear_1", "time_in.in_layer"),
    (r"time_guidance_embed\.timestep_embedder\.linear_2", "time_in.out_layer"),
    (r"^x_embedder", "img_in"),
    (r"^context_embedder", "txt_in"),
    (r"^norm_out\.linear", "final_layer.adaLN_modulation.1"),
    (r"^proj_out", "final_layer.linear"),
]
JOINED = {
    "img_attn.qkv": ["attn.to_q", "attn.to_k", "attn.to_v"],
    "txt_attn.qkv": ["attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"],
}


def original_tensors(model):
    """(their name, [our names], whether the halves of its rows change places), in the order of the model."""
    for name, _ in model.named_parameters():
        block, _, module = name.partition(".attn.")
        joined = next((own for own in JOINED.items() if f"attn.{module}" in [m + ".weight" for m in own[1]]), None)
        if joined and name.startswith("transformer_blocks"):
            if f"attn.{module}" == joined[1][0] + ".weight":
                ours = [f"{block}.{part}.weight" for part in joined[1]]
                yield f"{block}.{joined[0]}.weight".replace("transformer_blocks", "double_blocks"), ours, False
            continue
        theirs = name
        for pattern, replacement in RENAMES:
            theirs = re.sub(pattern, replacement, theirs)
        yield theirs, [name], theirs.startswith("final_layer.adaLN")


def swapped(values):
    first, second = values.chunk(2)
    return torch.cat([second, first])


def build(folder, seed):
    model = randomise(Flux2Transformer2DModel(**CONFIG), seed)
    with torch.no_grad():
        model.proj_out.weight.mul_(0.7)
    own = dict(model.named_parameters())
    kinds = gguf.GGMLQuantizationType
    writer = gguf.GGUFWriter(folder / NAME, "flux")
    for theirs, ours, swaps in original_tensors(model):
        values = torch.cat([own[name].detach() for name in ours])
        values = (swapped(values) if swaps else values).numpy()
        kind = kinds.F32
        if values.ndim == 2 and values.shape[1] % 32 == 0:
            kind = kinds.Q8_0 if "in_layer" in theirs or "final" in theirs or "img_in" in theirs else kinds.Q4_0
            values = gguf.quants.quantize(values, kind)
        writer.add_tensor(theirs, np.ascontiguousarray(values), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def load(folder):
    """The model with the values that its blocks stand for, in float32."""
    model = Flux2Transformer2DModel(**CONFIG).eval()
    own = dict(model.named_parameters())
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(folder / NAME).tensors}
    with torch.no_grad():
        for theirs, ours, swaps in original_tensors(model):
            tensor = stored[theirs]
            values = torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).copy())
            values = swapped(values) if swaps else values
            for name, part in zip(ours, values.chunk(len(ours))):
                own[name].copy_(part.reshape(own[name].shape))
    return model
