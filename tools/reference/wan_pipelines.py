"""Goldens of Wan's larger pipelines: two experts, first and last frames, control clips.

Each has a `save` (writes the folder as it is published) and a `calls` (reads it back and runs it). Their table is in
`wan.py`.
"""

import json

import numpy as np
import torch
from diffusers import (
    UniPCMultistepScheduler,
    WanImageToVideoPipeline,
    WanPipeline,
    WanTransformer3DModel,
    WanVACEPipeline,
    WanVACETransformer3DModel,
)
from PIL import Image
from transformers import (
    CLIPVisionConfig,
    CLIPVisionModel,
    PreTrainedTokenizerFast,
    UMT5Config,
    UMT5EncoderModel,
)

import tokenizer
from common import Call, exact, fresh_folder, generator, normal, randomise, rescale
from seeded import keep_seed, with_weights
from wan_models import make_vae, smooth_video

try:
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil as ImageProcessor
except ImportError:
    from transformers import CLIPImageProcessor as ImageProcessor

VOCABULARY = 448
# 8 times smaller, 4 times fewer frames, 16 channels, as the autoencoder of Wan 2.1
VAE = dict(
    base_dim=8, z_dim=16, dim_mult=[1, 2, 2, 2], num_res_blocks=1,
    temperal_downsample=[False, True, True], scale_factor_spatial=8,
)  # fmt: skip
VISION = dict(
    hidden_size=160, intermediate_size=192, num_hidden_layers=3, num_attention_heads=2,
    image_size=28, patch_size=14, hidden_act="gelu",
)  # fmt: skip


def make_transformer(seed, channels=16, heads=2, head_dim=32, image_dim=None, images=1, vace=False):
    common = dict(
        num_attention_heads=heads, attention_head_dim=head_dim, in_channels=channels, out_channels=16,
        text_dim=64, ffn_dim=160, num_layers=3 if vace else 2, rope_max_seq_len=64,
    )  # fmt: skip
    if image_dim:
        common |= dict(image_dim=image_dim, added_kv_proj_dim=heads * head_dim)
    if images == 2:
        common |= dict(pos_embed_seq_len=10)
    if vace:
        model = WanVACETransformer3DModel(**common, vace_layers=[0, 2], vace_in_channels=96)
    else:
        model = WanTransformer3DModel(**common)
    randomise(model, seed)
    rng = generator(seed + 1)
    others = {}
    if image_dim:
        others["encoder_hidden_states_image"] = normal(rng, images, 5, image_dim)
    if vace:
        others["control_hidden_states"] = normal(rng, 1, 96, 2, 8, 8)
    with exact():
        sample = model(
            normal(rng, 1, channels, 2, 8, 8), torch.tensor([500.0]), normal(rng, 1, 512, 64), **others
        ).sample
    rescale(model.proj_out, 1.0 / sample.std().item())
    return model


def make_vision(seed):
    model = randomise(CLIPVisionModel(CLIPVisionConfig(**VISION)), seed)
    return model


def make_scheduler(shift):
    return UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=shift, num_train_timesteps=1000
    )


