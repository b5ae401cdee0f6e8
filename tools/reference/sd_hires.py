"""Makes the goldens of the hires fix under tests/goldens/stable_diffusion/hires*.

    python3 tools/reference/sd_hires.py            # make all
    python3 tools/reference/sd_hires.py --check    # read the stored ones back and run them again

The models are those of stable_diffusion.py. diffusers has no pipeline for it: latents of one pipeline, enlarged by torch,
are what its img2img pipeline starts from.
"""

import math

from diffusers import (
    StableDiffusionImg2ImgPipeline,
    StableDiffusionPipeline,
    StableDiffusionXLImg2ImgPipeline,
    StableDiffusionXLPipeline,
)
from torch.nn.functional import interpolate

from common import Call, generator, make_goldens, normal
from stable_diffusion import FOLDER, PROMPT, pipelines, sd_parts, sdxl_parts

FILTERS = {
    "latent": dict(mode="bilinear"),
    "latent_antialiased": dict(mode="bilinear", antialias=True),
    "latent_bicubic": dict(mode="bicubic"),
    "latent_bicubic_antialiased": dict(mode="bicubic", antialias=True),
    "latent_nearest": dict(mode="nearest"),
    "latent_nearest_exact": dict(mode="nearest-exact"),
}


def hires_call(text, picture, upscaler, seed, size, strength, steps, **arguments):
    """The second pass runs `steps` steps: so many of a schedule of which the strength leaves them."""
    width, height = size
    call = dict(prompt="a red cat", negative_prompt=PROMPT, guidance_scale=4.0)
    base = text(generator=generator(seed), output_type="latent", **call, **arguments).images
    large = interpolate(base, (height // 2, width // 2), **FILTERS[upscaler])
    second = dict(image=large, strength=strength, num_inference_steps=math.ceil(steps / strength), **call)
    latents = picture(generator=generator(seed), output_type="latent", **second).images
    image = picture(generator=generator(seed), output_type="pt", **second).images
    hires = dict(hires_upscaler=upscaler, hires_width=width, hires_height=height, hires_strength=strength,
                 hires_steps=steps)  # fmt: skip
    return Call(upscaler, "a picture", {"seed": seed, **call, **arguments, **hires}, {},
                {"latents": latents, "image": image[0].permute(1, 2, 0)})  # fmt: skip


def filter_calls(_folder, seed):
    """Latents enlarged by a part of their size, by every filter."""
    latents = normal(generator(seed), 1, 2, 6, 8)
    return [Call(name, "enlarged latents", {}, {"latents": latents}, {"large": interpolate(latents, (9, 12), **how)})
            for name, how in FILTERS.items()]  # fmt: skip


def sd_calls(_folder, _seed):
    classes = (StableDiffusionPipeline, StableDiffusionImg2ImgPipeline)
    pair = pipelines(classes, sd_parts(FOLDER / "pipeline", 71))
    return [hires_call(*pair, "latent", 7, (48, 24), 0.7, 3, num_inference_steps=3, width=32, height=16)]


def sdxl_calls(_folder, _seed):
    classes = (StableDiffusionXLPipeline, StableDiffusionXLImg2ImgPipeline)
    pair = pipelines(classes, sdxl_parts(FOLDER / "xl_pipeline", 79))
    size = dict(num_inference_steps=2, width=24, height=16)
    return [hires_call(*pair, "latent_bicubic_antialiased", 8, (48, 32), 0.5, 2, **size)]


GOLDENS = {
    "hires_filters": ("Latents, enlarged", 85, None, filter_calls),
    "hires": ("Stable Diffusion 1.5, hires fix", 71, None, sd_calls),
    "hires_xl": ("Stable Diffusion XL, hires fix", 79, None, sdxl_calls),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
