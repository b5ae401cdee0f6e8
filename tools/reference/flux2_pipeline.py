"""Goldens of whole FLUX.2 klein pipelines, from text to pixels."""

import shutil

import numpy as np
import torch
from diffusers import (
    AutoencoderKLFlux2,
    Flux2KleinInpaintPipeline,
    Flux2KleinPipeline,
    Flux2Transformer2DModel,
    FlowMatchEulerDiscreteScheduler,
)
from PIL import Image
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

import common
import flux2_gguf
from adapter_pairs import save_adapter_pair
from common import Call, generator, multiply, normal, randomise
from kl import picture
from seeded import keep_seed, with_weights

TOKENIZER = common.GOLDENS.parent / "tokenizers" / "qwen2"
# What `apply_chat_template` makes with `enable_thinking=False`, as tokenizers/qwen2/chat.json has it.
# A template's own last line break would be lost, so it is in an expression.
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{{ '<|im_start|>assistant\n<think>\n\n</think>\n\n' }}"
)
# 28 layers: the pipeline takes the states after 9, 18 and 27.
TEXT = dict(
    vocab_size=908, hidden_size=16, intermediate_size=32, num_hidden_layers=28, num_attention_heads=2,
    num_key_value_heads=1, head_dim=8, max_position_embeddings=512, tie_word_embeddings=True,
    rope_parameters={"rope_type": "default", "rope_theta": 1e6},
)  # fmt: skip
TRANSFORMER = dict(
    in_channels=32, num_layers=1, num_single_layers=2, attention_head_dim=16, num_attention_heads=2,
    joint_attention_dim=48, timestep_guidance_channels=64, axes_dims_rope=(4, 4, 4, 4), guidance_embeds=False,
)  # fmt: skip
VAE = dict(
    down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8, latent_channels=8,
)  # fmt: skip


def save_pipeline(folder, seed):
    text = randomise(Qwen3ForCausalLM(Qwen3Config(**TEXT)), seed)
    transformer = randomise(Flux2Transformer2DModel(**TRANSFORMER), seed + 10)
    # Velocities of about the size of noise, so that steps change a lot but the picture stays one.
    multiply(transformer.proj_out.weight, 0.7)
    vae = randomise(AutoencoderKLFlux2(**VAE), seed + 20)
    rng = generator(seed + 21)
    vae.bn.running_mean.copy_(normal(rng, 32, std=0.3))
    vae.bn.running_var.copy_(normal(rng, 32, mean=1.0, std=0.2).abs())
    # The values of the published models.
    scheduler = FlowMatchEulerDiscreteScheduler(
        use_dynamic_shifting=True, shift=3.0, base_shift=0.5, max_shift=1.15, base_image_seq_len=256,
        max_image_seq_len=4096, time_shift_type="exponential",
    )  # fmt: skip
    Flux2KleinPipeline(
        scheduler=scheduler,
        vae=vae.half(),
        text_encoder=text.half(),
        tokenizer=AutoTokenizer.from_pretrained(TOKENIZER),
        transformer=transformer.bfloat16(),
        is_distilled=True,
    ).save_pretrained(folder)
    # Saved anew it would name classes that transformers 4 does not have.
    shutil.rmtree(folder / "tokenizer")
    (folder / "tokenizer").mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(TOKENIZER / name, folder / "tokenizer" / name)
    keep_seed(folder / "text_encoder", text, seed)
    keep_seed(folder / "transformer", transformer, seed + 10)
    keep_seed(folder / "vae", vae, seed + 20)
    save_adapter_pair(folder, Flux2Transformer2DModel(**TRANSFORMER), seed + 30, ADAPTED, "diffusion_model.", torch.float32)
    flux2_gguf.build(folder, seed + 40)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def load(folder, is_distilled):
    pipe = Flux2KleinPipeline.from_pretrained(with_weights(folder), dtype=torch.float32, local_files_only=True)
    pipe.register_to_config(is_distilled=is_distilled)
    pipe.tokenizer.chat_template = TEMPLATE
    pipe.set_progress_bar_config(disable=True)
    return pipe


# Modules of the original layout, and what they are of ours: rows of theirs in equal parts.
ADAPTED = {
    "double_blocks.0.img_attn.qkv": [f"transformer_blocks.0.attn.to_{n}" for n in "qkv"],
    "double_blocks.0.txt_attn.qkv": [f"transformer_blocks.0.attn.add_{n}_proj" for n in "qkv"],
    "double_blocks.0.img_attn.proj": ["transformer_blocks.0.attn.to_out.0"],
    "double_blocks.0.txt_mlp.0": ["transformer_blocks.0.ff_context.linear_in"],
    "double_blocks.0.img_mlp.2": ["transformer_blocks.0.ff.linear_out"],
    "single_blocks.0.linear1": ["single_transformer_blocks.0.attn.to_qkv_mlp_proj"],
    "single_blocks.1.linear2": ["single_transformer_blocks.1.attn.to_out"],
    "single_stream_modulation.lin": ["single_stream_modulation.linear"],
    "img_in": ["x_embedder"],
    "txt_in": ["context_embedder"],
}


def photo(seed, height, width):
    """A picture as a file would hold it."""
    pixels = picture(generator(seed), height, width)[0].permute(1, 2, 0)
    return ((pixels * 0.5 + 0.5) * 255).round().to(torch.uint8).numpy()


