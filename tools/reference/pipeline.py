"""Runs a Wan pipeline folder as diffusers does and stores the results as a golden.

    python3 tools/reference/pipeline.py models/bundled tests/goldens/wan/bundled \
        --name red-circle --prompt "a red circle" --size 64x64 --frames 1 --seed 42 --steps 6 \
        --guidance 3.5

With --image the folder is run as image-to-video, with --last-image too as the bundled model ends a video, with --video (a folder of pictures, in the order of
their names) as video-to-video. Calls of other names already in OUT are kept.
With --inside, what is computed on the way is stored too.
"""

import argparse
import json
import pathlib
import sys

import numpy as np
import torch
from diffusers import WanImageToVideoPipeline, WanPipeline, WanVideoToVideoPipeline
from diffusers.pipelines.wan.pipeline_wan import prompt_clean
from PIL import Image

from common import Call, exact, without_inside, write_golden
from seeded import with_weights

sys.path.append(str(pathlib.Path(__file__).parent.parent / "train"))
from last_frame import LastFramePipeline  # noqa: E402


def load(folder, image_to_video=False, video_to_video=False, has_last=False):
    pipe = WanPipeline.from_pretrained(with_weights(folder), dtype=torch.float32, local_files_only=True)
    if image_to_video:
        index = json.loads((pathlib.Path(folder) / "model_index.json").read_text())
        pipe = (LastFramePipeline if has_last else WanImageToVideoPipeline)(
            **pipe.components,
            image_encoder=None,
            image_processor=None,
            boundary_ratio=index.get("boundary_ratio"),
            expand_timesteps=index.get("expand_timesteps", False),
        )
    if video_to_video:
        parts = pipe.components
        pipe = WanVideoToVideoPipeline(
            **{name: parts[name] for name in
               ("tokenizer", "text_encoder", "transformer", "vae", "scheduler")}
        )  # fmt: skip
        # It counts the levels only, not the patches of a Wan 2.2 autoencoder.
        pipe.vae_scale_factor_spatial = pipe.vae.config.scale_factor_spatial
    pipe.set_progress_bar_config(disable=True)
    return pipe


def spy(owner, name, seen):
    """Wraps a method so that its first positional arguments and result are kept."""
    inner = getattr(owner, name)

    def outer(*args, **kwargs):
        result = inner(*args, **kwargs)
        seen.append((args, result))
        return result

    setattr(owner, name, outer)


