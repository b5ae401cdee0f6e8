"""Goldens of Wan-Animate-2: its transformer, and its modular pipeline.

The reference attends with a block mask that only compiled kernels read; here it becomes a dense one. It takes states of
1280 from the image encoder, whatever the model: here they are narrower, which `image_dim` in the configuration says.
"""

import contextlib
import json

import diffusers.modular_pipelines.wan_animate_2.denoise as segments
import diffusers.models.transformers.transformer_wan_animate_2 as module
import torch
from diffusers import DPMSolverMultistepScheduler, WanAnimate2Blocks, WanAnimate2Transformer3DModel
from diffusers.guiders import ClassifierFreeGuidance
from diffusers.models import AutoencoderKLWan
from diffusers.models.transformers.transformer_wan_animate_2 import WanAnimate2KVCache
from PIL import Image
from torch.nn.attention.flex_attention import create_mask
from transformers import (
    CLIPVisionConfig,
    CLIPVisionModel,
    PreTrainedTokenizerFast,
    UMT5Config,
    UMT5EncoderModel,
)

import tokenizer
from common import Call, exact, generator, normal, randomise, rescale
from seeded import keep_seed, with_weights
from wan_models import make_vae
from wan_pipelines import VAE, VOCABULARY, clip, picture

IMAGE_DIM = 160
# 224 pixels a side, as the reference has it
VISION = dict(
    hidden_size=IMAGE_DIM, intermediate_size=192, num_hidden_layers=3, num_attention_heads=2,
    image_size=224, patch_size=56, hidden_act="gelu",
)  # fmt: skip
TEXT = dict(vocab_size=VOCABULARY, d_model=64, d_kv=32, num_heads=2, d_ff=96, num_layers=2)

_attend = module.dispatch_attention_fn
_Projection = module.MLPProj


def dense_mask(rule, B, H, Q_LEN, KV_LEN, device, _compile):
    return create_mask(rule, B, H, Q_LEN, KV_LEN, device)


def attend(query, key, value, attn_mask=None, **others):
    if attn_mask is None:
        return _attend(query, key, value, **others)
    parts = (x.transpose(1, 2) for x in (query, key, value))
    result = torch.nn.functional.scaled_dot_product_attention(*parts, attn_mask=attn_mask)
    # Rows of padding see nothing; they are cut off.
    return result.nan_to_num().transpose(1, 2)


@contextlib.contextmanager
def on_cpu():
    own = module.create_block_mask, module.dispatch_attention_fn, module.MLPProj
    module.create_block_mask, module.dispatch_attention_fn = dense_mask, attend
    module.MLPProj = lambda _width, dim: _Projection(IMAGE_DIM, dim)
    try:
        yield
    finally:
        module.create_block_mask, module.dispatch_attention_fn, module.MLPProj = own


def make_transformer(seed, heads, head_dim, layers, text_dim=64, ffn_dim=160):
    with on_cpu():
        model = WanAnimate2Transformer3DModel(
            dim=heads * head_dim, num_heads=heads, num_layers=layers, ffn_dim=ffn_dim, text_dim=text_dim
        )
    randomise(model, seed)
    inputs = transformer_inputs(model, seed + 1)
    with exact():
        sample = run_transformer(model, inputs, False)
    rescale(model.head.head, 1.0 / sample.std().item())
    return model


def save_transformer(folder, model, seed):
    model.save_pretrained(folder)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"image_dim": IMAGE_DIM}, indent=2) + "\n")
    keep_seed(folder, model, seed)


def load_transformer(folder):
    with on_cpu():
        return WanAnimate2Transformer3DModel.from_pretrained(folder, dtype=torch.float32, local_files_only=True).eval()


def build_transformer(folder, seed, dtype=torch.float32, **options):
    save_transformer(folder, make_transformer(seed, **options).to(dtype), seed)


def transformer_inputs(model, seed):
    """Latents of 3 frames and the image's, of 4x6, and of the driving video."""
    rng, config = generator(seed), model.config
    return {
        "hidden_states": normal(rng, 16, 4, 4, 6),
        "condition": normal(rng, 20, 4, 4, 6),
        "driving": normal(rng, 16, 3, 4, 6),
        "driving_condition": normal(rng, 20, 3, 4, 6),
        "context_rows": normal(rng, 1, 7, config.text_dim),
        "driving_rows": normal(rng, 1, 5, config.text_dim),
        "image_states": normal(rng, 1, 5, IMAGE_DIM),
        "driving_states": normal(rng, 1, 5, IMAGE_DIM),
        "timestep": torch.tensor([641.0]),
    }


