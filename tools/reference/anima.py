"""Makes the goldens of Anima under tests/goldens/anima.

    python3 tools/reference/anima.py                 # make all
    python3 tools/reference/anima.py NAME ...        # make some
    python3 tools/reference/anima.py --check [NAME]  # read the stored ones back and run them again

`pipeline` is a folder as it is published, but for the weights, which are drawn from the seeds in the seeded.json of each
component. diffusers has it as a modular pipeline, and none for masks: `masked` goes on as its pipelines of Qwen-Image do.
"""

import json
import types

import torch
from diffusers import AnimaTextConditioner, AutoencoderKLQwenImage, CosmosTransformer3DModel, FlowMatchEulerDiscreteScheduler
from diffusers.guiders import ClassifierFreeGuidance
from diffusers.models.transformers import transformer_cosmos
from diffusers.modular_pipelines.anima import AnimaAutoBlocks
from PIL import Image
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3Model

import common
import tokenizer as pieces
from common import Call, generator, make_goldens, normal
from qwen_image import VAE, picture, tokenizer, vae_overrides
from seeded import seed_weights

FOLDER = common.GOLDENS.parent / "anima"
PIECES = 384

# Widths that fill no vector of four but in the heads.
TINY = dict(in_channels=4, out_channels=4, num_attention_heads=3, attention_head_dim=20, num_layers=2, mlp_ratio=2.5,
            text_embed_dim=18, adaln_lora_dim=6, rope_scale=(1.0, 4.0, 4.0), extra_pos_embed_type=None)
# Heads of 128, every width a multiple of 256.
SMALL = dict(in_channels=16, out_channels=16, num_attention_heads=2, attention_head_dim=128, num_layers=2,
             text_embed_dim=256, adaln_lora_dim=64, rope_scale=(1.0, 4.0, 4.0), extra_pos_embed_type=None)
CONDITIONER = dict(source_dim=256, target_dim=256, model_dim=256, num_layers=2, num_attention_heads=4,
                   target_vocab_size=PIECES)
TEXT = dict(vocab_size=912, hidden_size=256, intermediate_size=256, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, head_dim=128, max_position_embeddings=512, rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6})
SCHEDULER = dict(num_train_timesteps=1000, shift=3.0)

# torchvision, which is for a mask of zeros alone.
transformer_cosmos.transforms = types.SimpleNamespace(
    functional=types.SimpleNamespace(resize=lambda x, size, interpolation: torch.nn.functional.interpolate(x, size)),
    InterpolationMode=types.SimpleNamespace(NEAREST=None),
)


def transformer(folder, seed, **config):
    model = CosmosTransformer3DModel(**config)
    model.save_config(folder)
    return seed_weights(folder, model, seed)


def forward_call(model, name, seed, height, width, text_tokens, time):
    rng = generator(seed)
    latents = normal(rng, 1, model.config.in_channels, 1, height, width)
    context = normal(rng, 1, text_tokens, model.config.text_embed_dim)
    mask = torch.zeros(1, 1, height, width)
    output = model(latents, torch.tensor([time]), context, padding_mask=mask, return_dict=False)[0]
    inputs = {"latents": latents[:, :, 0], "context": context}
    return Call(name, "the transformer's output", {"time": time}, inputs, {"output": output[:, :, 0]})


def tiny_calls(folder, seed):
    model = transformer(folder, seed, **TINY)
    return [forward_call(model, "odd", seed + 1, 6, 10, 7, 0.96875)]


def components(folder, seed):
    """The parts of the pipeline, their configurations and rules written."""
    names = ("transformer", "text_encoder", "text_conditioner", "vae", "scheduler", "tokenizer", "t5_tokenizer")
    for name in names:
        (folder / name).mkdir(exist_ok=True, parents=True)
    text_encoder = Qwen3Model(Qwen3Config(**TEXT, attn_implementation="eager"))
    text_encoder.config.save_pretrained(folder / "text_encoder")
    conditioner = AnimaTextConditioner(**CONDITIONER)
    conditioner.save_config(folder / "text_conditioner")
    vae = AutoencoderKLQwenImage(**VAE)
    vae.save_config(folder / "vae")
    scheduler = FlowMatchEulerDiscreteScheduler(**SCHEDULER)
    scheduler.save_config(folder / "scheduler")
    if not (folder / "t5_tokenizer" / "tokenizer.json").exists():
        pieces.build(folder / "t5_tokenizer", PIECES)
    classes = {
        "text_encoder": ["transformers", "Qwen3Model"],
        "tokenizer": ["transformers", "Qwen2Tokenizer"],
        "t5_tokenizer": ["transformers", "T5TokenizerFast"],
        "text_conditioner": ["diffusers", "AnimaTextConditioner"],
        "transformer": ["diffusers", "CosmosTransformer3DModel"],
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "vae": ["diffusers", "AutoencoderKLQwenImage"],
    }
    index = {"_class_name": "AnimaModularPipeline", "_blocks_class_name": "AnimaAutoBlocks", "_diffusers_version": "0.42.1"}
    for name, own in classes.items():
        index[name] = [*own, {"pretrained_model_name_or_path": "circlestone-labs/Anima-Base-v1.0-Diffusers", "subfolder": name}]
    (folder / "modular_model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    return {
        "text_encoder": seed_weights(folder / "text_encoder", text_encoder, seed),
        "text_conditioner": seed_weights(folder / "text_conditioner", conditioner, seed + 3, overrides={"embed.weight": (0.0, 1.0)}),
        "transformer": transformer(folder / "transformer", seed + 1, **SMALL),
        "vae": seed_weights(folder / "vae", vae, seed + 2, overrides=vae_overrides(vae)),
        "scheduler": scheduler,
        "tokenizer": tokenizer(folder / "tokenizer"),
        "t5_tokenizer": PreTrainedTokenizerFast.from_pretrained(folder / "t5_tokenizer"),
    }


