"""Makes the goldens of Ovis-Image under tests/goldens/ovis_image.

    python3 tools/reference/ovis_image.py                 # make all
    python3 tools/reference/ovis_image.py NAME ...        # make some
    python3 tools/reference/ovis_image.py --check [NAME]  # read the stored ones back and run them again

`pipeline` is a folder as it is published, but for the weights, which are drawn from the seeds in the seeded.json of each
component. diffusers has no pipeline of it for a start from an image and for masks: `picture` and `masked` begin and go on as
its pipelines of FLUX.1 do.
"""

import json

import torch
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, OvisImagePipeline, OvisImageTransformer2DModel
from transformers import Qwen2Tokenizer, Qwen3Config, Qwen3Model

import byte_pair
import common
from adapter_pairs import save_adapters
from common import Call, generator, make_goldens, normal
from flux_images import SCHEDULER, VAE, given_call, image_call
from qwen_image import picture, quiet
from seeded import seed_weights

FOLDER = common.GOLDENS.parent / "ovis_image"

# Widths that fill no vector of four but in the heads.
TINY = dict(in_channels=12, out_channels=12, num_layers=1, num_single_layers=2, attention_head_dim=12, num_attention_heads=3,
            joint_attention_dim=18, axes_dims_rope=(4, 4, 4))
# Heads of 128, every width a multiple of 256.
SMALL = dict(in_channels=64, out_channels=64, num_layers=1, num_single_layers=1, attention_head_dim=128, num_attention_heads=2,
             joint_attention_dim=256)
TEXT = dict(vocab_size=912, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, head_dim=128, max_position_embeddings=1024,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6})
# Ends with an empty thought where thinking is off.
TEMPLATE = (
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}{%- endfor %}"
    "{{- '<|im_start|>assistant\\n' }}{%- if enable_thinking is defined and enable_thinking is false %}"
    "{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
)


def transformer(folder, seed, config):
    model = OvisImageTransformer2DModel(**config)
    model.save_config(folder)
    return seed_weights(folder, model, seed)


def forward_call(model, name, seed, rows, columns, tokens, timestep):
    rng = generator(seed)
    config = model.config
    latents = normal(rng, 1, rows * columns, config.in_channels)
    states = normal(rng, 1, tokens, config.joint_attention_dim)
    text = torch.zeros(tokens, 3)
    text[:, 1:] = torch.arange(tokens)[:, None]
    image = OvisImagePipeline._prepare_latent_image_ids(1, rows, columns, "cpu", torch.float32)
    output = model(latents, states, torch.tensor([timestep / 1000]), image, text, return_dict=False)[0]
    args = {"timestep": timestep, "rows": rows, "columns": columns}
    return Call(name, "the transformer's output", args, {"latents": latents, "states": states}, {"output": output})


def tiny_calls(folder, seed):
    model = transformer(folder, seed, TINY)
    return [forward_call(model, "odd", seed + 1, 5, 3, 7, 1000.0), forward_call(model, "wide", seed + 2, 2, 6, 5, 437.5)]


def components(folder, seed):
    """The parts of the pipeline, their configurations and rules written."""
    for name in ("transformer", "text_encoder", "vae", "scheduler", "tokenizer"):
        (folder / name).mkdir(exist_ok=True, parents=True)
    text = Qwen3Model(Qwen3Config(**TEXT, attn_implementation="eager"))
    text.config.save_pretrained(folder / "text_encoder")
    vae = AutoencoderKL(**VAE)
    vae.save_config(folder / "vae")
    scheduler = FlowMatchEulerDiscreteScheduler(**SCHEDULER)
    scheduler.save_config(folder / "scheduler")
    if not (folder / "tokenizer" / "tokenizer.json").exists():
        byte_pair.build(folder / "tokenizer")
        for name in ("vocab.json", "merges.txt"):
            (folder / "tokenizer" / name).unlink()
    tokenizer = Qwen2Tokenizer.from_pretrained(folder / "tokenizer")
    tokenizer.chat_template = TEMPLATE
    index = {
        "_class_name": "OvisImagePipeline",
        "_diffusers_version": "0.42.1",
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "Qwen3Model"],
        "tokenizer": ["transformers", "Qwen2TokenizerFast"],
        "transformer": ["diffusers", "OvisImageTransformer2DModel"],
        "vae": ["diffusers", "AutoencoderKL"],
    }
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    return {
        "text_encoder": seed_weights(folder / "text_encoder", text, seed),
        "transformer": transformer(folder / "transformer", seed + 1, SMALL),
        "vae": seed_weights(folder / "vae", vae, seed + 2),
        "scheduler": scheduler,
        "tokenizer": tokenizer,
    }


