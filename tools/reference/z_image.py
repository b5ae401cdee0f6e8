"""Makes the goldens of Z-Image under tests/goldens/z_image.

    python3 tools/reference/z_image.py                 # make all
    python3 tools/reference/z_image.py NAME ...        # make some
    python3 tools/reference/z_image.py --check [NAME]  # read the stored ones back and run them again

`pipeline` is a folder as it is published, but for the weights, which are drawn from the seeds in the seeded.json of each
component.
"""

import json
import torch
from diffusers import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    ZImageImg2ImgPipeline,
    ZImageInpaintPipeline,
    ZImagePipeline,
    ZImageTransformer2DModel,
)
from transformers import Qwen2Tokenizer, Qwen3Config, Qwen3Model

import byte_pair
import common
from adapter_pairs import save_adapter_pair
from common import Call, generator, make_goldens, normal, randomise
from seeded import keep_seed, seed_weights, with_weights

FOLDER = common.GOLDENS.parent / "z_image"

# Widths that fill no vector of four: dim / 3 * 8 is 85.
TINY = dict(dim=32, n_layers=2, n_refiner_layers=1, n_heads=2, n_kv_heads=2, in_channels=4, cap_feat_dim=16,
            axes_dims=[8, 4, 4], axes_lens=[128, 32, 32])
# Every width a multiple of 256, heads of 128.
WIDE = dict(dim=768, n_layers=1, n_refiner_layers=1, n_heads=6, n_kv_heads=6, in_channels=16, cap_feat_dim=256,
            axes_dims=[32, 48, 48], axes_lens=[1024, 64, 64])
SMALL = dict(dim=384, n_layers=2, n_refiner_layers=1, n_heads=3, n_kv_heads=3, in_channels=16, cap_feat_dim=256,
            axes_dims=[32, 48, 48], axes_lens=[1024, 64, 64])
TEXT = dict(vocab_size=912, hidden_size=256, intermediate_size=512, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, head_dim=128, max_position_embeddings=1024,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6})
VAE = dict(down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
           block_out_channels=(32, 64), layers_per_block=1, latent_channels=16, norm_num_groups=32, sample_size=64,
           use_quant_conv=False, use_post_quant_conv=False, scaling_factor=0.3611, shift_factor=0.1159)


def forward_call(model, name, seed, size, lengths, timestep):
    """Latents of `size`; prompts of `lengths` in one batch, as guidance has them."""
    rng = generator(seed)
    config = model.config
    latents = normal(rng, config.in_channels, *size)
    captions = [normal(rng, length, config.cap_feat_dim) for length in lengths]
    batch = [latents.unsqueeze(1)] * len(lengths)
    outputs = model(batch, torch.full((len(lengths),), timestep), captions, return_dict=False)[0]
    inputs = {"latents": latents} | {f"caption{i}": caption for i, caption in enumerate(captions)}
    results = {f"output{i}": output.squeeze(1) for i, output in enumerate(outputs)}
    return Call(name, "the transformer's output for each prompt", {"timestep": timestep}, inputs, results)


def build_tiny(folder, seed):
    model = randomise(ZImageTransformer2DModel(**TINY), seed)
    model.half().save_pretrained(folder)
    keep_seed(folder, model, seed)


def tiny_calls(folder, seed):
    model = ZImageTransformer2DModel.from_pretrained(with_weights(folder), torch_dtype=torch.float32).eval()
    return [
        forward_call(model, "unpadded", seed + 1, (8, 16), [32], 0.0),
        forward_call(model, "padded", seed + 2, (6, 10), [5], 0.25),
        forward_call(model, "two", seed + 3, (10, 6), [40, 7], 0.875),
    ]


def wide_model(folder, seed):
    model = ZImageTransformer2DModel(**WIDE)
    model.save_config(folder)
    return seed_weights(folder, model, seed)


def wide_calls(folder, seed):
    model = wide_model(folder, seed)
    return [forward_call(model, "two", seed + 1, (12, 10), [50, 9], 0.4)]


def components(folder, seed):
    """The parts of the pipeline, their configurations and rules written."""
    for name in ("transformer", "text_encoder", "vae", "scheduler", "tokenizer"):
        (folder / name).mkdir(exist_ok=True, parents=True)
    text = Qwen3Model(Qwen3Config(**TEXT, attn_implementation="eager"))
    text.config.save_pretrained(folder / "text_encoder")
    transformer = ZImageTransformer2DModel(**SMALL)
    vae = AutoencoderKL(**VAE)
    scheduler = FlowMatchEulerDiscreteScheduler(num_train_timesteps=1000, shift=3.0)
    for name, part in {"transformer": transformer, "vae": vae, "scheduler": scheduler}.items():
        part.save_config(folder / name)
    if not (folder / "tokenizer" / "tokenizer.json").exists():
        byte_pair.build(folder / "tokenizer")
        for name in ("vocab.json", "merges.txt"):
            (folder / "tokenizer" / name).unlink()
    parts = {
        "text_encoder": seed_weights(folder / "text_encoder", text, seed),
        "transformer": seed_weights(folder / "transformer", transformer, seed + 1),
        "vae": seed_weights(folder / "vae", vae, seed + 2),
        "scheduler": scheduler,
        "tokenizer": Qwen2Tokenizer.from_pretrained(folder / "tokenizer"),
    }
    parts["tokenizer"].chat_template = byte_pair.USER_TEMPLATE
    index = {
        "_class_name": "ZImagePipeline",
        "_diffusers_version": "0.36.0.dev0",
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "Qwen3Model"],
        "tokenizer": ["transformers", "Qwen2Tokenizer"],
        "transformer": ["diffusers", "ZImageTransformer2DModel"],
        "vae": ["diffusers", "AutoencoderKL"],
    }
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    return parts


