"""Makes the goldens of Ideogram 4 under tests/goldens/ideogram4.

    python3 tools/reference/ideogram4.py                 # make all
    python3 tools/reference/ideogram4.py NAME ...        # make some
    python3 tools/reference/ideogram4.py --check [NAME]  # read the stored ones back and run them again

`pipeline` is a folder as it is published, but for the weights, which are drawn from the seeds in the seeded.json of each
component. diffusers has no pipeline of it for a start from an image and for masks: `picture` and `masked` begin and go on as its
pipelines of Z-Image do, with the most likely latents as FLUX.2's, whose autoencoder this is.
"""

import json

import torch
from diffusers import AutoencoderKLFlux2, FlowMatchEulerDiscreteScheduler, Ideogram4Pipeline, Ideogram4Transformer2DModel
from diffusers.pipelines.ideogram4.pipeline_ideogram4 import _logit_normal_sigmas, _resolution_aware_mu
from safetensors.torch import save_file
from transformers import Qwen3VLConfig, Qwen3VLModel

import common
from common import Call, generator, make_goldens, normal
from qwen3_vl import TEXT as WIDE_TEXT
from qwen3_vl import VISION
from qwen_image import picture, quiet, tokenizer
from seeded import seed_weights

FOLDER = common.GOLDENS.parent / "ideogram4"

# Widths that fill no vector of four but in the heads; fewer pairs turn with rows and columns than there are.
TINY = dict(in_channels=10, num_layers=2, attention_head_dim=12, num_attention_heads=3, intermediate_size=50, adaln_dim=18,
            llm_features_dim=26, mrope_section=(2, 1, 1))
# Heads of 256, every width a multiple of 256.
SMALL = dict(in_channels=32, num_layers=2, attention_head_dim=256, num_attention_heads=2, intermediate_size=512, adaln_dim=64,
             llm_features_dim=13 * 64)
# The last of 36 layers is seen, too.
TEXT = {**WIDE_TEXT, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 36}
VAE = dict(down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
           block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8, latent_channels=8)
SCHEDULER = dict(num_train_timesteps=1000, shift=1.0)


def transformer(folder, seed, **config):
    model = Ideogram4Transformer2DModel(**config)
    model.save_config(folder)
    return seed_weights(folder, model, seed, overrides={"embed_image_indicator.weight": (0.0, 0.5)})


def forward_call(model, name, seed, rows, columns, text_tokens, time):
    """Without text tokens it is a call of the transformer that sees none."""
    rng = generator(seed)
    config = model.config
    latents = normal(rng, 1, rows * columns, config.in_channels)
    states = normal(rng, 1, text_tokens, config.llm_features_dim)
    ids, segments, indicator = Ideogram4Pipeline._prepare_ids([text_tokens], rows, columns, text_tokens, "cpu")
    sample = torch.cat([torch.zeros(1, text_tokens, config.in_channels), latents], dim=1)
    features = torch.cat([states, torch.zeros(1, rows * columns, config.llm_features_dim)], dim=1)
    output = model(sample, torch.tensor([time]), features, ids, segments, indicator, return_dict=False)[0][:, text_tokens:]
    inputs = {"latents": latents, **({"states": states} if text_tokens else {})}
    return Call(name, "the transformer's output", {"time": time, "rows": rows, "columns": columns}, inputs,
                {"output": output.contiguous()})


def tiny_calls(folder, seed):
    model = transformer(folder, seed, **TINY)
    return [
        forward_call(model, "text", seed + 1, 5, 3, 7, 0.0),
        forward_call(model, "alone", seed + 2, 2, 6, 0, 0.5625),
    ]


class ChatTokenizer:
    """The tokenizer with Qwen3-VL's chat template for one message."""

    def __init__(self, own):
        self.own = own

    def __call__(self, text, **options):
        return self.own(text, **options)

    def apply_chat_template(self, messages, **_options):
        return f"<|im_start|>user\n{messages[0]['content'][0]['text']}<|im_end|>\n<|im_start|>assistant\n"


