"""Goldens of a Wan transformer for video sparse attention (FastWan): diffusers' class, to which gates are added.

diffusers has no such model. Every block has one layer more, `to_gate_compress`; beside the attention of tokens stands that
of the means of tiles of 4x4x4 tokens, with the gate as its weight. Attention of tokens is whole: a sparsity of 0.
"""

import contextlib

import diffusers.models.transformers.transformer_wan as module
import torch
from diffusers import WanTransformer3DModel
from safetensors.torch import load_file

from common import Call, generator, normal, randomise, rescale
from seeded import keep_seed, with_weights

TILE = 4
_attend = module.dispatch_attention_fn


def with_gates(model):
    for block in model.blocks:
        dim = block.attn1.to_q.in_features
        block.to_gate_compress = torch.nn.Linear(dim, dim)
    return model


def tile_of(frames, height, width):
    """The tile of every token of a grid."""
    places = torch.stack(torch.meshgrid(*[torch.arange(n) // TILE for n in (frames, height, width)], indexing="ij"))
    down, across = -(-height // TILE), -(-width // TILE)
    return ((places[0] * down + places[1]) * across + places[2]).flatten()


@contextlib.contextmanager
def tiles_attended(model, grid):
    """While it lasts, self-attention has that of the tiles beside it."""
    tiles = tile_of(*grid)
    gates = []

    def attend(query, key, value, **others):
        result = _attend(query, key, value, **others)
        if not gates:
            return result
        gate = gates.pop().unflatten(2, (query.shape[2], -1))
        means = [torch.stack([x[:, tiles == i].mean(1) for i in range(int(tiles.max()) + 1)], 1) for x in (query, key, value)]
        of_tiles = torch.nn.functional.scaled_dot_product_attention(*[x.transpose(1, 2) for x in means]).transpose(1, 2)
        return result + gate * of_tiles[:, tiles]

    def keep(block):
        return lambda _, arguments: gates.append(block.to_gate_compress(arguments[0]))

    hooks = [block.attn1.register_forward_pre_hook(keep(block)) for block in model.blocks]
    module.dispatch_attention_fn = attend
    try:
        yield
    finally:
        module.dispatch_attention_fn = _attend
        for hook in hooks:
            hook.remove()


def build(folder, seed, **config):
    model = randomise(with_gates(WanTransformer3DModel(**config)), seed)
    rescale(model.proj_out, 0.1)
    model.save_pretrained(folder)
    keep_seed(folder, model, seed)


def calls(folder, seed):
    model = with_gates(WanTransformer3DModel(**WanTransformer3DModel.load_config(folder))).eval()
    model.load_state_dict(load_file(f"{with_weights(folder)}/diffusion_pytorch_model.safetensors"))
    config, rng = model.config, generator(seed + 1)
    latents = normal(rng, 1, config.in_channels, 5, 12, 20)
    rows = normal(rng, 1, 7, config.text_dim)
    context = torch.zeros(1, 512, config.text_dim)
    context[:, :7] = rows
    timestep = torch.tensor([641.75])
    with tiles_attended(model, (5, 6, 10)):
        sample = model(latents, timestep, context).sample
    inputs = {"hidden_states": latents, "timestep": timestep, "context_rows": rows}
    args = {"context_length": 512, "context_real_rows": [7], "integer_timestep": False}
    return [Call("video", "5x6x10 tokens in 2x2x3 tiles", args, inputs, {"sample": sample})]
