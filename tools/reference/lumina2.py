"""Makes the goldens of Lumina-Image 2.0 under tests/goldens/lumina2, and those of its text encoder under tests/goldens/gemma2.

    python3 tools/reference/lumina2.py                 # make all
    python3 tools/reference/lumina2.py NAME ...        # make some
    python3 tools/reference/lumina2.py --check [NAME]  # read the stored ones back and run them again

`pipeline` is a folder as it is published, but for the weights, which are drawn from the seeds in the seeded.json of each
component. diffusers has no pipeline of it for a start from an image and for masks: `picture` and `masked` begin and go on as
its pipelines of Z-Image do, with latents drawn from the image's.
"""

import json

import torch
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, Lumina2Pipeline, Lumina2Transformer2DModel
from transformers import Gemma2Config, Gemma2Model

import common
from adapter_pairs import save_adapters
from common import Call, generator, make_goldens, normal
from flux_images import VAE
from gemma3 import build_tokenizer
from given_images import encode, given_calls, image_call
from qwen_image import picture, quiet
from seeded import seed_weights

FOLDER = common.GOLDENS.parent / "lumina2"

# Widths that fill no vector of four but in the heads; the feed-forward is wider than four times the model.
TINY = dict(hidden_size=36, num_layers=2, num_refiner_layers=1, num_attention_heads=3, num_kv_heads=1, in_channels=4,
            cap_feat_dim=18, multiple_of=10, ffn_dim_multiplier=1.25, axes_dim_rope=(4, 4, 4), axes_lens=(40, 12, 12))
# Heads of 96, each key for three queries, as published.
SMALL = dict(hidden_size=288, num_layers=2, num_refiner_layers=1, num_attention_heads=3, num_kv_heads=1, in_channels=16,
             cap_feat_dim=256, axes_dim_rope=(32, 32, 32), axes_lens=(300, 64, 64))
# Scores beyond the cap, and a window shorter than the longest text.
TINY_TEXT = dict(vocab_size=97, hidden_size=30, intermediate_size=42, num_hidden_layers=3, num_attention_heads=6,
                 num_key_value_heads=2, head_dim=256, query_pre_attn_scalar=36, sliding_window=8, attn_logit_softcapping=5.0)
TEXT = dict(vocab_size=900, hidden_size=256, intermediate_size=512, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, head_dim=256, query_pre_attn_scalar=256)


def text_encoder(folder, seed, config):
    model = Gemma2Model(Gemma2Config(**config, attn_implementation="eager"))
    model.config.save_pretrained(folder)
    norms = {name: (0.0, 0.3) for name, p in model.named_parameters() if p.ndim == 1}
    return seed_weights(folder, model, seed, overrides=norms)


def text_calls(folder, seed):
    """All states of texts that are padded behind their last token; those of the pads are cut off."""
    model = text_encoder(folder, seed, TINY_TEXT)
    rng = generator(seed + 1)
    lengths, tokens = [5, 21], 24
    ids = torch.randint(0, TINY_TEXT["vocab_size"], (2, tokens), generator=rng)
    mask = torch.tensor([[int(i < length) for i in range(tokens)] for length in lengths])
    states = torch.stack(model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states)
    inputs = {f"ids{i}": ids[i, :length].int() for i, length in enumerate(lengths)}
    outputs = {f"states{i}": states[:, i, :length] for i, length in enumerate(lengths)}
    return [Call("padded", "all hidden states, layer by layer", {"lengths": lengths}, inputs, outputs)]


def transformer(folder, seed, config):
    model = Lumina2Transformer2DModel(**config)
    model.save_config(folder)
    return seed_weights(folder, model, seed)


def forward_call(model, name, seed, size, tokens, timestep, pads=0):
    """Latents of `size`, and a prompt of `tokens`, behind which `pads` are masked."""
    rng = generator(seed)
    config = model.config
    latents = normal(rng, 1, config.in_channels, *size)
    states = normal(rng, 1, tokens + pads, config.cap_feat_dim)
    mask = torch.tensor([[1] * tokens + [0] * pads])
    output = model(latents, torch.tensor([timestep]), states, mask, return_dict=False)[0]
    inputs = {"latents": latents, "states": states[:, :tokens]}
    return Call(name, "the transformer's output", {"timestep": timestep}, inputs, {"output": output})


def tiny_calls(folder, seed):
    model = transformer(folder, seed, TINY)
    return [
        forward_call(model, "odd", seed + 1, (10, 6), 7, 0.0),
        forward_call(model, "padded", seed + 2, (4, 14), 5, 0.4375, pads=4),
    ]


