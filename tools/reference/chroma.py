"""Makes the goldens of Chroma under tests/goldens/chroma and tests/goldens/chroma-hd128.

    python3 tools/reference/chroma.py          # make them
    python3 tools/reference/chroma.py --check  # read the stored ones back and run them again

The first has a transformer, with heads of 16, a scheduler and a model_index.json; the rest is that of flux1/dev. The
second has a transformer alone, with heads of 128 and sizes that blocks of quantised weights divide. The mask of
the text is made boolean: diffusers gives it to attention as numbers, which adds 1 to logits and hides nothing
(https://github.com/huggingface/diffusers/issues/13619).
"""

import json

import torch
from diffusers import ChromaImg2ImgPipeline, ChromaPipeline, ChromaTransformer2DModel, FlowMatchEulerDiscreteScheduler
from diffusers import AutoencoderKL
from transformers import PreTrainedTokenizerFast, T5EncoderModel

import common
from common import Call, generator, make_goldens, multiply, randomise
from flux1 import FOLDER as FLUX1, PROMPT, photo
from seeded import keep_seed, with_weights

TRANSFORMER = dict(in_channels=64, num_layers=1, num_single_layers=2, attention_head_dim=16, num_attention_heads=2,
                   joint_attention_dim=64, axes_dims_rope=(4, 4, 8), approximator_num_channels=16,
                   approximator_hidden_dim=24, approximator_layers=2)
WIDE = {**TRANSFORMER, "attention_head_dim": 128, "axes_dims_rope": (16, 56, 56), "num_single_layers": 1,
        "approximator_num_channels": 64, "approximator_hidden_dim": 64}


def build_transformer(folder, seed, config):
    model = randomise(ChromaTransformer2DModel(**config), seed)
    multiply(model.proj_out.weight, 0.7)
    model.bfloat16().save_pretrained(folder / "transformer")
    keep_seed(folder / "transformer", model, seed)


def build_wide(folder, seed):
    build_transformer(folder, seed, WIDE)


def build(folder, seed):
    build_transformer(folder, seed, TRANSFORMER)
    FlowMatchEulerDiscreteScheduler(shift=3.0).save_config(folder / "scheduler")
    index = {
        "_class_name": "ChromaPipeline",
        "_diffusers_version": "0.36.0.dev0",
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "T5EncoderModel"],
        "tokenizer": ["transformers", "T5Tokenizer"],
        "transformer": ["diffusers", "ChromaTransformer2DModel"],
        "vae": ["diffusers", "AutoencoderKL"],
    }
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")


def masked(self, batch_size, sequence_length, dtype, attention_mask=None):
    """In place of `_prepare_attention_mask`: what is hidden is hidden."""
    if attention_mask is None:
        return None
    image = torch.ones(batch_size, sequence_length, dtype=torch.bool)
    return torch.cat([attention_mask.bool(), image], dim=1)


def load(kind, folder):
    own, dev = with_weights(folder), with_weights(FLUX1 / "dev")
    pipeline = kind(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        text_encoder=T5EncoderModel.from_pretrained(dev / "text_encoder_2", dtype=torch.float32),
        tokenizer=PreTrainedTokenizerFast.from_pretrained(dev / "tokenizer_2"),
        transformer=ChromaTransformer2DModel.from_pretrained(own / "transformer", torch_dtype=torch.float32),
        vae=AutoencoderKL.from_pretrained(dev / "vae", torch_dtype=torch.float32),
    )
    pipeline._prepare_attention_mask = masked.__get__(pipeline)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def run(pipeline, name, prompt, width, height, seed, steps, image=None, **arguments):
    """Final latents, unpacked, and the picture in [0, 1]."""
    seen = {}

    def keep(_pipeline, _step, _timestep, state):
        seen["latents"] = state["latents"]
        return state

    given = {} if image is None else {"image": image.permute(2, 0, 1).unsqueeze(0).float() / 255}
    frame = pipeline(
        prompt=prompt, width=width, height=height, num_inference_steps=steps, generator=generator(seed),
        output_type="pt", callback_on_step_end=keep, **given, **arguments,
    ).images[0]  # fmt: skip
    latents = pipeline._unpack_latents(seen["latents"], height, width, pipeline.vae_scale_factor)
    args = {"prompt": prompt, "width": width, "height": height, "num_inference_steps": steps, "seed": seed, **arguments}
    inputs = {} if image is None else {"given": image}
    return Call(name, "a picture", args, inputs, {"latents": latents, "image": frame.permute(1, 2, 0)})


def calls(folder, _seed):
    text, image = load(ChromaPipeline, folder), load(ChromaImg2ImgPipeline, folder)
    return [
        run(text, "text", PROMPT, 28, 20, 3, 3, guidance_scale=2.5, negative_prompt="blurry", max_sequence_length=128),
        run(text, "plain", "a red cat", 24, 24, 4, 2, guidance_scale=1.0, max_sequence_length=40),
        run(text, "cut", PROMPT * 4, 16, 24, 5, 2, guidance_scale=1.0, max_sequence_length=30),
        run(image, "picture", "a small house at night", 24, 16, 6, 4, photo(55, 16, 24), strength=0.6,
            guidance_scale=3.0, negative_prompt="", max_sequence_length=32),
    ]  # fmt: skip


def wide_calls(folder, _seed):
    arguments = dict(guidance_scale=2.0, negative_prompt="blurry", max_sequence_length=24)
    return [run(load(ChromaPipeline, folder), "text", PROMPT, 28, 20, 3, 2, **arguments)]


GOLDENS = {
    "chroma": ("Chroma, heads of 16", 950, build, calls),
    "chroma-hd128": ("Chroma's transformer, heads of 128", 951, build_wide, wide_calls),
}

if __name__ == "__main__":
    make_goldens(common.GOLDENS.parent, GOLDENS)
