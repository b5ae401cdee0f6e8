"""Writes an adapter of the transformer as three kinds of programs store it, in f16.

- `NAME.safetensors`: diffusers' names, rank and alpha in the header, as diffusers' trainers write it
- `NAME.kohya.safetensors`: the Wan team's names with underscores and a tensor `alpha` each, as sd-scripts and
  musubi-tuner write it
- `NAME.comfyui.safetensors`: the Wan team's names under `diffusion_model.`, with alpha / rank inside the weights
"""

from pathlib import Path

import torch
from diffusers import WanPipeline
from safetensors.torch import save_file

# diffusers' names of a block's linears, and the Wan team's, which most trainers keep.
ORIGINAL = {
    "attn1.to_out.0": "self_attn.o", "attn1.to_": "self_attn.", "attn2.to_out.0": "cross_attn.o",
    "attn2.to_": "cross_attn.", "ffn.net.0.proj": "ffn.0", "ffn.net.2": "ffn.2",
}


def original_name(module: str) -> str:
    """`blocks.0.attn1.to_out.0` as `blocks.0.self_attn.o`."""
    for ours, theirs in ORIGINAL.items():
        module = module.replace(ours, theirs)
    return module


def write(folder: Path, name: str, branches: dict[str, tuple[torch.Tensor, torch.Tensor]], alpha: float) -> list[Path]:
    """Writes all three; `branches`: module -> (down [rank, in], up [out, rank]), in diffusers' rotary layout.

    alpha / rank must be a power of two for the three to mean the very same.
    """
    halves = {module: (down.half().contiguous(), up.half().contiguous()) for module, (down, up) in branches.items()}
    rank = next(iter(halves.values()))[0].shape[0]
    plain, kohya, comfy = {}, {}, {}
    for module, (down, up) in halves.items():
        plain[f"{module}.lora_A.weight"], plain[f"{module}.lora_B.weight"] = down, up
        original = original_name(module)
        key = "lora_unet_" + original.replace(".", "_")
        kohya |= {f"{key}.lora_down.weight": down, f"{key}.lora_up.weight": up,
                  f"{key}.alpha": torch.tensor(float(alpha), dtype=torch.float16)}
        key = f"diffusion_model.{original}"
        comfy |= {f"{key}.lora_A.weight": down, f"{key}.lora_B.weight": up * (alpha / rank)}
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}{dialect}.safetensors" for dialect in ("", ".kohya", ".comfyui")]
    endings = sorted({module.split(".", 2)[2] for module in halves})
    WanPipeline.save_lora_weights(
        folder, transformer_lora_layers=plain, weight_name=paths[0].name,
        transformer_lora_adapter_metadata={"r": rank, "lora_alpha": alpha, "target_modules": endings})
    described = {"modelspec.title": name, "ss_network_module": "networks.lora", "ss_network_dim": str(rank),
                 "ss_network_alpha": str(float(alpha))}
    save_file(kohya, paths[1], metadata={"format": "pt", **described})
    save_file(comfy, paths[2], metadata={"format": "pt"})
    for path in paths:
        path.chmod(0o644)
    return paths
