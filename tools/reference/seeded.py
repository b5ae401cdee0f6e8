"""Weights that need no storing: a golden keeps the seed and the rules, the test draws them again.

So goldens of production width stay small. `seeded.json` lists, in the order in which they are drawn from
one generator, every tensor's name, shape, mean and standard deviation; values are rounded to `dtype`.
"""

import json
import pathlib

import torch

from common import generator

NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}


def rules_of(module, overrides=None):
    """(name, shape, mean, std) of every parameter, by the rules of `common.randomise`."""
    for name, parameter in module.named_parameters():
        if overrides and name in overrides:
            mean, std = overrides[name]
        elif parameter.ndim == 1 and name.endswith("weight"):
            mean, std = 1.0, 0.3
        elif parameter.ndim == 1 or "pad_token" in name:
            mean, std = 0.0, 0.2
        else:
            mean, std = 0.0, parameter[0].numel() ** -0.5
        yield name, list(parameter.shape), mean, std


@torch.no_grad()
def seed_weights(folder, module, seed, dtype=torch.bfloat16, buffers=(), overrides=None):
    """Fills the module, rounded to `dtype` but computed in float32, and writes the rules beside its config.

    `buffers`: (name, mean, std) of running statistics to draw after the parameters.
    """
    own = dict(module.named_parameters())
    stored = dict(module.named_buffers())
    rules = list(rules_of(module, overrides))
    rules += [(name, list(stored[name].shape), mean, std) for name, mean, std in buffers]
    rng = generator(seed)
    for name, shape, mean, std in rules:
        value = torch.randn(shape, generator=rng) * std + mean
        (own.get(name) if name in own else stored[name]).copy_(value.to(dtype).float())
    document = {"seed": seed, "dtype": NAMES[dtype], "tensors": rules}
    text = json.dumps(document, separators=(",", ":")).replace("],[", "],\n[").replace("]],", "]],\n")
    (pathlib.Path(folder) / "seeded.json").write_text(text + "\n")
    return module.eval()