# Modules under the original names, and what they are in diffusers.
ADAPTED = {
    "layers.0.attention.qkv": [f"layers.0.attention.to_{part}" for part in "qkv"],
    "layers.1.attention.out": ["layers.1.attention.to_out.0"],
    "layers.1.feed_forward.w2": ["layers.1.feed_forward.w2"],
    "layers.1.adaLN_modulation.0": ["layers.1.adaLN_modulation.0"],
    "noise_refiner.0.feed_forward.w1": ["noise_refiner.0.feed_forward.w1"],
    "context_refiner.0.attention.qkv": [f"context_refiner.0.attention.to_{part}" for part in "qkv"],
}


PROMPT = "a bright red cat sleeps under the ancient mountain, 一只红色的猫, cinematic light in the morning"


def picture_call(pipeline, name, seed, **arguments):
    """Final latents and the picture in [0, 1]."""
    seen = {}

    def keep(_pipeline, step, _timestep, state):
        seen["latents"] = state["latents"]
        return state

    inputs = {}
    call = dict(arguments)
    if "image" in arguments:
        inputs["given"] = arguments["image"]
        call["image"] = arguments["image"].permute(2, 0, 1).unsqueeze(0).float() / 255
        del arguments["image"]
    if "mask" in arguments:
        inputs["mask"] = arguments.pop("mask")
        call["mask_image"] = call.pop("mask").reshape(1, 1, *inputs["mask"].shape).float() / 255
    image = pipeline(generator=generator(seed), output_type="pt", callback_on_step_end=keep, **call).images
    args = {"seed": seed, **arguments}
    return Call(name, "a picture", args, inputs, {"latents": seen["latents"], "image": image[0].permute(1, 2, 0)})


def pipeline_calls(folder, seed):
    parts = components(folder, seed)
    pipeline = ZImagePipeline(**parts)
    pipeline.set_progress_bar_config(disable=True)
    other = ZImageImg2ImgPipeline(**parts)
    other.set_progress_bar_config(disable=True)
    inpaint = ZImageInpaintPipeline(**parts)
    inpaint.set_progress_bar_config(disable=True)
    # Along the edges of latents, which the reference rounds it to.
    mask = torch.zeros(24, 32, dtype=torch.uint8)
    mask[6:18, 12:28] = 255
    rng = generator(seed + 9)
    coarse = normal(rng, 1, 3, 4, 5)
    smooth = torch.nn.functional.interpolate(coarse, (24, 32), mode="bilinear")[0]
    image = ((0.5 + 0.25 * smooth).clamp(0, 1) * 255).round().byte().permute(1, 2, 0)
    size = dict(height=24, width=32)
    guided = dict(prompt="a red cat", negative_prompt=PROMPT, num_inference_steps=3, guidance_scale=2.5, **size)
    calls = [
        picture_call(pipeline, "text", 7, prompt=PROMPT, num_inference_steps=4, guidance_scale=0.0, **size),
        picture_call(pipeline, "long", 2, prompt=PROMPT * 24, num_inference_steps=1, guidance_scale=0.0, height=16, width=32),
        picture_call(pipeline, "guided", 8, **guided),
        picture_call(pipeline, "normalised", 9, cfg_normalization=1.0, **guided),
        picture_call(pipeline, "truncated", 10, cfg_truncation=0.3, **guided),
        picture_call(other, "picture", 11, prompt=PROMPT, image=image, strength=0.6, num_inference_steps=4,
                     guidance_scale=0.0, **size),
        picture_call(inpaint, "masked", 13, image=image, mask=mask, strength=0.8, **guided),
    ]
    pipeline.load_lora_weights(folder / "adapter-diffusers.safetensors", adapter_name="one")
    pipeline.set_adapters("one", 0.7)
    adapted = picture_call(pipeline, "adapted", 12, prompt="a red cat", num_inference_steps=2, guidance_scale=0.0, **size)
    adapted.args["strength"] = 0.7
    return [*calls, adapted]


def build_pipeline(folder, seed):
    components(folder, seed)
    save_adapter_pair(folder, ZImageTransformer2DModel(**SMALL), seed + 20, ADAPTED, "diffusion_model.", torch.half)


GOLDENS = {
    "tiny": ("Z-Image, tiny", 41, build_tiny, tiny_calls),
    "wide": ("Z-Image, wide", 43, wide_model, wide_calls),
    "pipeline": ("Z-Image, pipeline", 47, build_pipeline, pipeline_calls),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