def run(folder, name, prompt, width=None, height=None, seed=42, steps=4, guidance=4.0, length=512, images=(),
        is_distilled=True, strength=None, adapt=None, transformer=None):  # fmt: skip
    """One call; `images` are uint8 arrays [height, width, 3]; with `strength`, adapted. `adapt` is called with the
    loaded pipeline; `transformer` takes the place of the folder's."""
    pipe = load(folder, is_distilled)
    if transformer is not None:
        pipe.transformer = transformer
    if strength is not None:
        pipe.load_lora_weights(folder / "adapter-diffusers.safetensors", adapter_name="one")
        pipe.set_adapters("one", strength)
    if adapt:
        adapt(pipe)
    seen = {}
    latents = []

    def keep(_pipe, _step, _timestep, values):
        latents.append(values["latents"][0].clone())
        return {}

    frame = pipe(
        image=[Image.fromarray(image) for image in images] or None,
        prompt=prompt, width=width, height=height, num_inference_steps=steps, guidance_scale=guidance,
        max_sequence_length=length, generator=generator(seed), output_type="np", callback_on_step_end=keep,
    ).images[0]  # fmt: skip
    height, width = frame.shape[:2]
    seen["sigmas"] = pipe.scheduler.sigmas.float()
    seen["timesteps"] = pipe.scheduler.timesteps.float()
    args = {
        "prompt": prompt, "width": width, "height": height, "num_inference_steps": steps,
        "guidance_scale": guidance, "max_sequence_length": length, "seed": seed, "is_distilled": is_distilled,
        "strength": strength, "file": transformer and flux2_gguf.NAME,
    }  # fmt: skip
    inputs = {f"image{i}": torch.from_numpy(image.copy()) for i, image in enumerate(images)}
    outputs = {"latents": latents[-1], "frame": torch.from_numpy(np.ascontiguousarray(frame)).float()}
    description = "latents are the tokens after the last step; frame is [height, width, channel] in 0..1"
    return Call(name, description, args, inputs, outputs, seen)


def masked(folder, name, prompt, seed, steps, strength, image, reference, mask):
    """A call that paints what is white in a mask; a further image is seen beside the one that is painted."""
    pipe = load(folder, True)
    inpaint = Flux2KleinInpaintPipeline(**pipe.components, is_distilled=True)
    inpaint.set_progress_bar_config(disable=True)
    seen = []

    def keep(_pipe, _step, _timestep, values):
        seen.append(values["latents"][0].clone())
        return {}

    frame = inpaint(
        image=Image.fromarray(image), mask_image=Image.fromarray(mask), image_reference=Image.fromarray(reference),
        prompt=prompt, num_inference_steps=steps, strength=strength, guidance_scale=1.0, max_sequence_length=64,
        generator=generator(seed), output_type="np", callback_on_step_end=keep,
    ).images[0]  # fmt: skip
    height, width = frame.shape[:2]
    args = {
        "prompt": prompt, "width": width, "height": height, "num_inference_steps": steps, "guidance_scale": 1.0,
        "max_sequence_length": 64, "seed": seed, "is_distilled": True, "strength": strength,
    }  # fmt: skip
    inputs = {"image0": image, "image1": reference, "mask": mask}
    outputs = {"latents": seen[-1], "frame": torch.from_numpy(np.ascontiguousarray(frame)).float()}
    inputs = {key: torch.from_numpy(value.copy()) for key, value in inputs.items()}
    return Call(name, "as the others; white of the mask is painted", args, inputs, outputs)


def box(height, width, top, bottom, left, right):
    """A mask that is white in a box."""
    mask = np.zeros((height, width), np.uint8)
    mask[top:bottom, left:right] = 255
    return mask


def calls(folder, _seed):
    """The base model differs by what `model_index.json` says alone."""
    return [
        run(folder, "text", "a red circle on a blue background", 64, 48),
        run(folder, "longer", "Three green stars, \u2603 unusually small\nin the corner", 40, 72, 7, 2, 1.0, 64),
        run(folder, "one_picture", "make it yellow", seed=5, steps=2, length=64, images=[photo(50, 70, 93)]),
        run(folder, "two_pictures", "the first beside the second", 48, 48, 6, 3, 1.0, 64,
            [photo(51, 64, 80), photo(52, 101, 66)]),
        run(folder, "base", "a small house at night", 48, 64, 11, 5, 4.0, is_distilled=False),
        run(folder, "base_unguided", "a small house at night", 48, 64, 11, 3, 1.0, 64, is_distilled=False),
        run(folder, "base_picture", "paint it red", 32, 48, 12, 4, 2.5, 64, [photo(53, 64, 64)],
            is_distilled=False),
        run(folder, "adapted", "a red circle on a blue background", 64, 48, length=64, strength=0.8),
        run(folder, "gguf", "the first beside the second", 48, 48, 6, 3, 1.0, 64,
            [photo(51, 64, 80)], transformer=flux2_gguf.load(folder)),
        # Far enough from the edges of tokens for the reference's bilinear samples, all of a token is one or the other.
        masked(folder, "masked", "a red box", 8, 4, 0.8, photo(54, 64, 80), photo(55, 64, 72),
               box(64, 80, 16, 48, 24, 64)),
    ]  # fmt: skip