# As its trainers name them; every kind of module that they adapt.
ADAPTED = {
    "blocks.0.self_attn.q_proj": "transformer_blocks.0.attn1.to_q",
    "blocks.0.cross_attn.output_proj": "transformer_blocks.0.attn2.to_out.0",
    "blocks.1.cross_attn.k_proj": "transformer_blocks.1.attn2.to_k",
    "blocks.1.mlp.layer1": "transformer_blocks.1.ff.net.0.proj",
    "blocks.1.adaln_modulation_mlp.2": "transformer_blocks.1.norm3.linear_2",
    "llm_adapter.blocks.0.self_attn.v_proj": "blocks.0.self_attn.v_proj",
    "llm_adapter.blocks.1.cross_attn.q_proj": "blocks.1.cross_attn.q_proj",
    "llm_adapter.blocks.1.mlp.2": "blocks.1.mlp.2",
}


def save_adapter(folder, seed):
    """An adapter of rank 2 under the original names."""
    models = {True: AnimaTextConditioner(**CONDITIONER), False: CosmosTransformer3DModel(**SMALL)}
    rng = generator(seed)
    tensors = {}
    for name, module in ADAPTED.items():
        rows, columns = models[name.startswith("llm_adapter")].get_submodule(module).weight.shape
        tensors[f"diffusion_model.{name}.lora_A.weight"] = normal(rng, 2, columns, std=columns**-0.5).half()
        tensors[f"diffusion_model.{name}.lora_B.weight"] = normal(rng, rows, 2, std=0.3).half()
    save_file(tensors, folder / "adapter.safetensors")


PROMPT = "masterpiece, a bright red cat sleeps under the ancient mountain, 一只红色的猫, cinematic light"


def image_call(pipeline, name, seed, guidance=1.0, image=None, mask=None, **arguments):
    """Final latents, and the image in [0, 1]."""
    pipeline.update_components(guider=ClassifierFreeGuidance(guidance_scale=guidance))
    inputs, call = {}, dict(arguments)
    if image is not None:
        inputs["given"] = image
        call["image"] = Image.fromarray(image.numpy())
    step = pipeline.scheduler.step
    if mask is not None:
        inputs["mask"] = mask
        pipeline.scheduler.step = kept_step(pipeline, image, mask, seed, step)
    state = pipeline(generator=generator(seed), output_type="pt", **call)
    pipeline.scheduler.step = step
    outputs = {"latents": state.get("latents")[:, :, 0], "image": state.get("images")[0].permute(1, 2, 0)}
    return Call(name, "an image", {"seed": seed, "guidance_scale": guidance, **arguments}, inputs, outputs)


def kept_step(pipeline, image, mask, seed, step):
    """A step after which what is not painted is the image again, with the noise of the level."""
    vae = pipeline.vae
    latents = vae.encode(image.permute(2, 0, 1)[None, :, None].float() / 127.5 - 1).latent_dist.mode()
    mean, std = (torch.tensor(getattr(vae.config, key)).view(1, -1, 1, 1, 1) for key in ("latents_mean", "latents_std"))
    clean = (latents - mean) / std
    noise = normal(generator(seed), *clean.shape)
    painted = torch.nn.functional.interpolate(mask[None, None].float() / 255, clean.shape[-2:], mode="nearest")[:, :, None]

    def step_and_keep(prediction, t, x, return_dict):
        (x,) = step(prediction, t, x, return_dict=return_dict)
        level = pipeline.scheduler.sigmas[pipeline.scheduler.step_index]
        return ((1 - painted) * ((1 - level) * clean + level * noise) + painted * x,)

    return step_and_keep


def pipeline_calls(folder, seed):
    pipeline = AnimaAutoBlocks().init_pipeline()
    pipeline.update_components(**components(folder, seed))
    pipeline.set_progress_bar_config(disable=True)
    size = dict(height=40, width=56)
    rng = generator(seed + 9)
    mask = torch.zeros(40, 56, dtype=torch.uint8)
    mask[8:28, 20:48] = 255
    guided = dict(prompt=PROMPT, negative_prompt="worst quality, low quality", guidance=4.0, **size)
    calls = [
        image_call(pipeline, "text", 7, prompt=PROMPT, num_inference_steps=4, **size),
        image_call(pipeline, "guided", 8, num_inference_steps=3, **guided),
        image_call(pipeline, "empty", 9, prompt="a red cat", guidance=3.0, num_inference_steps=2, height=16, width=72),
        image_call(pipeline, "picture", 11, image=picture(rng, 40, 56), strength=0.6, num_inference_steps=5, **guided),
        image_call(pipeline, "masked", 13, image=picture(rng, 40, 56), mask=mask, strength=0.7, num_inference_steps=4,
                   prompt=PROMPT, **size),
    ]
    pipeline.load_lora_weights(folder / "adapter.safetensors", adapter_name="one")
    pipeline.set_adapters("one", 0.7)
    adapted = image_call(pipeline, "adapted", 12, prompt=PROMPT, num_inference_steps=2, height=24, width=40)
    adapted.args["strength"] = 0.7
    pipeline.unload_lora_weights()
    return [*calls, adapted]


def build_pipeline(folder, seed):
    components(folder, seed)
    save_adapter(folder, seed + 20)


GOLDENS = {
    "tiny": ("Anima, tiny", 91, lambda folder, seed: transformer(folder, seed, **TINY), tiny_calls),
    "pipeline": ("Anima, pipeline", 97, build_pipeline, pipeline_calls),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
