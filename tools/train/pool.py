"""The latent pool: stills, clips and edits, encoded once. Every entry is reused with fresh noise."""

from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKLWan
from PIL import Image, ImageOps
from tokenizers import Tokenizer

import data
import loop
import text_encoder
import vae
from render import PLAIN, Style

# kind: (pixels, entries at --pool-scale 1, encoder batch, latent frames)
# "ends" are clips with their last frame, encoded as an image, in front of them.
KINDS = {
    "image64": (64, 10240 if data.EMOJI else 40960, 256, 1),
    "image96": (96, 73728 if data.EMOJI else 24576, 128, 1),
    "clip64": (64, 8192, 32, 3),
    "clip96": (96, 5120, 16, 3),
    "edit64": (64, 10240, 64, 2),
    "edit96": (96, 6144, 32, 2),
    "ends64": (64, 4096, 32, 4),
    "ends96": (96, 2560, 16, 4),
}
# kind of sample: what draws its scene, and its pixels
SOURCES = {
    "image": ("image", data.draw_images),
    "clip": ("clip", data.draw_clips),
    "edit": ("edit", data.draw_edits),
    "ends": ("clip", data.draw_clips),
}


def patchify(z: torch.Tensor) -> torch.Tensor:
    """Latents [B, C, T, h, w] to tokens [B, T*h/2*w/2, 4C], channels slowest, as the patch embedding sees them."""
    b, c, t, h, w = z.shape
    z = z.view(b, c, t, h // 2, 2, w // 2, 2).permute(0, 2, 3, 5, 1, 4, 6)
    return z.reshape(b, t * (h // 2) * (w // 2), 4 * c)


def unpatchify(tokens: torch.Tensor, frames: int) -> torch.Tensor:
    """The inverse of `patchify` for square latents of `frames` frames."""
    b, n, c = tokens.shape
    side = round((n // frames) ** 0.5)
    z = tokens.view(b, frames, side, side, c // 4, 2, 2).permute(0, 4, 1, 2, 5, 3, 6)
    return z.reshape(b, c // 4, frames, 2 * side, 2 * side)


class Encoder:
    """The finished autoencoder's encoder, in bf16, with the pipeline's scaling of latents."""

    def __init__(self, folder: Path):
        self.model = AutoencoderKLWan.from_pretrained(folder, torch_dtype=torch.float32).eval()
        keys = ("latents_mean", "latents_std")
        self.mean, self.std = (torch.tensor(self.model.config[k]).view(1, -1, 1, 1, 1) for k in keys)

    @torch.no_grad()
    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        """Tokens of pixels [B, 3, F, size, size] in [-1, 1]."""
        with loop.autocast("cpu"):
            z = (vae.encode(self.model, pixels)[0] - self.mean) / self.std
        return patchify(z).to(torch.bfloat16)


def draw(encoder: Encoder, tokenizer: Tokenizer, seed: int, scale: float, budget: loop.Budget, log: loop.Log,
         style: Style = PLAIN) -> dict[str, tuple[torch.Tensor, ...]]:
    """Latent tokens, token ids, their counts and labels of every kind of sample, drawn in `style`."""
    sampler = data.Sampler(4000 + seed)
    pool = {}
    for name, (size, entries, count, _) in KINDS.items():
        kind = name[:-2]
        scene, render = SOURCES[kind]
        parts = []
        for _ in range(max(1, round(entries * scale) // count)):
            budget.tick()
            budget.end_if_stopped()
            scenes = [getattr(sampler, scene)() for _ in range(count)]
            pixels = (render(scenes, size, style=style) + 0.02 * torch.randn(count, 3, 1, 1, 1)).clamp(-1, 1)
            ids, counts = text_encoder.tokenize(tokenizer, [s.caption for s in scenes])
            labels = torch.tensor([text_encoder.labels(s) for s in scenes], dtype=torch.int16)
            tokens = encoder(pixels)
            if kind == "ends":
                tokens = torch.cat([encoder(pixels[:, :, -1:]), tokens], 1)
            parts.append((tokens, ids.short(), counts, labels))
        pool[name] = tuple(torch.cat(column) for column in zip(*parts))
        log(pool=name, entries=len(pool[name][0]), minute=budget.spent / 60)
    return pool


def read(encoder: Encoder, tokenizer: Tokenizer, folder: Path) -> dict[str, tuple[torch.Tensor, ...]]:
    """The same of a folder of pictures, each with its caption in a text file of the same name; cropped to squares."""
    paths = sorted(p for p in folder.iterdir() if p.suffix.lower() in (".png", ".jpg", ".jpeg", ".webp"))
    if not paths:
        raise FileNotFoundError(f"Cannot train on {folder}: it has no PNG, JPEG or WebP pictures")
    for path in paths:
        if not path.with_suffix(".txt").exists():
            raise FileNotFoundError(f"Cannot train on {path}: its caption, {path.stem}.txt, does not exist")
    ids, counts = text_encoder.tokenize(tokenizer, [p.with_suffix(".txt").read_text().strip() for p in paths])
    labels = torch.full((len(paths), len(text_encoder.ATTRIBUTES)), text_encoder.IGNORED, dtype=torch.int16)
    pool = {}
    for name in ("image64", "image96"):
        size = KINDS[name][0]
        squares = [ImageOps.fit(Image.open(p).convert("RGB"), (size, size), Image.LANCZOS) for p in paths]
        pixels = torch.from_numpy(np.stack(squares)).permute(0, 3, 1, 2)[:, :, None] / 127.5 - 1
        pool[name] = torch.cat([encoder(part) for part in pixels.split(64)]), ids.short(), counts, labels
    return pool


def build(args, work: Path):
    """Encodes the pool with the finished encoder and writes it to `pool.pt`."""
    tokenizer = Tokenizer.from_file(str(work / "tokenizer" / "tokenizer.json"))
    budget = loop.Budget(1e9, args.pause_file)
    log = loop.Log(work / "pool.log")
    torch.save(draw(Encoder(work / "vae"), tokenizer, args.seed, args.pool_scale, budget, log), work / "pool.pt")
