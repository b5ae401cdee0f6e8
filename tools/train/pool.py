"""The latent pool: stills, clips and edits, encoded once. Every entry is reused with fresh noise."""

from pathlib import Path

import torch
from diffusers import AutoencoderKLWan
from tokenizers import Tokenizer

import data
import loop
import text_encoder
import vae

# kind: (pixels, entries at --pool-scale 1, encoder batch, latent frames)
KINDS = {
    "image64": (64, 40960, 256, 1),
    "image96": (96, 24576, 128, 1),
    "clip64": (64, 8192, 32, 3),
    "clip96": (96, 5120, 16, 3),
    "edit64": (64, 10240, 64, 2),
    "edit96": (96, 6144, 32, 2),
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


@torch.no_grad()
def build(args, work: Path):
    """Encodes the pool with the finished encoder and writes it to `pool.pt`."""
    log = loop.Log(work / "pool.log")
    model = AutoencoderKLWan.from_pretrained(work / "vae").eval()
    mean, std = (torch.tensor(model.config[k]).view(1, -1, 1, 1, 1) for k in ("latents_mean", "latents_std"))
    tokenizer = Tokenizer.from_file(str(work / "tokenizer" / "tokenizer.json"))
    sampler = data.Sampler(4000 + args.seed)
    budget = loop.Budget(1e9, args.pause_file)
    pool = {}
    for name, (size, entries, count, _) in KINDS.items():
        kind = name[:-2]
        draw = {"image": data.draw_images, "clip": data.draw_clips, "edit": data.draw_edits}[kind]
        parts = []
        for _ in range(max(1, round(entries * args.pool_scale) // count)):
            budget.tick()
            budget.end_if_stopped()
            scenes = [getattr(sampler, kind)() for _ in range(count)]
            pixels = (draw(scenes, size) + 0.02 * torch.randn(count, 3, 1, 1, 1)).clamp(-1, 1)
            with loop.autocast("cpu"):
                z = (vae.encode(model, pixels)[0] - mean) / std
            ids, counts = text_encoder.tokenize(tokenizer, [s.caption for s in scenes])
            labels = torch.tensor([text_encoder.labels(s) for s in scenes], dtype=torch.int8)
            parts.append((patchify(z).to(torch.bfloat16), ids.short(), counts, labels))
        pool[name] = tuple(torch.cat(column) for column in zip(*parts))
        log(pool=name, entries=len(pool[name][0]), minute=budget.spent / 60)
    torch.save(pool, work / "pool.pt")
