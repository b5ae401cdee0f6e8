"""Makes the goldens of Krea 2 under tests/goldens/krea2.

    python3 tools/reference/krea2.py                 # make all
    python3 tools/reference/krea2.py NAME ...        # make some
    python3 tools/reference/krea2.py --check [NAME]  # read the stored ones back and run them again

`pipeline` is a folder as it is published, but for the weights, which are drawn from the seeds in the seeded.json of each
component. diffusers has no pipeline of Krea 2 for input images and masks: `picture` and `masked` begin and go on as its
pipelines of Qwen-Image do, whose autoencoder this is.
"""

import json

import torch
from diffusers import AutoencoderKLQwenImage, FlowMatchEulerDiscreteScheduler, Krea2Pipeline, Krea2Transformer2DModel
from safetensors.torch import save_file
from transformers import Qwen2Tokenizer, Qwen3VLConfig, Qwen3VLModel

import common
from common import Call, generator, make_goldens, normal
from qwen_image import VAE, picture, quiet, tokenizer, vae_overrides
from seeded import seed_weights

FOLDER = common.GOLDENS.parent / "krea2"

# Widths that fill no vector of four but in the heads; three queries to a key.
TINY = dict(in_channels=16, num_layers=2, attention_head_dim=12, num_attention_heads=3, num_key_value_heads=1,
            intermediate_size=50, timestep_embed_dim=32, text_hidden_dim=24, num_text_layers=3, text_num_attention_heads=2,
            text_num_key_value_heads=1, text_intermediate_size=30, num_layerwise_text_blocks=1, num_refiner_text_blocks=2,
            axes_dims_rope=(4, 4, 4))
# Heads of 128, four queries to a key, every width a multiple of 256.
SMALL = dict(in_channels=64, num_layers=2, attention_head_dim=128, num_attention_heads=4, num_key_value_heads=1,
             intermediate_size=512, text_hidden_dim=256, num_text_layers=3, text_num_attention_heads=2,
             text_num_key_value_heads=2, text_intermediate_size=256)
TEXT = dict(vocab_size=912, hidden_size=256, intermediate_size=256, num_hidden_layers=9, num_attention_heads=2,
            num_key_value_heads=1, head_dim=128, max_position_embeddings=4096, rms_norm_eps=1e-6, rope_theta=5e6,
            rope_scaling={"rope_type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": True})
VISION = dict(depth=1, hidden_size=16, intermediate_size=20, num_heads=2, out_hidden_size=256, deepstack_visual_indexes=[0],
              num_position_embeddings=16)
# Every third layer, as in the published models.
LAYERS = (2, 5, 8)
SCHEDULER = dict(num_train_timesteps=1000, shift=1.0, use_dynamic_shifting=True, base_shift=0.5, max_shift=1.15,
                 base_image_seq_len=256, max_image_seq_len=6400, time_shift_type="exponential")


def transformer(folder, seed, **config):
    """Its norms are stored around zero: 1 is added to them."""
    model = Krea2Transformer2DModel(**config)
    model.save_config(folder)
    overrides = {name: (0.0, 0.3) for name, _ in model.named_parameters() if "norm" in name or "scale_shift_table" in name}
    return seed_weights(folder, model, seed, overrides=overrides)


def forward_call(model, name, seed, rows, columns, text_tokens, time, pads=0):
    """Packed latents, and a prompt of `text_tokens`, behind which `pads` are masked."""
    rng = generator(seed)
    config = model.config
    latents = normal(rng, 1, rows * columns, config.in_channels)
    states = normal(rng, 1, text_tokens + pads, config.num_text_layers, config.text_hidden_dim)
    ids = Krea2Pipeline.prepare_position_ids(text_tokens + pads, rows, columns, "cpu")
    mask = torch.arange(text_tokens + pads)[None] < text_tokens
    output = model(latents, states, torch.tensor([time]), ids, mask, return_dict=False)[0]
    inputs = {"latents": latents, "states": states[:, :text_tokens]}
    return Call(name, "the transformer's output", {"time": time, "rows": rows, "columns": columns}, inputs, {"output": output})


def tiny_calls(folder, seed):
    model = transformer(folder, seed, **TINY)
    return [
        forward_call(model, "odd", seed + 1, 5, 3, 7, 1.0),
        forward_call(model, "padded", seed + 2, 2, 6, 5, 0.4375, pads=4),
    ]