def components(folder, seed):
    """The parts of the pipeline, their configurations and rules written."""
    for name in ("transformer", "text_encoder", "vae", "scheduler", "tokenizer"):
        (folder / name).mkdir(exist_ok=True, parents=True)
    vae = AutoencoderKL(**VAE)
    vae.save_config(folder / "vae")
    scheduler = FlowMatchEulerDiscreteScheduler(num_train_timesteps=1000, shift=6.0)
    scheduler.save_config(folder / "scheduler")
    index = {
        "_class_name": "Lumina2Pipeline",
        "_diffusers_version": "0.42.1",
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "Gemma2Model"],
        "tokenizer": ["transformers", "GemmaTokenizerFast"],
        "transformer": ["diffusers", "Lumina2Transformer2DModel"],
        "vae": ["diffusers", "AutoencoderKL"],
    }
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    return {
        "text_encoder": text_encoder(folder / "text_encoder", seed, TEXT),
        "transformer": transformer(folder / "transformer", seed + 1, SMALL),
        "vae": seed_weights(folder / "vae", vae, seed + 2),
        "scheduler": scheduler,
        "tokenizer": build_tokenizer(folder / "tokenizer"),
    }


# Modules under the original names, and what they are in diffusers.
def block(theirs, ours):
    return {
        f"{theirs}.attention.qkv": [f"{ours}.attn.to_{part}" for part in "qkv"],
        f"{theirs}.attention.out": [f"{ours}.attn.to_out.0"],
        **{f"{theirs}.feed_forward.w{i}": [f"{ours}.feed_forward.linear_{i}"] for i in (1, 2, 3)},
    }


ADAPTED = {
    **block("layers.0", "layers.0"),
    **block("layers.1", "layers.1"),
    **block("noise_refiner.0", "noise_refiner.0"),
    **block("context_refiner.0", "context_refiner.0"),
    **{f"{name}.adaLN_modulation.1": [f"{name}.norm1.linear"] for name in ("layers.0", "layers.1", "noise_refiner.0")},
}

PROMPT = "a bright red Cat sleeps under the ancient mountain, 一只红色的猫, cinematic light at 3:45 in the morning"
SYSTEM = "You draw anime."


def set_levels(pipeline, steps, begin, _latents):
    levels = torch.linspace(1, 1 / steps, steps)[begin:].tolist()
    pipeline.scheduler.set_timesteps(sigmas=levels)
    return levels


given_call = given_calls(image_call, encode, set_levels)


def pipeline_calls(folder, seed):
    parts = components(folder, seed)

    pipeline = quiet(Lumina2Pipeline(**parts))
    # The reference takes eight pixels along the side of a latent, whatever the autoencoder is.
    pipeline.vae_scale_factor = 2
    size = dict(height=40, width=56)
    small = dict(height=24, width=40)
    rng = generator(seed + 9)
    mask = torch.zeros(40, 56, dtype=torch.uint8)
    mask[8:28, 20:48] = 255
    guided = dict(prompt="a red cat", negative_prompt=PROMPT, guidance_scale=4.0, **size)
    calls = [
        image_call(pipeline, "text", 7, prompt=PROMPT, guidance_scale=1.0, num_inference_steps=4, **size),
        image_call(pipeline, "guided", 8, num_inference_steps=3, **guided),
        image_call(pipeline, "plain", 9, prompt="a Red CAT", guidance_scale=2.0, num_inference_steps=2, cfg_normalization=False,
                   system_prompt=SYSTEM, **small),
        image_call(pipeline, "truncated", 10, num_inference_steps=3, cfg_trunc_ratio=0.6, **guided),
        image_call(pipeline, "cut", 14, prompt=PROMPT * 4, guidance_scale=1.0, num_inference_steps=1, max_sequence_length=150, **small),
        given_call(pipeline, "picture", 11, picture(rng, 40, 56), 0.6, 5, **guided),
        given_call(pipeline, "masked", 13, picture(rng, 40, 56), 0.7, 4, mask, prompt=PROMPT, guidance_scale=1.0, **size),
    ]
    pipeline.load_lora_weights(folder / "adapter.safetensors", adapter_name="one")
    pipeline.set_adapters("one", 0.7)
    adapted = image_call(pipeline, "adapted", 12, prompt="a red cat", guidance_scale=1.0, num_inference_steps=2,
                         args={"strength": 0.7}, **small)
    pipeline.unload_lora_weights()
    return [*calls, adapted]


def build_pipeline(folder, seed):
    components(folder, seed)
    save_adapters(folder, Lumina2Transformer2DModel(**SMALL), seed + 20, ADAPTED)


GOLDENS = {
    "../gemma2/tiny": ("Gemma 2 text encoder, tiny", 501, lambda folder, seed: text_encoder(folder, seed, TINY_TEXT), text_calls),
    "tiny": ("Lumina-Image 2.0, tiny", 503, lambda folder, seed: transformer(folder, seed, TINY), tiny_calls),
    "pipeline": ("Lumina-Image 2.0, pipeline", 507, build_pipeline, pipeline_calls),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