def components(folder, seed):
    """The parts of the pipeline, their configurations and rules written."""
    for name in ("transformer", "unconditional_transformer", "text_encoder", "vae", "scheduler", "tokenizer"):
        (folder / name).mkdir(exist_ok=True, parents=True)
    config = Qwen3VLConfig(text_config=TEXT, vision_config=VISION, image_token_id=908, video_token_id=909,
                           vision_start_token_id=903, vision_end_token_id=907, attn_implementation="eager")
    text_encoder = Qwen3VLModel(config)
    text_encoder.config.save_pretrained(folder / "text_encoder")
    vae = AutoencoderKLFlux2(**VAE)
    vae.save_config(folder / "vae")
    scheduler = FlowMatchEulerDiscreteScheduler(**SCHEDULER)
    scheduler.save_config(folder / "scheduler")
    index = {
        "_class_name": "Ideogram4Pipeline",
        "_diffusers_version": "0.42.1",
        "prompt_enhancer_head": [None, None],
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "Qwen3VLModel"],
        "tokenizer": ["transformers", "Qwen2Tokenizer"],
        "transformer": ["diffusers", "Ideogram4Transformer2DModel"],
        "unconditional_transformer": ["diffusers", "Ideogram4Transformer2DModel"],
        "vae": ["diffusers", "AutoencoderKLFlux2"],
    }
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    # Variances so small that what is added to them shows.
    statistics = [("bn.running_mean", 0.0, 0.3), ("bn.running_var", 0.02, 0.002)]
    return {
        "text_encoder": seed_weights(folder / "text_encoder", text_encoder, seed),
        "transformer": transformer(folder / "transformer", seed + 1, **SMALL),
        "unconditional_transformer": transformer(folder / "unconditional_transformer", seed + 3, **{**SMALL, "num_layers": 1}),
        "vae": seed_weights(folder / "vae", vae, seed + 2, buffers=statistics),
        "scheduler": scheduler,
        "tokenizer": ChatTokenizer(tokenizer(folder / "tokenizer")),
    }


# As its trainers name them, and how many rows of ours each has: queries, keys and values are one there.
ADAPTED = {
    "layers.0.attention.qkv": [f"layers.0.attention.to_{name}" for name in "qkv"],
    "layers.1.attention.o": ["layers.1.attention.to_out.0"],
    "layers.0.feed_forward.w1": ["layers.0.feed_forward.w1"],
    "layers.1.feed_forward.w2": ["layers.1.feed_forward.w2"],
    "layers.1.adaln_modulation": ["layers.1.adaln_modulation"],
}


def save_adapter(folder, seed):
    """An adapter of rank 2 under the original names."""
    model = Ideogram4Transformer2DModel(**SMALL)
    rng = generator(seed)
    tensors = {}
    for name, modules in ADAPTED.items():
        weights = [model.get_submodule(module).weight for module in modules]
        rows, columns = sum(weight.shape[0] for weight in weights), weights[0].shape[1]
        tensors[f"diffusion_model.{name}.lora_A.weight"] = normal(rng, 2, columns, std=columns**-0.5).half()
        tensors[f"diffusion_model.{name}.lora_B.weight"] = normal(rng, rows, 2, std=0.2).half()
    save_file(tensors, folder / "adapter.safetensors")


PROMPT = "a bright red cat sleeps under the ancient mountain, 一只红色的猫, cinematic light in the morning"