def components(folder, seed):
    """The parts of the pipeline, their configurations and rules written."""
    for name in ("transformer", "text_encoder", "vae", "scheduler", "tokenizer"):
        (folder / name).mkdir(exist_ok=True, parents=True)
    config = Qwen3VLConfig(text_config=TEXT, vision_config=VISION, image_token_id=908, video_token_id=909,
                           vision_start_token_id=903, vision_end_token_id=907, attn_implementation="eager")
    text_encoder = Qwen3VLModel(config)
    text_encoder.config.save_pretrained(folder / "text_encoder")
    vae = AutoencoderKLQwenImage(**VAE)
    vae.save_config(folder / "vae")
    scheduler = FlowMatchEulerDiscreteScheduler(**SCHEDULER)
    scheduler.save_config(folder / "scheduler")
    index = {
        "_class_name": "Krea2Pipeline",
        "_diffusers_version": "0.42.1",
        "is_distilled": False,
        "patch_size": 2,
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "Qwen3VLModel"],
        "text_encoder_select_layers": list(LAYERS),
        "tokenizer": ["transformers", "Qwen2Tokenizer"],
        "transformer": ["diffusers", "Krea2Transformer2DModel"],
        "vae": ["diffusers", "AutoencoderKLQwenImage"],
    }
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    return {
        "text_encoder": seed_weights(folder / "text_encoder", text_encoder, seed),
        "transformer": transformer(folder / "transformer", seed + 1, **SMALL),
        "vae": seed_weights(folder / "vae", vae, seed + 2, overrides=vae_overrides(vae)),
        "scheduler": scheduler,
        "tokenizer": tokenizer(folder / "tokenizer"),
    }


# As its trainers name them; every kind of module that they adapt.
ADAPTED = {
    "blocks.0.attn.wq": "transformer_blocks.0.attn.to_q",
    "blocks.0.attn.gate": "transformer_blocks.0.attn.to_gate",
    "blocks.1.attn.wo": "transformer_blocks.1.attn.to_out.0",
    "blocks.1.mlp.down": "transformer_blocks.1.ff.down",
    "txtfusion.layerwise_blocks.0.attn.wv": "text_fusion.layerwise_blocks.0.attn.to_v",
    "txtfusion.refiner_blocks.1.mlp.gate": "text_fusion.refiner_blocks.1.ff.gate",
    "txtfusion.projector": "text_fusion.projector",
    "txtmlp.1": "txt_in.linear_1",
    "tmlp.0": "time_embed.linear_1",
    "tproj.1": "time_mod_proj",
    "first": "img_in",
    "last.linear": "final_layer.linear",
}


def save_adapter(folder, seed):
    """An adapter of rank 2 under the original names."""
    model = Krea2Transformer2DModel(**SMALL)
    rng = generator(seed)
    tensors = {}
    for name, module in ADAPTED.items():
        rows, columns = model.get_submodule(module).weight.shape
        tensors[f"diffusion_model.{name}.lora_A.weight"] = normal(rng, 2, columns, std=columns**-0.5).half()
        tensors[f"diffusion_model.{name}.lora_B.weight"] = normal(rng, rows, 2, std=0.2).half()
    save_file(tensors, folder / "adapter.safetensors")


PROMPT = "a bright red cat sleeps under the ancient mountain, 一只红色的猫, cinematic light in the morning"


def image_call(pipeline, name, seed, on_step=None, inputs=None, args=None, **arguments):
    """Final latents, packed, and the image in [0, 1]."""
    seen = {}

    def keep(_pipeline, step, _timestep, state):
        seen["latents"] = on_step(step, state["latents"]) if on_step else state["latents"]
        return {"latents": seen["latents"]}

    rng = arguments.pop("rng", None) or generator(seed)
    image = pipeline(generator=rng, output_type="pt", callback_on_step_end=keep, **arguments).images
    stored = {key: value for key, value in arguments.items() if key not in ("latents", "sigmas")}
    outputs = {"latents": seen["latents"], "image": image[0].permute(1, 2, 0)}
    return Call(name, "an image", {"seed": seed, **stored, **(args or {})}, inputs or {}, outputs)


