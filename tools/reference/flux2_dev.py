"""Goldens of FLUX.2 dev: what it has beside klein is its text encoder, Mistral Small, and a guidance that is embedded."""

import json

from diffusers import AutoencoderKLFlux2, Flux2Pipeline, Flux2Transformer2DModel, FlowMatchEulerDiscreteScheduler
from PIL import Image
from transformers import Mistral3Config, Mistral3ForConditionalGeneration, MistralConfig

import ernie_image
from adapter_pairs import save_adapter
from common import Call, generator
from ernie_image import PROMPT, VAE, VISION
from qwen_image import picture, quiet
from seeded import seed_weights

# Of 31 layers the states after 10, 20 and 30 are taken.
TEXT = dict(vocab_size=912, hidden_size=64, intermediate_size=320, num_hidden_layers=31, num_attention_heads=2,
            num_key_value_heads=1, head_dim=128, rms_norm_eps=1e-5, max_position_embeddings=131072, sliding_window=None,
            rope_parameters={"rope_type": "default", "rope_theta": 1e9})
# Heads of 128, with the guidance as an input.
TRANSFORMER = dict(in_channels=32, num_layers=1, num_single_layers=2, attention_head_dim=128, num_attention_heads=2,
                   joint_attention_dim=192)
SCHEDULER = dict(use_dynamic_shifting=True, shift=3.0, base_shift=0.5, max_shift=1.15, base_image_seq_len=256,
                 max_image_seq_len=4096, time_shift_type="exponential")
CHAT = ["[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[IMG]"]
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% set tag = 'SYSTEM_PROMPT' if m.role == 'system' else 'INST' %}"
    "[{{ tag }}]{{ m.content[0].text }}[/{{ tag }}]{% endfor %}"
)
ADAPTED = [
    "transformer_blocks.0.attn.to_q",
    "transformer_blocks.0.attn.add_v_proj",
    "transformer_blocks.0.ff.linear_in",
    "single_transformer_blocks.0.attn.to_qkv_mlp_proj",
    "single_transformer_blocks.1.attn.to_out",
    "time_guidance_embed.guidance_embedder.linear_1",
    "context_embedder",
]


def components(folder, seed):
    """The parts of the pipeline, their configurations and rules written."""
    for name in ("transformer", "text_encoder", "vae", "scheduler", "tokenizer"):
        (folder / name).mkdir(exist_ok=True, parents=True)
    # Rows that attend to nothing are zero with this attention, which is the usual one.
    config = Mistral3Config(text_config=MistralConfig(**TEXT), vision_config={"model_type": "pixtral", **VISION},
                            attn_implementation="sdpa")
    text_encoder = Mistral3ForConditionalGeneration(config)
    text_encoder.config.save_pretrained(folder / "text_encoder")
    transformer = Flux2Transformer2DModel(**TRANSFORMER)
    transformer.save_config(folder / "transformer")
    vae = AutoencoderKLFlux2(**VAE)
    vae.save_config(folder / "vae")
    scheduler = FlowMatchEulerDiscreteScheduler(**SCHEDULER)
    scheduler.save_config(folder / "scheduler")
    index = {
        "_class_name": "Flux2Pipeline",
        "_diffusers_version": "0.42.1",
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "Mistral3ForConditionalGeneration"],
        "tokenizer": ["transformers", "PixtralProcessor"],
        "transformer": ["diffusers", "Flux2Transformer2DModel"],
        "vae": ["diffusers", "AutoencoderKLFlux2"],
    }
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    tokenizer = ernie_image.tokenizer(folder / "tokenizer", CHAT, padding_side="left")
    tokenizer.chat_template = TEMPLATE
    statistics = [("bn.running_mean", 0.0, 0.3), ("bn.running_var", 0.02, 0.002)]
    return {
        "text_encoder": seed_weights(folder / "text_encoder", text_encoder, seed),
        "transformer": seed_weights(folder / "transformer", transformer, seed + 1),
        "vae": seed_weights(folder / "vae", vae, seed + 2, buffers=statistics),
        "scheduler": scheduler,
        "tokenizer": tokenizer,
    }


def build(folder, seed):
    components(folder, seed)
    save_adapter(folder, Flux2Transformer2DModel(**TRANSFORMER), seed + 20, ADAPTED)


def image_call(pipe, name, seed, images=(), args=None, **arguments):
    """Final latents, packed, and the image in [0, 1]; `images` are uint8 [height, width, 3]."""
    seen = {}

    def keep(_pipe, _step, _timestep, state):
        seen["latents"] = state["latents"]
        return {}

    given = [Image.fromarray(image.numpy()) for image in images] or None
    image = pipe(image=given, generator=generator(seed), output_type="pt", callback_on_step_end=keep, **arguments).images
    image = image[0].permute(1, 2, 0)
    sizes = {"height": image.shape[0], "width": image.shape[1]}
    rows = sizes["height"] // (pipe.vae_scale_factor * 2)
    latents = seen["latents"].transpose(1, 2).unflatten(2, (rows, -1)).contiguous()
    inputs = {f"image{i}": image for i, image in enumerate(images)}
    return Call(name, "an image", {"seed": seed, **sizes, **arguments, **(args or {})}, inputs,
                {"latents": latents, "image": image})


def guided_call(pipe, name, seed, negative, scale, **arguments):
    """The pipeline takes no negative prompt: its transformer makes of two velocities what it guides to."""
    transformer = pipe.transformer
    states, _ids = pipe.encode_prompt(negative, max_sequence_length=arguments["max_sequence_length"])
    usual = transformer.forward

    def forward(encoder_hidden_states, **others):
        positive, other = (usual(encoder_hidden_states=text, **others)[0] for text in (encoder_hidden_states, states))
        return (other + scale * (positive - other),)

    transformer.forward = forward
    call = image_call(pipe, name, seed, args={"negative_prompt": negative, "true_cfg_scale": scale}, **arguments)
    transformer.forward = usual
    return call


def calls(folder, seed):
    pipe = quiet(Flux2Pipeline(**components(folder, seed)))
    rng = generator(seed + 9)
    small = dict(height=24, width=40, max_sequence_length=96)
    result = [
        image_call(pipe, "text", 7, prompt=PROMPT, guidance_scale=4.0, num_inference_steps=3, height=40, width=56),
        image_call(pipe, "cut", 8, prompt="[IMG]" + PROMPT * 4, guidance_scale=2.5, num_inference_steps=2, **small),
        guided_call(pipe, "guided", 9, "blurry", 3.0, prompt="a red cat", guidance_scale=1.5, num_inference_steps=2, **small),
        image_call(pipe, "edit", 10, [picture(rng, 70, 93)], prompt="paint it red", guidance_scale=4.0, num_inference_steps=2, max_sequence_length=96),
        image_call(pipe, "several", 11, [picture(rng, 64, 80), picture(rng, 101, 66)], prompt="both", guidance_scale=4.0,
                   num_inference_steps=2, **small),
    ]
    pipe.load_lora_weights(folder / "adapter.safetensors", adapter_name="one")
    pipe.set_adapters("one", 0.7)
    adapted = image_call(pipe, "adapted", 12, prompt=PROMPT, guidance_scale=4.0, num_inference_steps=2,
                         args={"strength": 0.7}, **small)
    pipe.unload_lora_weights()
    return [*result, adapted]
