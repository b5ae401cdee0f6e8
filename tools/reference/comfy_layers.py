"""ComfyUI's layers in nvfp4, mxfp8 and int8, each with the numbers that comfy-kitchen decodes.

Needs `comfy-kitchen` 0.2.40 beside the other requirements; its CPU code is what runs.
"""

import json

import torch
from comfy_kitchen.tensor import TensorCoreMXFP8Layout, TensorCoreNVFP4Layout, TensorWiseINT8Layout
from safetensors.torch import save_file

import common
from common import generator

FOLDER = common.GOLDENS.parent / "comfy_layers"

# More than one tile of 128 × 4 scales each way, of which the last is not full.
LAYERS = {
    "nvfp4": (TensorCoreNVFP4Layout, [144, 80], {"format": "nvfp4"}, {}),
    "mxfp8": (TensorCoreMXFP8Layout, [160, 160], {"format": "mxfp8"}, {}),
    "whole": (TensorWiseINT8Layout, [6, 10], {"format": "int8_tensorwise"}, {}),
    "rows": (TensorWiseINT8Layout, [6, 10], {"format": "int8_tensorwise", "per_row": True}, {"per_channel": True}),
    "rotated": (
        TensorWiseINT8Layout,
        [5, 512],
        {"format": "int8_tensorwise", "convrot": True},
        {"per_channel": True, "convrot": True},
    ),
    "groups": (
        TensorWiseINT8Layout,
        [6, 48],
        {"format": "int8_tensorwise", "params": {"convrot": True, "convrot_groupsize": 16}},
        {"per_channel": True, "convrot": True, "convrot_groupsize": 16},
    ),
}


def main():
    rng = generator(2026)
    tensors, expected = {}, {}
    for name, (layout, shape, mark, options) in LAYERS.items():
        weight = torch.randn(shape, generator=rng) * torch.logspace(-2, 0, shape[0])[:, None] * 0.1
        data, params = layout.quantize(weight, **options)
        for ending, tensor in layout.state_dict_tensors(data, params).items():
            # Files have bytes for the type of powers of two.
            plain = tensor.view(torch.uint8) if tensor.dtype == torch.float8_e8m0fnu else tensor
            tensors[f"{name}.weight{ending}"] = plain.contiguous()
        tensors[f"{name}.comfy_quant"] = torch.tensor(list(json.dumps(mark).encode()), dtype=torch.uint8)
        stored = torch.bfloat16 if name == "mxfp8" else torch.float16
        expected[name] = layout.dequantize(data, params).to(stored)
    FOLDER.mkdir(exist_ok=True)
    save_file(tensors, FOLDER / "layers.safetensors")
    save_file(expected, FOLDER / "golden.safetensors")


if __name__ == "__main__":
    main()
