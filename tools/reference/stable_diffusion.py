"""Makes the goldens of Stable Diffusion under tests/goldens/stable_diffusion.

    python3 tools/reference/stable_diffusion.py                 # make all
    python3 tools/reference/stable_diffusion.py NAME ...        # make some
    python3 tools/reference/stable_diffusion.py --check [NAME]  # read the stored ones back and run them again

Weights are drawn from the seeds in the seeded.json of each component.
"""

from diffusers import UNet2DConditionModel

import common
from common import Call, generator, make_goldens, normal
from seeded import seed_weights

FOLDER = common.GOLDENS.parent / "stable_diffusion"

CROSS = ("CrossAttnDownBlock2D", "CrossAttnUpBlock2D")
PLAIN = ("DownBlock2D", "UpBlock2D")


def blocks(*kinds):
    """The block types of the levels, the largest first."""
    return dict(down_block_types=[kind[0] for kind in kinds], up_block_types=[kind[1] for kind in reversed(kinds)])


# Of the form of SD 1.5; heads of 12 and 20, groups of 6 and 10.
SD15 = dict(sample_size=8, block_out_channels=(24, 40, 40), layers_per_block=2, norm_num_groups=4, cross_attention_dim=20,
            attention_head_dim=2, **blocks(CROSS, CROSS, PLAIN))
# Of the form of SDXL, with its heads of 64.
SDXL = dict(sample_size=8, block_out_channels=(32, 64, 128), layers_per_block=2, norm_num_groups=8, cross_attention_dim=32,
            attention_head_dim=(1, 1, 2), transformer_layers_per_block=(1, 2, 3), use_linear_projection=True,
            addition_embed_type="text_time", addition_time_embed_dim=8, projection_class_embeddings_input_dim=16 + 6 * 8,
            **blocks(PLAIN, CROSS, CROSS))
# The heads of SD 1.5: 40, 80 and 160.
HEADS = dict(sample_size=8, block_out_channels=(80, 160, 320), layers_per_block=1, norm_num_groups=16,
             cross_attention_dim=64, attention_head_dim=2, **blocks(CROSS, CROSS, CROSS))
# Depths by layer, a middle block without attention, and the guidance embedded, as distilled models have it.
PRUNED = dict(sample_size=8, block_out_channels=(16, 32), layers_per_block=2, norm_num_groups=8, cross_attention_dim=24,
              attention_head_dim=(2, 4), transformer_layers_per_block=[1, [1, 2]],
              reverse_transformer_layers_per_block=[[3, 1, 2], 1], mid_block_type="UNetMidBlock2D",
              use_linear_projection=True, time_cond_proj_dim=32, **blocks(CROSS, CROSS))


def forward_call(model, name, seed, size, timestep, tokens=7):
    rng = generator(seed)
    config = model.config
    inputs = {
        "latents": normal(rng, 1, config.in_channels, *size),
        "text": normal(rng, 1, tokens, config.cross_attention_dim),
    }
    added = {}
    if config.addition_embed_type == "text_time":
        width = config.projection_class_embeddings_input_dim - 6 * config.addition_time_embed_dim
        inputs["pooled"] = normal(rng, 1, width)
        inputs["ids"] = common.torch.tensor([[48.0, 64.0, 3.0, 5.0, 32.0, 40.0]])
        added = {"added_cond_kwargs": {"text_embeds": inputs["pooled"], "time_ids": inputs["ids"]}}
    if config.time_cond_proj_dim:
        inputs["guidance"] = normal(rng, 1, config.time_cond_proj_dim)
        added["timestep_cond"] = inputs["guidance"]
    output = model(inputs["latents"], timestep, inputs["text"], return_dict=False, **added)[0]
    return Call(name, "the UNet's output", {"timestep": timestep}, inputs, {"output": output})


def unet_golden(config, calls):
    def build(folder, seed):
        model = UNet2DConditionModel(**config)
        model.save_config(folder)
        return seed_weights(folder, model, seed)

    def run(folder, seed):
        model = build(folder, seed)
        return [forward_call(model, name, seed + i, *rest) for i, (name, *rest) in enumerate(calls, 1)]

    return build, run


GOLDENS = {
    "sd15": ("Stable Diffusion 1.5, tiny", 61, *unet_golden(SD15, [("even", (8, 12), 981), ("odd", (7, 5), 1.5)])),
    "sdxl": ("Stable Diffusion XL, tiny", 63, *unet_golden(SDXL, [("even", (8, 4), 501), ("odd", (6, 10), 999)])),
    "heads": ("Stable Diffusion 1.5, heads", 65, *unet_golden(HEADS, [("one", (8, 8), 261, 77)])),
    "pruned": ("Stable Diffusion, pruned and distilled", 67, *unet_golden(PRUNED, [("one", (6, 8), 341)])),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
