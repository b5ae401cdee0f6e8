"""What the goldens of pipelines of FLUX.1's line have in common: packed latents, FLUX.1's autoencoder, starts from an image."""

import torch

from common import Call, generator
from given_images import encode, given_calls, pack

VAE = dict(down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
           block_out_channels=(32, 64), layers_per_block=1, latent_channels=16, norm_num_groups=32, sample_size=64,
           use_quant_conv=False, use_post_quant_conv=False, scaling_factor=0.3611, shift_factor=0.1159)
SCHEDULER = dict(num_train_timesteps=1000, shift=3.0, use_dynamic_shifting=True, base_shift=0.5, max_shift=1.15,
                 base_image_seq_len=256, max_image_seq_len=4096)


def image_call(pipeline, name, seed, on_step=None, inputs=None, args=None, rng=None, **arguments):
    """Final latents, packed to [1, channels, height, width], and the image in [0, 1]."""
    seen = {"steps": 0}
    usual = pipeline.scheduler.step

    # Not every pipeline calls back.
    def step(*given, **options):
        (latents,) = usual(*given, **options)
        seen["latents"] = on_step(seen["steps"], latents) if on_step else latents
        seen["steps"] += 1
        return (seen["latents"],)

    pipeline.scheduler.step = step
    image = pipeline(generator=rng or generator(seed), output_type="pt", **arguments).images
    pipeline.scheduler.step = usual
    height, width = arguments["height"], arguments["width"]
    latents = pipeline._unpack_latents(seen["latents"], height, width, pipeline.vae_scale_factor)
    stored = {key: value for key, value in arguments.items() if key not in ("latents", "sigmas", "image")}
    outputs = {"latents": latents, "image": image[0].permute(1, 2, 0)}
    return Call(name, "an image", {"seed": seed, **stored, **(args or {})}, inputs or {}, outputs)


def set_levels(pipeline, steps, begin, latents):
    levels = torch.linspace(1, 1 / steps, steps)[begin:].tolist()
    config = pipeline.scheduler.config
    slope = (config.max_shift - config.base_shift) / (config.max_image_seq_len - config.base_image_seq_len)
    tokens = latents[0, 0].numel() // 4
    mu = tokens * slope + config.base_shift - slope * config.base_image_seq_len
    pipeline.scheduler.set_timesteps(sigmas=levels, mu=mu)
    return levels


given_call = given_calls(image_call, encode, set_levels, pack)