def run_transformer(model, inputs, unconditional):
    frames, height, width = inputs["driving"].shape[1:]
    grid = torch.tensor([[frames, height // 2, width // 2]])
    cache = WanAnimate2KVCache(model.config.num_layers)
    tokens = frames * height * width // 4
    with on_cpu():
        model(
            [inputs["driving"]], inputs["timestep"], [inputs["driving_rows"][0]], [inputs["driving_condition"]],
            cache, "extract", tokens, inputs["driving_states"], offset_grid_sizes=grid,
        )  # fmt: skip
        return model(
            [inputs["hidden_states"]], inputs["timestep"], [inputs["context_rows"][0]], [inputs["condition"]],
            cache, "cached", tokens + height * width // 4, inputs["image_states"], reference_grid_sizes=grid,
            origin_len=1 + (frames - 1) * 4, origin_area=[height * 8, width * 8], is_uncondtion=unconditional,
        ).sample[0]  # fmt: skip


def transformer_calls(folder, seed, names=("prompt", "negative")):
    model = load_transformer(with_weights(folder))
    inputs = transformer_inputs(model, seed + 2)
    return [
        Call(
            name,
            "context = rows, then zero rows up to context_length",
            {"context_length": 512, "context_real_rows": [7], "driving_real_rows": [5]},
            inputs,
            {"sample": run_transformer(model, inputs, name == "negative")[None]},
        )
        for name in names
    ]


# The pipeline


def save_pipeline(folder, seed):
    """In float16, as `WanAnimate2Pipeline` is published: a folder for each component, and an index."""
    text = randomise(UMT5EncoderModel(UMT5Config(**TEXT)), seed).half()
    vision = randomise(CLIPVisionModel(CLIPVisionConfig(**VISION)), seed + 30).half()
    vae = make_vae(seed + 20, **VAE).half()
    scheduler = DPMSolverMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=5.0, num_train_timesteps=1000
    )
    for name, part in {"text_encoder": text, "image_encoder": vision, "vae": vae, "scheduler": scheduler}.items():
        part.save_pretrained(folder / name)
    save_transformer(folder / "transformer", make_transformer(seed + 10, 1, 128, 2).half(), seed + 10)
    tokenizer.build(folder / "tokenizer", VOCABULARY)
    index = {
        "_class_name": "WanAnimate2Pipeline",
        "image_encoder": ["transformers", "CLIPVisionModel"],
        "scheduler": ["diffusers", "DPMSolverMultistepScheduler"],
        "text_encoder": ["transformers", "UMT5EncoderModel"],
        "tokenizer": ["transformers", "PreTrainedTokenizerFast"],
        "transformer": ["diffusers", "WanAnimate2Transformer3DModel"],
        "vae": ["diffusers", "AutoencoderKLWan"],
    }
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    keep_seed(folder / "text_encoder", text, seed)
    keep_seed(folder / "image_encoder", vision, seed + 30)
    keep_seed(folder / "vae", vae, seed + 20)


def load_pipeline(folder, guidance):
    copy = with_weights(folder)
    pipe = WanAnimate2Blocks().init_pipeline()
    options = dict(dtype=torch.float32, local_files_only=True)
    pipe.update_components(
        text_encoder=UMT5EncoderModel.from_pretrained(copy / "text_encoder", **options),
        tokenizer=PreTrainedTokenizerFast(
            tokenizer_file=str(copy / "tokenizer/tokenizer.json"), pad_token="<pad>", eos_token="</s>"
        ),
        image_encoder=CLIPVisionModel.from_pretrained(copy / "image_encoder", **options),
        vae=AutoencoderKLWan.from_pretrained(copy / "vae", **options),
        transformer=load_transformer(copy / "transformer"),
        scheduler=DPMSolverMultistepScheduler.from_pretrained(copy / "scheduler"),
        guider=ClassifierFreeGuidance(guidance_scale=guidance),
    )
    return pipe


def run(folder, name, prompt, width, height, frames, steps, guidance, clip_length, negative="", seed=42):
    """One call; the character's image and the driving video have the size of the result."""
    pipe = load_pipeline(folder, guidance)
    image, video = picture(60, height, width), clip(70, frames, height, width)
    ends, own = [], segments.decode_vae
    segments.decode_vae = lambda vae, latents: ends.append(latents) or own(vae, latents)
    try:
        with on_cpu(), exact():
            videos = pipe(
                image=Image.fromarray(image), driving_video=[Image.fromarray(frame) for frame in video],
                prompt=prompt, negative_prompt=negative, height=height, width=width, num_inference_steps=steps,
                segment_frame_length=clip_length, generator=generator(seed), output_type="np", output="videos",
            )  # fmt: skip
    finally:
        segments.decode_vae = own
    made = torch.as_tensor(videos[0]).float()
    assert made.shape == (frames, height, width, 3), made.shape
    args = {
        "prompt": prompt, "negative_prompt": negative, "width": width, "height": height, "num_frames": frames,
        "num_inference_steps": steps, "guidance_scale": guidance, "clip_len": clip_length, "seed": seed,
    }  # fmt: skip
    return Call(
        name,
        "frames is [frame, height, width, channel] in 0..1; latents are those of the last clip",
        args,
        {"image": torch.from_numpy(image.copy()), "video": torch.from_numpy(video.copy())},
        {"latents": ends[-1], "frames": made},
    )


def pipeline_calls(folder):
    return [
        run(folder, "clip", "a red circle on the left", 48, 32, 5, 3, 3.0, 5, negative="dark"),
        run(folder, "clips", "two blue  squares", 32, 32, 8, 2, 1.0, 5),
    ]  # fmt: skip
