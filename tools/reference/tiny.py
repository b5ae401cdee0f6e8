"""Makes the goldens of the tiny decoders under tests/goldens/tiny.

    python3 tools/reference/tiny.py                 # make all
    python3 tools/reference/tiny.py NAME ...        # make some
    python3 tools/reference/tiny.py --check [NAME]  # read the stored ones back and run them again

That of images is diffusers' AutoencoderTiny. That of videos is no class of diffusers: the module below follows the
description of TAEHV (https://github.com/madebyollin/taehv) and has the names of its files.
"""

import torch
from diffusers import AutoencoderKL, AutoencoderTiny
from safetensors.torch import load_file

import common
from common import Call, generator, make_goldens, normal
from seeded import seed_weights

FOLDER = common.GOLDENS.parent / "tiny"


def conv(inputs, outputs, bias=True):
    return torch.nn.Conv2d(inputs, outputs, 3, padding=1, bias=bias)


class Block(torch.nn.Module):
    """Sees each frame beside the one before it."""

    def __init__(self, width):
        super().__init__()
        relu = torch.nn.ReLU()
        self.conv = torch.nn.Sequential(conv(2 * width, width), relu, conv(width, width), relu, conv(width, width))

    def forward(self, x):
        before = torch.cat([torch.zeros_like(x[:1]), x[:-1]])
        return torch.relu(self.conv(torch.cat([x, before], 1)) + x)


class Grow(torch.nn.Module):
    """Makes `factor` frames of each."""

    def __init__(self, width, factor):
        super().__init__()
        self.conv = torch.nn.Conv2d(width, width * factor, 1, bias=False)

    def forward(self, x):
        return self.conv(x).reshape(-1, *x.shape[1:])


class VideoDecoder(torch.nn.Module):
    """Frames first, [frames, channels, height, width]; the module's names are those of the files."""

    def __init__(self, latent_channels, widths, patch):
        super().__init__()
        self.patch = patch
        layers = [torch.nn.Identity(), conv(latent_channels, widths[0]), torch.nn.ReLU()]
        for level, factor in enumerate((1, 2, 2)):
            width = widths[level]
            layers += [Block(width) for _ in range(3)]
            layers += [torch.nn.Upsample(scale_factor=2), Grow(width, factor)]
            layers += [conv(width, widths[level + 1], bias=False)]
        layers += [torch.nn.ReLU(), conv(widths[3], 3 * patch**2)]
        self.decoder = torch.nn.Sequential(*layers)

    def forward(self, latents):
        """[channels, frames, height, width] to [frames, 3, height, width] in about [0, 1]."""
        x = torch.tanh(latents.transpose(0, 1) / 3) * 3
        pixels = torch.nn.functional.pixel_shuffle(self.decoder(x), self.patch)
        return pixels[3:]


def video_calls(module, latents):
    return [
        Call(name, "frames of normalised latents", {}, {"latents": z}, {"pixels": 2 * module(z.reshape(z.shape[-4:])) - 1})
        for name, z in latents.items()
    ]


def build_video(folder, seed, channels, widths, patch):
    folder.mkdir(parents=True, exist_ok=True)
    return seed_weights(folder, VideoDecoder(channels, widths, patch), seed, torch.float16)


def latents_of(name, calls, family=common.GOLDENS):
    stored = load_file(family / name / "golden.safetensors")
    return {call: stored[f"{call}.latents"] for call in calls}


def taew21(folder, seed):
    """Decodes what the pipeline of Wan 2.1's kind gave."""
    module = build_video(folder, seed, 16, (16, 12, 8, 8), 1)
    return video_calls(module, latents_of("pipeline-t2v", ("image", "clip9")))


def taew22(folder, seed):
    module = build_video(folder, seed, 8, (12, 8, 8, 8), 2)
    return video_calls(module, {"clip5": normal(generator(seed + 1), 1, 8, 2, 3, 2)})


def taehv15(folder, seed):
    """Decodes what the pipeline of HunyuanVideo 1.5 gave."""
    module = build_video(folder, seed, 4, (12, 8, 8, 8), 2)
    return video_calls(module, latents_of("pipeline", ("guided",), common.GOLDENS.parent / "hunyuan_video_15"))


def image_calls(folder, seed, width, channels, pipeline, call):
    """Decodes latents of a size of its own, and those that a pipeline gave."""
    widths = (width,) * 4
    config = dict(encoder_block_out_channels=widths, decoder_block_out_channels=widths, latent_channels=channels)
    tiny = AutoencoderTiny(**config)
    tiny.encoder = torch.nn.Identity()
    tiny.save_config(folder)
    seed_weights(folder, tiny, seed, torch.float16)
    rng = generator(seed + 1)
    stored = load_file(common.GOLDENS.parent / pipeline / "pipeline" / "golden.safetensors")
    latents = {"decode": normal(rng, 1, channels, 6, 9), call: stored[f"{call}.latents"]}
    return [
        Call(name, "pixels of normalised latents", {}, {"latents": z}, {"pixels": tiny.decoder(z)})
        for name, z in latents.items()
    ]


def taef1(folder, seed):
    return image_calls(folder, seed, 16, 16, "z_image", "long")


def taesd(folder, seed):
    return image_calls(folder, seed, 8, 4, "stable_diffusion", "guided")


def kl8(folder, seed, channels=16, **scaling):
    """No golden: an autoencoder of eight pixels a latent, for pipelines that a tiny decoder decodes."""
    blocks = 4
    scaling = scaling or dict(scaling_factor=0.3611, shift_factor=0.1159)
    vae = AutoencoderKL(
        block_out_channels=(8,) * blocks, layers_per_block=1, norm_num_groups=4, latent_channels=channels,
        down_block_types=("DownEncoderBlock2D",) * blocks, up_block_types=("UpDecoderBlock2D",) * blocks,
        use_quant_conv=False, use_post_quant_conv=False, **scaling,
    )  # fmt: skip
    vae.save_config(folder)
    seed_weights(folder, vae, seed)
    z = normal(generator(seed + 1), 1, channels, 2, 2)
    return [Call("decode", "pixels, not clamped", {}, {"z": z}, {"pixels": vae.decode(z).sample})]


def kl8_sd(folder, seed):
    return kl8(folder, seed, 4, scaling_factor=0.18215)


# name -> (description, seed, calls)
GOLDENS = {
    "taew21": ("TAEHV for Wan 2.1 with narrow blocks, seeded float16", 1500, None, taew21),
    "taew22": ("TAEHV for Wan 2.2, pixels in patches of two, seeded float16", 1510, None, taew22),
    "taehv15": ("TAEHV for HunyuanVideo 1.5, pixels in patches of two, seeded float16", 1560, None, taehv15),
    "taef1": ("AutoencoderTiny with 16 channels, the decoder alone, seeded float16", 1520, None, taef1),
    "taesd": ("AutoencoderTiny with 4 channels, the decoder alone, seeded float16", 1540, None, taesd),
    "kl8_sd": ("AutoencoderKL of Stable Diffusion with eight pixels a latent, seeded bfloat16", 1550, None, kl8_sd),
    "kl8": ("AutoencoderKL with eight pixels a latent, seeded bfloat16", 1530, None, kl8),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
