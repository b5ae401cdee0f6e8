"""Makes the goldens of Krea 2 under tests/goldens/krea2.

    python3 tools/reference/krea2.py                 # make all
    python3 tools/reference/krea2.py NAME ...        # make some
    python3 tools/reference/krea2.py --check [NAME]  # read the stored ones back and run them again

`pipeline` is a folder as it is published, but for the weights, which are drawn from the seeds in the seeded.json of each
component. diffusers has no pipeline of Krea 2 for input images and masks: `picture` and `masked` begin and go on as its
pipelines of Qwen-Image do, whose autoencoder this is. krea2_edits.py has what is made after reference images.
"""

import json

import torch
from diffusers import AutoencoderKLQwenImage, FlowMatchEulerDiscreteScheduler, Krea2Pipeline, Krea2Transformer2DModel
from transformers import Qwen3VLConfig, Qwen3VLModel

import common
from adapter_pairs import save_adapter
from common import Call, generator, make_goldens, normal
from given_images import encode_frame, given_calls, image_call, pack, shifted_levels
from krea2_edits import edit_call
from qwen3_vl import TEXT, VISION
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
    # The second of these is added to a state that is taken.
    vision = dict(VISION, depth=2, deepstack_visual_indexes=[0, 1])
    config = Qwen3VLConfig(text_config=TEXT, vision_config=vision, image_token_id=908, video_token_id=909,
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

PROMPT = "a bright red cat sleeps under the ancient mountain, 一只红色的猫, cinematic light in the morning"


given_call = given_calls(image_call, encode_frame, shifted_levels(6400), pack)
redrawn_call = given_calls(edit_call, encode_frame, shifted_levels(6400), pack)


def edit_calls(pipeline, seed, mask, size):
    rng = generator(seed)
    near, tall, small = picture(rng, 70, 100), picture(rng, 120, 61), picture(rng, 33, 47)
    plain = dict(prompt="make it red", guidance_scale=0.0, num_inference_steps=2)
    guided = dict(prompt="a cat", negative_prompt=PROMPT, guidance_scale=3.0, num_inference_steps=2)
    return [
        edit_call(pipeline, "edit", 21, pictures=[near], method="index", **plain, **size),
        edit_call(pipeline, "edits", 22, pictures=[near, tall], method="index", **guided, **size),
        edit_call(pipeline, "clean", 23, pictures=[tall, small], method="index_timestep_zero", **guided, height=24, width=40),
        redrawn_call(pipeline, "redrawn", 24, picture(rng, 40, 56), 0.7, 3, mask, pictures=[tall], method="index",
                     prompt="a cat", guidance_scale=0.0, **size),
    ]


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
    return [*calls, adapted, *edit_calls(raw, seed + 30, mask, size)]


def build_pipeline(folder, seed):
    components(folder, seed)
    save_adapter(folder, Krea2Transformer2DModel(**SMALL), seed + 20, ADAPTED)


GOLDENS = {
    "tiny": ("Krea 2, tiny", 81, lambda folder, seed: transformer(folder, seed, **TINY), tiny_calls),
    "pipeline": ("Krea 2, pipeline", 87, build_pipeline, pipeline_calls),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