# Modules under the original names, and what they are in diffusers.
ADAPTED = {
    "double_blocks.0.img_attn.qkv": [f"transformer_blocks.0.attn.to_{part}" for part in "qkv"],
    "double_blocks.0.txt_attn.qkv": [f"transformer_blocks.0.attn.add_{part}_proj" for part in "qkv"],
    "double_blocks.0.img_mlp.down_proj": ["transformer_blocks.0.ff.net.2"],
    "double_blocks.0.txt_attn.proj": ["transformer_blocks.0.attn.to_add_out"],
    "single_blocks.0.linear1": [*(f"single_transformer_blocks.0.attn.to_{part}" for part in "qkv"),
                                "single_transformer_blocks.0.proj_mlp"],
    "single_blocks.0.linear2": ["single_transformer_blocks.0.proj_out"],
}

PROMPT = "a bright red Cat sleeps under the ancient mountain, 一只红色的猫, cinematic light at 3:45 in the morning"


def pipeline_calls(folder, seed):
    pipeline = quiet(OvisImagePipeline(**components(folder, seed)))
    size = dict(height=40, width=56)
    small = dict(height=24, width=40)
    rng = generator(seed + 9)
    mask = torch.zeros(40, 56, dtype=torch.uint8)
    mask[8:28, 20:48] = 255
    guided = dict(prompt="a red cat", negative_prompt=PROMPT, guidance_scale=4.0, max_sequence_length=64, **size)
    alone = dict(prompt=PROMPT, guidance_scale=1.0, max_sequence_length=160, **size)
    calls = [
        image_call(pipeline, "text", 7, num_inference_steps=4, **alone),
        image_call(pipeline, "guided", 8, num_inference_steps=3, **guided),
        image_call(pipeline, "usual", 9, prompt="a Red CAT", negative_prompt="", guidance_scale=2.0, num_inference_steps=2, **small),
        given_call(pipeline, "picture", 11, picture(rng, 40, 56), 0.6, 5, **guided),
        given_call(pipeline, "masked", 13, picture(rng, 40, 56), 0.7, 4, mask, **alone),
    ]
    pipeline.load_lora_weights(folder / "adapter.safetensors", adapter_name="one") if hasattr(pipeline, "load_lora_weights") \
        else pipeline.transformer.load_lora_adapter(folder / "adapter.safetensors", adapter_name="one", prefix="transformer")
    pipeline.transformer.set_adapters("one", 0.7)
    adapted = image_call(pipeline, "adapted", 12, prompt="a red cat", guidance_scale=1.0, num_inference_steps=2, max_sequence_length=32,
                         args={"strength": 0.7}, **small)
    pipeline.transformer.unload_lora()
    return [*calls, adapted]


def build_pipeline(folder, seed):
    components(folder, seed)
    save_adapters(folder, OvisImageTransformer2DModel(**SMALL), seed + 20, ADAPTED)


GOLDENS = {
    "tiny": ("Ovis-Image, tiny", 601, lambda folder, seed: transformer(folder, seed, TINY), tiny_calls),
    "pipeline": ("Ovis-Image, pipeline", 607, build_pipeline, pipeline_calls),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
