"""Adapters of joined projections, of models that have no golden: only the changes. For lora.py."""

import diffusers.loaders.lora_conversion_utils as conversion
import torch
from safetensors.torch import load_file

from lora_files import AdapterFile
from lora_parts import OUT, SEED, call

FLUX_WIDTH = 24


def flux_call(name, description, path, converted):
    """`converted`: diffusers' names -> factors."""
    changes = {}
    for key in converted:
        if key.endswith("lora_A.weight"):
            module = key.removesuffix(".lora_A.weight")
            up = converted[f"{module}.lora_B.weight"].double()
            changes[module.removeprefix("transformer.")] = up @ converted[key].double()
    return call(name, description, None, [(path, 1.0)], "diffusers", {}, {}, changes, {})


def flux_pair(file, key, out, columns=FLUX_WIDTH, rank=3, alpha=None, names=("lora_down.weight", "lora_up.weight"), blocks=None):  # fmt: skip
    """Factors of any module; with `blocks`, each output part has a rank of its own."""
    file.key = lambda module: module
    file.put(key, names[0], rank, columns, std=columns**-0.5)
    up = file.put(key, names[1], out, rank, std=0.5)
    if blocks:
        rows, ranks = out // blocks, rank // blocks
        mask = torch.block_diag(*[torch.ones(rows, ranks)] * blocks)
        file.tensors[f"{key}.{names[1]}"] = (up * mask).to(file.dtype)
    if alpha is not None:
        file.alpha(key, alpha)


def flux_kohya():
    file, width = AdapterFile(SEED + 60, {}, None), FLUX_WIDTH
    block = "lora_unet_double_blocks_0_"
    flux_pair(file, f"{block}img_attn_qkv", 3 * width, alpha=2, rank=4)
    flux_pair(file, f"{block}txt_attn_qkv", 3 * width, alpha=4, rank=6, blocks=3)
    flux_pair(file, f"{block}img_attn_proj", width, alpha=2)
    flux_pair(file, f"{block}img_mlp_0", 4 * width, alpha=2)
    flux_pair(file, f"{block}txt_mod_lin", 6 * width, alpha=2)
    flux_pair(file, "lora_unet_single_blocks_7_linear2", width, 5 * width, alpha=2)
    file.save(OUT / "flux-kohya.safetensors", {"ss_network_module": "networks.lora_flux"})


def flux_xlabs():
    file, width = AdapterFile(SEED + 61, {}, None), FLUX_WIDTH
    names = ("down.weight", "up.weight")
    for i in (1, 2):
        flux_pair(file, f"double_blocks.0.processor.qkv_lora{i}", 3 * width, names=names)
        flux_pair(file, f"double_blocks.0.processor.proj_lora{i}", width, names=names)
    flux_pair(file, "single_blocks.7.processor.qkv_lora", 3 * width, names=names)
    flux_pair(file, "single_blocks.7.processor.proj_lora", width, 5 * width, names=names)
    file.save(OUT / "flux-xlabs.safetensors")


def z_image():
    file, width = AdapterFile(SEED + 62, {}, None), FLUX_WIDTH
    names = ("lora.down.weight", "lora.up.weight")
    prefix = "diffusion_model.layers.3.attention."
    flux_pair(file, f"{prefix}qkv", 3 * width, names=names, alpha=2, rank=4)
    flux_pair(file, f"{prefix}out", width, names=names, alpha=2)
    file.save(OUT / "z-image-joined.safetensors")


def flux_calls():
    def stored(name):
        return load_file(OUT / f"{name}.safetensors")

    return [
        flux_call("flux-kohya", "FLUX.1 by kohya: joined q, k, v, also block-diagonal",
                  "flux-kohya.safetensors",
                  conversion._convert_kohya_flux_lora_to_diffusers(stored("flux-kohya"))),
        flux_call("flux-xlabs", "FLUX.1 by XLabs: names of processors", "flux-xlabs.safetensors",
                  conversion._convert_xlabs_flux_lora_to_diffusers(stored("flux-xlabs"))),
        flux_call("z-image-joined", "Z-Image, joined q, k, v", "z-image-joined.safetensors",
                  conversion._convert_non_diffusers_z_image_lora_to_diffusers(
                      stored("z-image-joined"))),
    ]  # fmt: skip