def given_call(pipeline, name, seed, image, strength, steps, mask=None, **arguments):
    """From an input image, uint8 [height, width, 3]; white in the mask is painted."""
    height, width = arguments["height"], arguments["width"]
    vae, scheduler = pipeline.vae, pipeline.scheduler
    rng = generator(seed)
    pixels = image.permute(2, 0, 1)[None, :, None].float() / 127.5 - 1
    latents = vae.encode(pixels).latent_dist.sample(rng)[:, :, 0]
    mean, std = (torch.tensor(getattr(vae.config, key)).view(1, -1, 1, 1) for key in ("latents_mean", "latents_std"))
    side = pipeline.vae_scale_factor
    shape = (1, vae.config.z_dim, height // side, width // side)
    pack = lambda x: pipeline._pack_latents(x, 1, x.shape[1], *shape[2:])
    clean, noise = pack((latents - mean) / std), pack(normal(rng, *shape))
    begin = int(max(steps - min(steps * strength, steps), 0))
    sigmas = torch.linspace(1, 1 / steps, steps, dtype=torch.float64)[begin:].tolist()
    tokens = clean.shape[1]
    slope = (1.15 - 0.5) / (6400 - 256)
    scheduler.set_timesteps(len(sigmas), sigmas=sigmas, mu=tokens * slope + 0.5 - slope * 256)
    levels = scheduler.sigmas.clone()
    noisy = lambda level: (1 - level) * clean + level * noise
    inputs, on_step = {"given": image}, None
    if mask is not None:
        inputs["mask"] = mask
        rows = torch.nn.functional.interpolate(mask[None, None].float() / 255, shape[2:], mode="nearest")
        painted = pack(rows.expand(shape))
        on_step = lambda i, x: (1 - painted) * noisy(levels[i + 1]) + painted * x
    args = {"strength": strength, "num_inference_steps": steps}
    return image_call(pipeline, name, seed, on_step, inputs, args, rng=rng, latents=noisy(levels[0]), sigmas=sigmas,
                      num_inference_steps=len(sigmas), **arguments)


def pipeline_calls(folder, seed):
    parts = components(folder, seed)
    settings = dict(text_encoder_select_layers=LAYERS)
    raw, turbo = (quiet(Krea2Pipeline(**parts, **settings, is_distilled=distilled)) for distilled in (False, True))
    # The published tokenizer has 5 tokens for it.
    raw.prompt_template_encode_num_suffix_tokens = len(parts["tokenizer"](raw.prompt_template_encode_suffix).input_ids)
    size = dict(height=40, width=56)
    rng = generator(seed + 9)
    mask = torch.zeros(40, 56, dtype=torch.uint8)
    mask[8:28, 20:48] = 255
    guided = dict(prompt="a red cat", negative_prompt=PROMPT, guidance_scale=4.5, **size)
    calls = [
        image_call(raw, "text", 7, prompt=PROMPT, guidance_scale=0.0, num_inference_steps=4, **size),
        image_call(raw, "guided", 8, num_inference_steps=3, **guided),
        image_call(raw, "empty", 9, prompt="a red cat", guidance_scale=1.0, num_inference_steps=2, height=24, width=40),
        image_call(turbo, "turbo", 10, prompt=PROMPT, guidance_scale=0.0, num_inference_steps=3, height=16, width=72),
        image_call(raw, "cut", 2, prompt=PROMPT * 4, guidance_scale=0.0, num_inference_steps=2, height=16, width=32,
                   max_sequence_length=90),
        given_call(raw, "picture", 11, picture(rng, 40, 56), 0.6, 5, **guided),
        given_call(raw, "masked", 13, picture(rng, 40, 56), 0.7, 4, mask, prompt=PROMPT, guidance_scale=0.0, **size),
    ]
    raw.load_lora_weights(folder / "adapter.safetensors", adapter_name="one")
    raw.set_adapters("one", 0.7)
    adapted = image_call(raw, "adapted", 12, prompt=PROMPT, guidance_scale=0.0, num_inference_steps=2, height=24, width=40,
                         args={"strength": 0.7})
    raw.unload_lora_weights()
    return [*calls, adapted]


def build_pipeline(folder, seed):
    components(folder, seed)
    save_adapter(folder, seed + 20)


GOLDENS = {
    "tiny": ("Krea 2, tiny", 81, lambda folder, seed: transformer(folder, seed, **TINY), tiny_calls),
    "pipeline": ("Krea 2, pipeline", 87, build_pipeline, pipeline_calls),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
