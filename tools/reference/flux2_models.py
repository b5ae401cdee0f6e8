"""Goldens of FLUX.2's transformer."""

import torch
from diffusers import Flux2KleinPipeline, Flux2Transformer2DModel

from common import Call, generator, normal, randomise
from seeded import keep_seed, seed_weights, with_weights

TINY = dict(
    in_channels=16, num_layers=1, num_single_layers=2, attention_head_dim=16, num_attention_heads=2,
    joint_attention_dim=24, timestep_guidance_channels=32, axes_dims_rope=(4, 4, 4, 4), guidance_embeds=True,
)  # fmt: skip
WIDE = dict(
    in_channels=128, num_layers=1, num_single_layers=1, attention_head_dim=128, num_attention_heads=2,
    joint_attention_dim=768, guidance_embeds=False,
)  # fmt: skip


def build_tiny(folder, seed):
    model = randomise(Flux2Transformer2DModel(**TINY), seed)
    model.save_pretrained(folder)
    keep_seed(folder, model, seed)


def load_tiny(folder, _seed):
    return Flux2Transformer2DModel.from_pretrained(with_weights(folder), torch_dtype=torch.float32).eval()


def build_wide(folder, seed):
    model = Flux2Transformer2DModel(**WIDE)
    model.save_config(folder)
    seed_weights(folder, model, seed)


def load_wide(folder, seed):
    model = Flux2Transformer2DModel(**WIDE)
    return seed_weights(folder, model, seed)


def case(model, rng, name, description, text_tokens, grid, references=(), timestep=0.75, guidance=None):
    """One call, with position ids as the pipeline makes them."""
    channels = model.config.in_channels
    context = normal(rng, 1, text_tokens, model.config.joint_attention_dim)
    sample = normal(rng, 1, channels, *grid)
    given = [normal(rng, 1, channels, *size) for size in references]
    pack = Flux2KleinPipeline._pack_latents
    tokens = [pack(latents) for latents in [sample, *given]]
    ids = [Flux2KleinPipeline._prepare_latent_ids(sample)]
    if given:
        ids.append(Flux2KleinPipeline._prepare_image_ids(given))
    output = model(
        hidden_states=torch.cat(tokens, dim=1),
        timestep=torch.tensor([timestep]),
        guidance=None if guidance is None else torch.tensor([guidance]),
        encoder_hidden_states=context,
        txt_ids=Flux2KleinPipeline._prepare_text_ids(context),
        img_ids=torch.cat(ids, dim=1),
    ).sample
    inputs = {"context": context, "sample": tokens[0]}
    if given:
        inputs["references"] = torch.cat(tokens[1:], dim=1)
    args = {
        "grid": list(grid),
        "reference_grids": [list(size) for size in references],
        "timestep": timestep,
        "guidance": guidance,
    }
    return Call(name, description, args, inputs, {"velocity": output[:, : tokens[0].shape[1]]})


def tiny_calls(folder, seed):
    model, rng = load_tiny(folder, seed), generator(seed + 1)
    return [
        case(model, rng, "text", "24 tokens from text", 7, (4, 6)),
        case(model, rng, "guided", "with a guidance embedding", 9, (3, 5), timestep=0.125, guidance=3.5),
        case(model, rng, "references", "two given pictures", 5, (4, 4), [(3, 5), (6, 2)], timestep=0.994),
    ]


def wide_calls(folder, seed):
    model, rng = load_wide(folder, seed), generator(seed + 1)
    return [
        case(model, rng, "text", "60 tokens from text", 33, (6, 10)),
        case(model, rng, "references", "two given pictures", 17, (4, 8), [(5, 3), (2, 6)], timestep=0.31),
    ]
