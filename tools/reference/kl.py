"""Makes the goldens of the image autoencoders under tests/goldens/kl.

    python3 tools/reference/kl.py                 # make all
    python3 tools/reference/kl.py NAME ...        # make some
    python3 tools/reference/kl.py --check [NAME]  # read the stored ones back and run them again
"""

import torch
from diffusers import AutoencoderKL, AutoencoderKLFlux2, Flux2KleinPipeline

import common
from common import Call, generator, make_goldens, normal, randomise
from seeded import keep_seed, seed_weights, with_weights

FOLDER = common.GOLDENS.parent / "kl"
BLOCKS = {2: dict(down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2)}
TINY = dict(block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8, sample_size=32, **BLOCKS[2])


def picture(rng, height, width):
    """A smooth picture in [-1, 1] with a little noise."""
    coarse = normal(rng, 1, 3, max(2, height // 6), max(2, width // 6))
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear")
    return (0.6 * smooth + 0.05 * normal(rng, 1, 3, height, width)).clamp(-1, 1)


def encode_call(vae, name, image):
    distribution = vae.encode(image).latent_dist
    outputs = {"mean": distribution.mean, "logvar": distribution.logvar}
    return Call(name, "a picture's moments", {}, {"image": image}, outputs)


def decode_call(vae, name, latents):
    return Call(name, "pixels, not clamped", {}, {"z": latents}, {"pixels": vae.decode(latents).sample})


def sizes_calls(vae, seed):
    rng = generator(seed + 1)
    channels = vae.config.latent_channels
    scale = 2 ** (len(vae.config.block_out_channels) - 1)
    return [
        encode_call(vae, "encode", picture(rng, 12 * scale, 20 * scale)),
        decode_call(vae, "decode", normal(rng, 1, channels, 12, 10)),
    ]


def build_sd(folder, seed):
    vae = randomise(AutoencoderKL(latent_channels=4, **TINY), seed)
    vae.half().save_pretrained(folder)
    keep_seed(folder, vae, seed)


def sd_calls(folder, seed):
    vae = AutoencoderKL.from_pretrained(with_weights(folder), torch_dtype=torch.float32).eval()
    calls = sizes_calls(vae, seed)
    rng = generator(seed + 2)
    image = picture(rng, 16, 16)
    distribution = vae.encode(image).latent_dist
    noise = torch.randn(distribution.mean.shape, generator=generator(seed + 3))
    sample = distribution.sample(generator(seed + 3))
    scaled = (sample - 0.1) * vae.config.scaling_factor
    calls.append(
        Call(
            "sample",
            "latents drawn from the moments, then scaled with a shift of 0.1",
            {"shift_factor": 0.1},
            {"image": image, "noise": noise},
            {"sample": sample, "scaled": scaled},
        )
    )
    return [*calls, *tiled_calls(vae, seed)]


def tiled_calls(vae, seed):
    """In tiles of 8 latents that share 2, of which two and a quarter cover 14."""
    rng = generator(seed + 4)
    latents, image = normal(rng, 1, 4, 14, 14), picture(rng, 28, 28)
    whole = {"pixels": vae.decode(latents).sample, "moments": vae._encode(image)}
    vae.enable_tiling()
    vae.tile_latent_min_size, vae.tile_sample_min_size = 8, 16
    tiled = {"pixels": vae.decode(latents).sample, "moments": vae._encode(image)}
    vae.disable_tiling()
    return [
        Call("tiled", "coded in tiles, and as a whole", {}, {"latents": latents, "picture": image},
             {**tiled, **{f"whole_{name}": value for name, value in whole.items()}}),
    ]  # fmt: skip


def build_flux2(folder, seed):
    vae = AutoencoderKLFlux2(latent_channels=8, decoder_block_out_channels=(8, 16), **TINY)
    randomise(vae, seed)
    rng = generator(seed + 5)
    vae.bn.running_mean.copy_(normal(rng, 32, std=0.3))
    vae.bn.running_var.copy_(normal(rng, 32, mean=1.0, std=0.2).abs())
    vae.half().save_pretrained(folder)
    keep_seed(folder, vae, seed)


def flux2_calls(folder, seed):
    vae = AutoencoderKLFlux2.from_pretrained(with_weights(folder), torch_dtype=torch.float32).eval()
    calls = sizes_calls(vae, seed)
    latents = normal(generator(seed + 2), 1, 8, 4, 6)
    mean = vae.bn.running_mean.view(1, -1, 1, 1)
    std = torch.sqrt(vae.bn.running_var.view(1, -1, 1, 1) + vae.config.batch_norm_eps)
    normalised = (Flux2KleinPipeline._patchify_latents(latents) - mean) / std
    tokens = Flux2KleinPipeline._pack_latents(normalised)
    calls.append(
        Call(
            "pack",
            "latents as normalised tokens",
            {},
            {"latents": latents},
            {"tokens": tokens},
        )
    )
    return calls


WIDE = dict(
    block_out_channels=(128, 256), layers_per_block=1, norm_num_groups=32, latent_channels=16,
    use_quant_conv=False, use_post_quant_conv=False, scaling_factor=0.3611, shift_factor=0.1159,
    **BLOCKS[2],
)  # fmt: skip


def build_wide(folder, seed):
    vae = AutoencoderKL(**WIDE)
    vae.save_config(folder)
    seed_weights(folder, vae, seed)


def wide_calls(folder, seed):
    vae = AutoencoderKL(**WIDE)
    seed_weights(folder, vae, seed)
    rng = generator(seed + 1)
    return [
        encode_call(vae, "encode", picture(rng, 24, 16)),
        decode_call(vae, "decode", normal(rng, 1, 16, 8, 12)),
    ]


# name -> (description, seed, build, calls)
GOLDENS = {
    "sd-tiny": ("AutoencoderKL with quant convs, 4 channels, float16", 700, build_sd, sd_calls),
    "flux2-tiny": ("AutoencoderKLFlux2 with a smaller decoder, 8 channels, float16", 710, build_flux2, flux2_calls),
    "wide": ("AutoencoderKL without quant convs, 16 channels, blocks of 128 and 256, seeded bfloat16", 720, build_wide, wide_calls),
}  # fmt: skip


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