def schedule_of(scale, steps):
    """Strong guidance ends before the last sixteenth of the steps."""
    return [min(scale, 3.0) if i >= steps - steps // 16 else scale for i in range(steps)]


def image_call(pipeline, name, seed, on_step=None, inputs=None, args=None, guidance=None, **arguments):
    """Final latents, packed, and the image in [0, 1]."""
    seen = {}

    def keep(_pipeline, step, _timestep, state):
        seen["latents"] = on_step(step, state["latents"]) if on_step else state["latents"]
        return {"latents": seen["latents"]}

    rng = arguments.pop("rng", None) or generator(seed)
    scale, steps = arguments.pop("guidance_scale"), arguments["num_inference_steps"]
    image = pipeline(generator=rng, output_type="pt", callback_on_step_end=keep, guidance_scale=None, max_sequence_length=160,
                     guidance_schedule=guidance or schedule_of(scale, steps), **arguments).images
    stored = {key: value for key, value in arguments.items() if key != "latents"}
    rows = arguments["height"] // (pipeline.vae_scale_factor * 2)
    latents = seen["latents"].transpose(1, 2).unflatten(2, (rows, -1)).contiguous()
    outputs = {"latents": latents, "image": image[0].permute(1, 2, 0)}
    return Call(name, "an image", {"seed": seed, "guidance_scale": scale, **stored, **(args or {})}, inputs or {}, outputs)


def given_call(pipeline, name, seed, image, strength, steps, mask=None, **arguments):
    """From an input image, uint8 [height, width, 3]; white in the mask is painted."""
    height, width = arguments["height"], arguments["width"]
    vae, scheduler, side = pipeline.vae, pipeline.scheduler, pipeline.vae_scale_factor * 2
    rng = generator(seed)
    pixels = image.permute(2, 0, 1)[None].float() / 127.5 - 1
    latents = vae.encode(pixels).latent_dist.mode().unflatten(3, (-1, 2)).unflatten(2, (-1, 2))
    tokens = latents.permute(0, 2, 4, 3, 5, 1).flatten(3, 5).flatten(1, 2)
    clean = (tokens - vae.bn.running_mean) / torch.sqrt(vae.bn.running_var + vae.config.batch_norm_eps)
    noise = normal(rng, *clean.shape)
    begin = int(max(steps - min(steps * strength, steps), 0))
    levels = _logit_normal_sigmas(steps, _resolution_aware_mu(height, width, 0.0), 1.5)[begin:].tolist()
    usual = scheduler.set_timesteps
    usual(sigmas=levels)
    sigmas = scheduler.sigmas.clone()
    noisy = lambda level: (1 - level) * clean + level * noise
    inputs, on_step = {"given": image}, None
    if mask is not None:
        inputs["mask"] = mask
        rows = torch.nn.functional.interpolate(mask[None, None].float() / 255, (height // side, width // side), mode="nearest")
        painted = rows.flatten(2).transpose(1, 2)
        on_step = lambda i, x: (1 - painted) * noisy(sigmas[i + 1]) + painted * x
    scheduler.set_timesteps = lambda sigmas, device: usual(sigmas=levels, device=device)
    args = {"strength": strength, "num_inference_steps": steps}
    call = image_call(pipeline, name, seed, on_step, inputs, args, rng=rng, latents=noisy(sigmas[0]),
                      num_inference_steps=len(levels), **arguments)
    scheduler.set_timesteps = usual
    return call


def pipeline_calls(folder, seed):
    pipeline = quiet(Ideogram4Pipeline(**components(folder, seed)))
    size, small = dict(height=40, width=56), dict(height=24, width=40)
    rng = generator(seed + 9)
    mask = torch.zeros(40, 56, dtype=torch.uint8)
    mask[8:28, 20:48] = 255
    calls = [
        image_call(pipeline, "text", 7, prompt=PROMPT, guidance_scale=1.0, num_inference_steps=3, **size),
        image_call(pipeline, "guided", 8, prompt="a red cat", guidance_scale=7.0, num_inference_steps=3, **size),
        image_call(pipeline, "polished", 9, prompt="a Red CAT", guidance_scale=5.0, num_inference_steps=16, height=16, width=24),
        given_call(pipeline, "picture", 11, picture(rng, 40, 56), 0.6, 5, prompt="a red cat", guidance_scale=4.0, **size),
        given_call(pipeline, "masked", 13, picture(rng, 40, 56), 0.7, 4, mask, prompt=PROMPT, guidance_scale=1.0, **size),
    ]
    pipeline.load_lora_weights(folder / "adapter.safetensors", adapter_name="one")
    pipeline.set_adapters("one", 0.7)
    adapted = image_call(pipeline, "adapted", 12, prompt=PROMPT, guidance_scale=2.0, num_inference_steps=2,
                         args={"strength": 0.7}, **small)
    pipeline.unload_lora_weights()
    return [*calls, adapted]


def build_pipeline(folder, seed):
    components(folder, seed)
    save_adapter(folder, seed + 20)


GOLDENS = {
    "tiny": ("Ideogram 4, tiny", 301, lambda folder, seed: transformer(folder, seed, **TINY), tiny_calls),
    "pipeline": ("Ideogram 4, pipeline", 307, build_pipeline, pipeline_calls),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