def save(folder, seed, pipeline, transformers, shift=3.0, vision=False, **settings):
    """A whole pipeline in float16. `transformers`: options of the one transformer, or of both experts."""
    text = randomise(
        UMT5EncoderModel(
            UMT5Config(vocab_size=VOCABULARY, d_model=64, d_kv=32, num_heads=2, d_ff=96, num_layers=2)
        ),
        seed,
    )
    made = {"text_encoder": (text, seed), "vae": (make_vae(seed + 20, **VAE), seed + 20)}
    for i, options in enumerate(transformers):
        own = seed + 10 + i * 5
        made["transformer_2" if i else "transformer"] = (make_transformer(own, **options), own)
    if vision:
        made["image_encoder"] = (make_vision(seed + 30), seed + 30)
    parts = {name: model.half() for name, (model, _) in made.items()}
    if pipeline is WanImageToVideoPipeline:
        processor = ImageProcessor(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
        parts = {"image_encoder": None, "image_processor": processor if vision else None} | parts
    parts.setdefault("transformer_2", None)
    tokenizer.build(folder / "tokenizer", VOCABULARY)
    pipeline(
        tokenizer=PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer/tokenizer.json")),
        scheduler=make_scheduler(shift),
        **parts,
        **settings,
    ).save_pretrained(folder)
    # transformers 5 would name classes here that transformers 4 does not have, and would rewrite the tokenizer's files.
    path = folder / "model_index.json"
    index = json.loads(path.read_text())
    index["tokenizer"] = ["transformers", "PreTrainedTokenizerFast"]
    if vision:
        index["image_processor"] = ["transformers", "CLIPImageProcessor"]
    path.write_text(json.dumps(index, indent=2) + "\n")
    fresh_folder(folder / "tokenizer")
    tokenizer.build(folder / "tokenizer", VOCABULARY)
    for name, (model, own) in made.items():
        keep_seed(folder / name, model, own)


def load(folder):
    classes = {c.__name__: c for c in (WanPipeline, WanImageToVideoPipeline, WanVACEPipeline)}
    copy = with_weights(folder)
    index = json.loads((copy / "model_index.json").read_text())
    others = {}
    if index.get("image_processor", [None])[0]:
        others["image_processor"] = ImageProcessor.from_pretrained(copy / "image_processor")
    pipe = classes[index["_class_name"]].from_pretrained(copy, dtype=torch.float32, local_files_only=True, **others)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def run(pipe, name, prompt, width, height, num_frames, steps, guidance, seed=42, negative="", pictures=None,
        **others):  # fmt: skip
    """One call. `pictures`: uint8 arrays [height, width, 3], or [count, height, width, 3], by argument name."""
    request = {
        "prompt": prompt, "negative_prompt": negative, "width": width, "height": height,
        "num_frames": num_frames, "num_inference_steps": steps, "guidance_scale": guidance,
        "max_sequence_length": 512, **others,
    }  # fmt: skip
    given = {
        key: Image.fromarray(value) if value.ndim == 3 else [Image.fromarray(each) for each in value]
        for key, value in (pictures or {}).items()
    }
    results = {}
    with exact():
        for kind, key in (("latent", "latents"), ("np", "frames")):
            rng = torch.Generator("cpu").manual_seed(seed)
            frames = pipe(**request, **given, generator=rng, output_type=kind).frames[0]
            results[key] = torch.as_tensor(np.ascontiguousarray(frames)).float()
    inputs = {key: torch.from_numpy(value.copy()) for key, value in (pictures or {}).items()}
    return Call(name, "frames is [frame, height, width, channel] in 0..1", request | {"seed": seed}, inputs, results)


def picture(seed, height, width):
    pixels = smooth_video(generator(seed), 1, 1, height, width)[0, :, 0].permute(1, 2, 0)
    return ((pixels * 0.5 + 0.5) * 255).round().to(torch.uint8).numpy().astype(np.uint8)


def clip(seed, frames, height, width):
    return np.stack([picture(seed + i, height, width) for i in range(frames)])


def experts_calls(folder):
    pipe = load(folder)
    return [
        run(pipe, "both", "a red circle on the left", 48, 32, 5, 5, 4.0, negative="dark", guidance_scale_2=3.0),
        run(pipe, "alone", "two blue squares", 32, 32, 1, 4, 1.0),
    ]  # fmt: skip


def first_frame_calls(folder, last):
    """`last`: whether the model takes a last frame: "never", "always" or "maybe"."""
    pipe = load(folder)
    first = {"image": picture(60, 40, 56)}
    both = first | {"last_image": picture(61, 40, 56)}
    calls = []
    if last != "always":
        calls.append(run(pipe, "first", "a cat grows", 48, 32, 9, 4, 3.5, negative="dark", pictures=first))
    if last != "never":
        calls.append(run(pipe, "first_and_last", "a dog spins", 32, 48, 9, 3, 1.0, pictures=both))
    return calls


def control_calls(folder):
    pipe = load(folder)
    video = clip(70, 5, 32, 48)
    mask = np.zeros_like(video)
    mask[1:, 5:27, 11:40] = 255
    mask[2, 8:20, 14:30] = 100
    return [
        run(pipe, "control", "a green moon", 48, 32, 5, 3, 3.0, pictures={"video": video}, negative="dark"),
        run(pipe, "masked", "a cyan ring", 48, 32, 5, 3, 1.0, pictures={"video": video, "mask": mask},
            conditioning_scale=[0.7, 1.2]),
        run(pipe, "references", "two cats", 48, 32, 5, 3, 1.0,
            pictures={"reference_images": clip(80, 2, 32, 24)}),
        run(pipe, "all", "a dog", 32, 32, 5, 3, 2.0, conditioning_scale=0.8,
            pictures={"video": video[:, :, :32], "mask": mask[:, :, :32], "reference_images": clip(90, 1, 24, 64)}),
    ]  # fmt: skip


def expert_control_calls(folder):
    pipe = load(folder)
    video = clip(100, 5, 32, 32)
    mask = np.zeros_like(video)
    mask[1:, 5:27, 8:20] = 255
    return [
        run(pipe, "all", "a dog", 32, 32, 5, 5, 2.0, guidance_scale_2=3.0, negative="dark", conditioning_scale=0.8,
            pictures={"video": video, "mask": mask, "reference_images": clip(110, 1, 24, 32)}),
    ]  # fmt: skip
