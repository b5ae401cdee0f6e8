"""Scores a pipeline folder on held-out prompts, with diffusers' own pipelines.

    python evaluate.py ../../models/bundled --sizes 64 96 --json figures.json --sheet sheet.png

Prints one row per figure: the pipeline, the bound that the autoencoder sets (the same scorer on real images
after encoding and decoding), and the truth (the scorer on the renders themselves).
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from diffusers import WanImageToVideoPipeline, WanPipeline
from PIL import Image, ImageDraw

import data
import loop
import scoring
from last_frame import LastFramePipeline
from render import PLAIN, STYLES, Style, combined

KINDS = ["single", "position", "pair", "count"]
HEADLINES = ["color", "shape", "background", "position", "count", "count color", "count shapes, each",
             "pair: right axis", "pair: two objects", "pair: both colors", "pair: both shapes", "pair: all right",
             "t2v: color", "t2v: shape",
             "t2v: shape in the last frame", "t2v: one object throughout", "t2v: motion", "i2v: color", "i2v: shape",
             "i2v: shape in the last frame",
             "i2v: one object throughout", "i2v: motion", "i2v: first frame, dB", "flf2v: color", "flf2v: shape",
             "flf2v: shape in the last frame", "flf2v: one object throughout", "flf2v: motion",
             "flf2v: first frame, dB", "flf2v: last frame, dB", "edit: changed",
             "edit: changed, rest kept", "edit: rest, dB", "edit recolor: changed, rest kept",
             "edit background: changed, rest kept", "edit reshape: changed, rest kept",
             "style: silhouette painted", "style: chroma"]


def to_pil(frame: np.ndarray) -> Image.Image:
    """A frame [H, W, 3] in [-1, 1] as an image."""
    return Image.fromarray(((frame + 1) * 127.5).round().clip(0, 255).astype(np.uint8))


def to_numpy(clip: torch.Tensor) -> np.ndarray:
    """[N, 3, F, H, W] as [N, F, H, W, 3]."""
    return clip.permute(0, 2, 3, 4, 1).numpy()


class Evaluation:
    """Runs the pipelines of one folder with f32 arithmetic, whatever the weights are stored in."""

    def __init__(self, folder: str, steps: int, guidance: float, edit_guidance: float, seed: int, adapters=()):
        self.text = WanPipeline.from_pretrained(folder, torch_dtype=torch.float32)
        names = [f"adapter{i}" for i in range(len(adapters))]
        for path, name in zip(map(Path, adapters), names):
            self.text.load_lora_weights(path.parent, weight_name=path.name, adapter_name=name)
        if names:
            self.text.set_adapters(names)
        self.text.set_progress_bar_config(disable=True)
        parts = {k: getattr(self.text, k) for k in ("tokenizer", "text_encoder", "vae", "scheduler", "transformer")}
        self.image = WanImageToVideoPipeline(**parts, expand_timesteps=True)
        self.ends = LastFramePipeline(**parts, expand_timesteps=True)
        for pipeline in (self.image, self.ends):
            pipeline.set_progress_bar_config(disable=True)
        self.options = {"num_inference_steps": steps, "guidance_scale": guidance, "output_type": "np"}
        self.edit_guidance = edit_guidance
        self.seed = seed

    def from_text(self, prompts: list[str], size: int, frames: int, batch: int) -> np.ndarray:
        """Clips [N, frames, H, W, 3] in [-1, 1] of prompts."""
        parts = []
        for start in range(0, len(prompts), batch):
            generator = torch.Generator().manual_seed(self.seed + start)
            parts.append(self.text(prompt=prompts[start:start + batch], height=size, width=size, num_frames=frames,
                                   generator=generator, **self.options).frames)
        return np.concatenate(parts) * 2 - 1

    def from_image(self, prompts: list[str], first: np.ndarray, frames: int, **changes) -> np.ndarray:
        """Clips that start from given frames [N, H, W, 3], one at a time as a server does it."""
        size, clips, options = first.shape[1], [], self.options | changes
        for i, (prompt, image) in enumerate(zip(prompts, first)):
            generator = torch.Generator().manual_seed(self.seed + i)
            clips.append(self.image(image=to_pil(image), prompt=prompt, height=size, width=size, num_frames=frames,
                                    generator=generator, **options).frames[0])
        return np.stack(clips) * 2 - 1

    def between(self, prompts: list[str], first: np.ndarray, last: np.ndarray, frames: int) -> np.ndarray:
        """Clips between given frames [N, H, W, 3], one at a time."""
        size, clips, options = first.shape[1], [], self.options | {"output_type": "latent"}
        for i, (prompt, begin, end) in enumerate(zip(prompts, first, last)):
            generator = torch.Generator().manual_seed(self.seed + i)
            latents = self.ends(image=to_pil(begin), last_image=to_pil(end), prompt=prompt, height=size, width=size,
                                num_frames=frames, generator=generator, **options).frames
            clips.append(self.ends.frames_of(latents).numpy())
        return np.stack(clips) * 2 - 1

    @torch.no_grad()
    def through_autoencoder(self, clips: torch.Tensor) -> np.ndarray:
        """Clips after encoding and decoding: the bound."""
        parts = [self.text.vae.decode(self.text.vae.encode(c).latent_dist.mode()).sample for c in clips.split(25)]
        return to_numpy(torch.cat(parts))


def evaluate(run: Evaluation, size: int, stills: int, clips: int, i2v: int, flf2v: int, edits: int,
             style: Style = PLAIN) -> tuple[dict, dict]:
    """All figures at one size as {key: {"pipeline": (mean, n), "bound": ..., "truth": ...}}, and samples.

    Stills are read as pictures in `style`; the rest knows filled shapes in full colours only.
    """
    sampler = data.Sampler(12345, held_out=True, plain=True)
    rows: dict[str, list[dict]] = {"pipeline": [], "bound": [], "truth": []}
    samples: dict[str, list] = {}

    def record(name: str, results: list[dict]):
        rows[name] += results

    if stills:
        scenes = [sampler.image(KINDS[i % 4]) for i in range(stills)]
        pixels = data.draw_images(scenes, size, style)
        made = run.from_text([s.caption for s in scenes], size, 1, 25)
        bound, truth = run.through_autoencoder(pixels), to_numpy(pixels)
        for name, images in (("pipeline", made), ("bound", bound), ("truth", truth)):
            record(name, [scoring.score_still(i[0], s, style) for i, s in zip(images, scenes)])
        samples["stills"] = [(s.caption, [i[0]]) for s, i in zip(scenes, made)]
        wrong = [(s.caption, [k for k, v in r.items() if v is False]) for s, r in
                 zip(scenes, rows["pipeline"]) if any(v is False for v in r.values())]
        samples["wrong"] = wrong
    for prefix, count in (("t2v", clips), ("i2v", i2v), ("flf2v", flf2v)):
        if not count:
            continue
        scenes = [sampler.clip() for _ in range(count)]
        pixels = data.draw_clips(scenes, size)
        truth, bound = to_numpy(pixels), run.through_autoencoder(pixels)
        prompts = [s.caption for s in scenes]
        if prefix == "t2v":
            made = run.from_text(prompts, size, 9, 10)
        elif prefix == "i2v":
            made = run.from_image(prompts, truth[:, 0], 9)
        else:
            made = run.between(prompts, truth[:, 0], truth[:, -1], 9)
        for name, images in (("pipeline", made), ("bound", bound), ("truth", truth)):
            results = [scoring.score_clip(i, s, prefix) for i, s in zip(images, scenes)]
            given = {"t2v": {}, "i2v": {"first": 0}, "flf2v": {"first": 0, "last": -1}}[prefix]
            for place, frame in given.items() if name != "truth" else ():
                for result, image, real in zip(results, images, truth):
                    result[f"{prefix}: {place} frame, dB"] = scoring.psnr(image[frame], real[frame])
            record(name, results)
        samples[prefix] = [(s.caption, list(i)) for s, i in zip(scenes, made)]
    if edits:
        scenes = [sampler.edit(data.EDITS[(0, 1, 0, 1, 2)[i % 5]]) for i in range(edits)]
        pixels = data.draw_edits(scenes, size)
        truth, bound = to_numpy(pixels), run.through_autoencoder(pixels)
        made = run.from_image([s.caption for s in scenes], truth[:, 0], data.EDIT_FRAMES,
                              guidance_scale=run.edit_guidance)
        for name, images in (("pipeline", made), ("bound", bound), ("truth", truth)):
            record(name, [scoring.score_edit(i[-1], s, t[0], t[-1]) for i, s, t in zip(images, scenes, truth)])
        samples["edits"] = [(s.caption, [t[0], i[-1]]) for s, i, t in zip(scenes, made, truth)]
    table: dict[str, dict] = {}
    for name, results in rows.items():
        for key, value in scoring.summarise(results).items():
            table.setdefault(key, {})[name] = value
    return table, samples


def show(table: dict, size: int) -> str:
    """The figures as Markdown."""
    def cell(key, entry):
        if entry is None:
            return ""
        return f"{entry[0]:.1f} dB" if key.endswith("dB") else f"{100 * entry[0]:.1f} %"

    lines = [f"| {size}x{size} | n | pipeline | autoencoder bound | truth |", "|---|---|---|---|---|"]
    for key in HEADLINES:
        if key in table:
            row = table[key]
            cells = [cell(key, row.get(c)) for c in ("pipeline", "bound", "truth")]
            lines.append(f"| {key} | {row['pipeline'][1]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def sheet(samples: dict, path: Path, cell: int = 96, columns: int = 9):
    """A contact sheet: stills, then clips as strips of nine frames, then edits as source and result."""
    def wrap(text: str, width: int = 17) -> str:
        lines = [""]
        for word in text.split():
            if len(lines[-1]) + len(word) + 1 > width and lines[-1]:
                lines.append("")
            lines[-1] = f"{lines[-1]} {word}".strip()
        return "\n".join(lines[:4])

    rows: list[list[tuple[str, np.ndarray]]] = []
    stills = samples.get("stills", [])[:36]
    rows += [[(c, i[0]) for c, i in stills[k:k + columns]] for k in range(0, len(stills), columns)]
    for name in ("t2v", "i2v", "flf2v"):
        rows += [[(c if k == 0 else "", f) for k, f in enumerate(clip)] for c, clip in samples.get(name, [])[:4]]
    edits = samples.get("edits", [])[:16]
    flat = [(c if k == 1 else "", f) for c, pair in edits for k, f in enumerate(pair)]
    rows += [flat[k:k + 8] for k in range(0, len(flat), 8)]
    text, gap = 44, 4
    canvas = Image.new("RGB", (columns * (cell + gap), len(rows) * (cell + text + gap)), (40, 40, 40))
    pen = ImageDraw.Draw(canvas)
    for r, row in enumerate(rows):
        for c, (caption, frame) in enumerate(row):
            x, y = c * (cell + gap), r * (cell + text + gap)
            canvas.paste(to_pil(frame).resize((cell, cell), Image.NEAREST), (x, y))
            pen.multiline_text((x + 1, y + cell + 1), wrap(caption), fill=(235, 235, 235), font_size=9, spacing=1)
    canvas.quantize(192).save(path, optimize=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 96])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--guidance", type=float, default=3.5)
    parser.add_argument("--edit-guidance", type=float, default=1.5, help="stronger guidance keeps less of the source")
    parser.add_argument("--shift", type=float, help="flow shift in place of the scheduler's own")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stills", type=int, default=200)
    parser.add_argument("--clips", type=int, default=50)
    parser.add_argument("--i2v", type=int, default=25)
    parser.add_argument("--flf2v", type=int, default=25)
    parser.add_argument("--edits", type=int, default=60)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json")
    parser.add_argument("--sheet")
    parser.add_argument("--adapters", nargs="*", default=[], help="files of adapters, all at full strength")
    parser.add_argument("--styles", nargs="*", default=[], choices=list(STYLES), help="what stills should look like")
    parser.add_argument("--wrong", action="store_true", help="list the prompts that went wrong")
    args = parser.parse_args()
    loop.setup(args.threads, 0)
    run = Evaluation(args.folder, args.steps, args.guidance, args.edit_guidance, args.seed, args.adapters)
    style = combined([STYLES[name] for name in args.styles])
    if args.shift:
        run.text.scheduler.set_shift(args.shift)
    figures = {}
    for size in args.sizes:
        table, samples = evaluate(run, size, args.stills, args.clips, args.i2v, args.flf2v, args.edits, style)
        figures[str(size)] = table
        print(show(table, size), flush=True)
        if args.wrong:
            for caption, keys in samples.get("wrong", []):
                print("  wrong:", caption, keys)
        if args.sheet:
            sheet(samples, Path(args.sheet.replace("{size}", str(size))))
    if args.json:
        Path(args.json).write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
