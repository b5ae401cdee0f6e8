"""Adapters: one in two files, under the names of diffusers and under those of a model's authors, who join layers; and one in a file."""

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


def save_adapters(folder, model, seed, adapted):
    """The pair in f16 as image pipelines are tested: `adapter.safetensors` is under the names of diffusers."""
    save_adapter_pair(folder, model, seed, adapted, "diffusion_model.", torch.half)
    (folder / "adapter-diffusers.safetensors").rename(folder / "adapter.safetensors")


def save_adapter(folder, model, seed, adapted, std=0.2, rank=2):
    """Writes `adapter.safetensors` in f16, and gives its tensors.

    `adapted`: modules of `model` under the names of diffusers, or the authors' names -> these modules.
    """
    rng = generator(seed)
    prefix, names = ("diffusion_model", adapted) if isinstance(adapted, dict) else ("transformer", dict(zip(adapted, adapted)))
    tensors = {}
    for name, module in names.items():
        rows, columns = model.get_submodule(module).weight.shape
        tensors[f"{prefix}.{name}.lora_A.weight"] = normal(rng, rank, columns, std=columns**-0.5).half()
        tensors[f"{prefix}.{name}.lora_B.weight"] = normal(rng, rows, rank, std=std).half()
    save_file(tensors, folder / "adapter.safetensors")
    return tensors
