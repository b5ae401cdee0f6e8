"""Calls of image pipelines, from text, and from an image or by a mask where diffusers has no pipeline for these."""

import torch

from common import Call, generator, normal


def image_call(pipeline, name, seed, on_step=None, inputs=None, args=None, rng=None, **arguments):
    """Final latents, as the pipeline has them, and the image in [0, 1]."""
    seen = {}

    def keep(_pipeline, step, _timestep, state):
        seen["latents"] = on_step(step, state["latents"]) if on_step else state["latents"]
        return {"latents": seen["latents"]}

    image = pipeline(generator=rng or generator(seed), output_type="pt", callback_on_step_end=keep, **arguments).images
    stored = {key: value for key, value in arguments.items() if key not in ("latents", "sigmas")}
    outputs = {"latents": seen["latents"], "image": image[0].permute(1, 2, 0)}
    return Call(name, "an image", {"seed": seed, **stored, **(args or {})}, inputs or {}, outputs)


def given_calls(call, encode, set_levels, pack=lambda _pipeline, latents: latents):
    """Makes a function for calls that begin with an image; `call` is `image_call` or alike.

    `encode(pipeline, pixels, rng)` gives latents, [1, channels, height, width], of pixels from -1 to 1.
    `set_levels(pipeline, steps, begin, latents)` sets the scheduler's levels of noise from the step `begin` on, and gives
    what the pipeline is to be called with. `pack(pipeline, latents)` gives latents as the pipeline has them.
    """

    def given_call(pipeline, name, seed, image, strength, steps, mask=None, **arguments):
        """From an input image, uint8 [height, width, channels]; white in the mask is painted."""
        rng = generator(seed)
        clean = encode(pipeline, image.permute(2, 0, 1)[None].float() / 127.5 - 1, rng)
        noise = normal(rng, *clean.shape)
        begin = int(max(steps - min(steps * strength, steps), 0))
        sigmas = set_levels(pipeline, steps, begin, clean)
        levels = pipeline.scheduler.sigmas.clone()
        noisy = lambda level: pack(pipeline, (1 - level) * clean + level * noise)
        inputs, on_step = {"given": image}, None
        if mask is not None:
            inputs["mask"] = mask
            rows = torch.nn.functional.interpolate(mask[None, None].float() / 255, clean.shape[2:], mode="nearest")
            painted = pack(pipeline, rows.expand(clean.shape))
            on_step = lambda i, x: (1 - painted) * noisy(levels[i + 1]) + painted * x
        args = {"strength": strength, "num_inference_steps": steps}
        return call(pipeline, name, seed, on_step, inputs, args, rng=rng, latents=noisy(levels[0]), sigmas=sigmas,
                    num_inference_steps=len(sigmas), **arguments)

    return given_call


def encode(pipeline, pixels, rng):
    """By an autoencoder like FLUX.1's."""
    vae = pipeline.vae
    return (vae.encode(pixels).latent_dist.sample(rng) - vae.config.shift_factor) * vae.config.scaling_factor


def encode_frame(pipeline, pixels, rng):
    """By an autoencoder of videos like Wan's."""
    vae = pipeline.vae
    latents = vae.encode(pixels[:, :, None]).latent_dist.sample(rng)[:, :, 0]
    mean, std = (torch.tensor(getattr(vae.config, key)).view(1, -1, 1, 1) for key in ("latents_mean", "latents_std"))
    return (latents - mean) / std


def pack(pipeline, latents):
    """As tokens."""
    return pipeline._pack_latents(latents, *latents.shape)


def shifted_levels(longest):
    """Levels that are shifted by the number of tokens, by 1.15 where these are the `longest`."""

    def set_levels(pipeline, steps, begin, latents):
        sigmas = torch.linspace(1, 1 / steps, steps, dtype=torch.float64)[begin:].tolist()
        slope = (1.15 - 0.5) / (longest - 256)
        mu = pack(pipeline, latents).shape[1] * slope + 0.5 - slope * 256
        pipeline.scheduler.set_timesteps(len(sigmas), sigmas=sigmas, mu=mu)
        return sigmas

    return set_levels