def run_pipeline(folder, name, prompt, negative_prompt="", width=64, height=64, num_frames=1,
                 seed=42, steps=6, guidance=3.5, max_sequence_length=512, image=None, video=None, strength=None,
                 adapt=None, last_image=None):  # fmt: skip
    """One call. `image` and `last_image` are uint8 arrays [height, width, 3], `video` is [frames, ...], or None.
    `adapt` is called with the loaded pipeline."""
    pipe = load(folder, image is not None, video is not None, last_image is not None)
    if adapt:
        adapt(pipe)
    request = {
        "prompt": prompt,
        "negative_prompt": negative_prompt,
        "width": width,
        "height": height,
        "num_frames": num_frames,
        "num_inference_steps": steps,
        "guidance_scale": guidance,
        "max_sequence_length": max_sequence_length,
    }
    inputs, outputs, inside = {}, {}, {}
    if image is not None:
        inputs["image"] = torch.from_numpy(image.copy())
        request["image"] = Image.fromarray(image)
    if last_image is not None:
        inputs["last_image"] = torch.from_numpy(last_image.copy())
        request["last_image"] = Image.fromarray(last_image)
    if video is not None:
        inputs["video"] = torch.from_numpy(video.copy())
        del request["num_frames"]
        request["video"] = [Image.fromarray(frame) for frame in video]
        request["strength"] = strength

    with exact():
        for role, text in (("prompt", prompt), ("negative", negative_prompt)):
            if role == "prompt" or guidance > 1:
                batch = pipe.tokenizer(
                    [prompt_clean(text)], padding="max_length", max_length=max_sequence_length,
                    truncation=True, add_special_tokens=True, return_tensors="pt",
                )  # fmt: skip
                count = int(batch.attention_mask.sum())
                embeds = pipe._get_t5_prompt_embeds(
                    prompt=text, max_sequence_length=max_sequence_length
                )
                assert not embeds[0, count:].any()
                inside[f"{role}_ids"] = batch.input_ids[0, :count].int()
                inside[f"{role}_embeds"] = embeds[0, :count]

        latents, steps_seen, prepared = [], [], []
        spy(pipe.scheduler, "step", steps_seen)
        spy(pipe, "prepare_latents", prepared)

        def keep(_pipe, _step, _timestep, values):
            latents.append(values["latents"][0].clone())
            return {}

        def rng():
            return torch.Generator("cpu").manual_seed(seed)

        final = pipe(**request, generator=rng(), output_type="latent", callback_on_step_end=keep)
        frames = (
            pipe(**request, generator=rng(), output_type="np").frames[0]
            if last_image is None
            else pipe.frames_of(final.frames).numpy()
        )

    first = prepared[0][1]
    inside["noise" if video is None else "noised"] = (first if image is None else first[0])[0]
    if image is not None:
        inside["image_pixels"] = prepared[0][0][0][0].clone()
        inside["condition"] = first[1][0]
    inside["timesteps"] = pipe.scheduler.timesteps.float()
    inside["sigmas"] = pipe.scheduler.sigmas.float()
    inside["model_outputs"] = torch.stack([args[0][0] for args, _ in steps_seen[: len(latents)]])
    inside["step_latents"] = torch.stack(latents)
    outputs["latents"] = final.frames[0]
    outputs["frames"] = torch.from_numpy(np.ascontiguousarray(frames)).float()
    args = {key: value for key, value in request.items() if key not in ("image", "last_image", "video")}
    args["num_frames"] = num_frames
    args["seed"] = seed
    source = "text" if image is None else "image"
    args["task"] = f"{source if video is None else 'video'}-to-video"
    description = (
        "prompt_embeds and negative_embeds hold the real rows; the rest up to max_sequence_length "
        "is zero. model_outputs is after guidance. step_latents is after each scheduler step. "
        "frames is [frame, height, width, channel] in 0..1"
    )
    return Call(name, description, args, inputs, outputs, inside)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", help="folder with model_index.json")
    parser.add_argument("out", help="folder for golden.safetensors and golden.json")
    parser.add_argument("--name", default="run")
    parser.add_argument("--prompt", required=True)
    parser.add_argument("--negative-prompt", default="")
    parser.add_argument("--size", default="64x64", help="WIDTHxHEIGHT")
    parser.add_argument("--frames", type=int, default=1)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--guidance", type=float, default=3.5)
    parser.add_argument("--max-sequence-length", type=int, default=512)
    parser.add_argument("--image", help="first frame; makes the call image-to-video")
    parser.add_argument("--last-image", help="last frame")
    parser.add_argument("--video", help="folder of frames; makes the call video-to-video")
    parser.add_argument("--strength", type=float, default=0.8)
    parser.add_argument("--inside", action="store_true", help="also stores what is inside, step by step")
    options = parser.parse_args()
    width, height = (int(v) for v in options.size.split("x"))
    image, last_image = (
        np.array(Image.open(path).convert("RGB")) if path else None for path in (options.image, options.last_image)
    )
    video = None
    if options.video:
        paths = sorted(pathlib.Path(options.video).iterdir())[: options.frames]
        video = np.stack([np.array(Image.open(path).convert("RGB")) for path in paths])
    call = run_pipeline(
        options.folder, options.name, options.prompt, options.negative_prompt, width, height,
        options.frames, options.seed, options.steps, options.guidance,
        options.max_sequence_length, image, video, options.strength if options.video else None, last_image=last_image,
    )  # fmt: skip
    calls = [call] if options.inside else without_inside([call])
    write_golden(options.out, "Full pipeline runs", options.seed, calls, keep=True)


if __name__ == "__main__":
    main()
