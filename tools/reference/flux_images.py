"""What the goldens of pipelines of FLUX.1's line have in common: packed latents, FLUX.1's autoencoder, starts from an image."""

import torch

from common import Call, generator, normal

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


def given_call(pipeline, name, seed, image, strength, steps, mask=None, **arguments):
    """From an input image, uint8 [height, width, 3]; white in the mask is painted."""
    height, width = arguments["height"], arguments["width"]
    vae, scheduler, side = pipeline.vae, pipeline.scheduler, pipeline.vae_scale_factor
    rng = generator(seed)
    pixels = image.permute(2, 0, 1)[None].float() / 127.5 - 1
    clean = vae.encode(pixels).latent_dist.sample(rng)
    clean = (clean - vae.config.shift_factor) * vae.config.scaling_factor
    packed = lambda x: pipeline._pack_latents(x, 1, *x.shape[1:])
    noise = normal(rng, *clean.shape)
    begin = int(max(steps - min(steps * strength, steps), 0))
    levels = torch.linspace(1, 1 / steps, steps)[begin:].tolist()
    config = scheduler.config
    slope = (config.max_shift - config.base_shift) / (config.max_image_seq_len - config.base_image_seq_len)
    tokens = clean[0, 0].numel() // 4
    scheduler.set_timesteps(sigmas=levels, mu=tokens * slope + config.base_shift - slope * config.base_image_seq_len)
    sigmas = scheduler.sigmas.clone()
    noisy = lambda level: packed((1 - level) * clean + level * noise)
    inputs, on_step = {"given": image}, None
    if mask is not None:
        inputs["mask"] = mask
        rows = torch.nn.functional.interpolate(mask[None, None].float() / 255, (height // side, width // side), mode="nearest")
        rows = packed(rows.expand(-1, clean.shape[1], -1, -1))
        on_step = lambda i, x: (1 - rows) * noisy(sigmas[i + 1]) + rows * x
    args = {"strength": strength, "num_inference_steps": steps}
    return image_call(pipeline, name, seed, on_step, inputs, args, rng=rng, latents=noisy(sigmas[0]), sigmas=levels,
                      num_inference_steps=len(levels), **arguments)
