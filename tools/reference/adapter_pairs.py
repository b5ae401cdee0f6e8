"""One adapter of rank 2 in two files: under the names of diffusers, and under those of a model's authors, who join layers."""

import torch
from safetensors.torch import save_file

from common import generator, normal


def save_adapter_pair(folder, model, seed, adapted, prefix, dtype):
    """Writes `adapter-diffusers.safetensors` and `adapter-original.safetensors`.

    `adapted`: module under the authors' names -> the modules of `model` that it joins, rows in their order.
    `prefix` stands before the authors' names.
    """
    rng = generator(seed)
    ours, theirs = {}, {}
    for name, modules in adapted.items():
        shapes = [tuple(model.get_submodule(module).weight.shape) for module in modules]
        down = normal(rng, 2, shapes[0][1], std=shapes[0][1] ** -0.5)
        ups = [normal(rng, rows, 2, std=0.4) for rows, _ in shapes]
        theirs[f"{prefix}{name}.lora_A.weight"] = down
        theirs[f"{prefix}{name}.lora_B.weight"] = torch.cat(ups)
        for module, up in zip(modules, ups):
            ours[f"transformer.{module}.lora_A.weight"] = down.clone()
            ours[f"transformer.{module}.lora_B.weight"] = up
    for name, file in {"diffusers": ours, "original": theirs}.items():
        save_file({key: tensor.to(dtype) for key, tensor in file.items()}, folder / f"adapter-{name}.safetensors")
