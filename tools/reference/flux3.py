"""Makes the goldens of FLUX.3 Image klein under tests/goldens/flux3.

    python3 tools/reference/flux3.py                 # make all
    python3 tools/reference/flux3.py NAME ...        # make some
    python3 tools/reference/flux3.py --check [NAME]  # read the stored ones back and run them again

`pipeline` is a folder as it is published, but for the weights, which are drawn from the seeds in the seeded.json of each
component; `distilled` has the transformer of the model that needs few steps. The model is run by diffusers' modular blocks,
without the step that rewrites the prompt. They have none for masks: `masked` begins and goes on as the pipeline of FLUX.2 does.
"""

import json

import torch
from diffusers import (
    AutoencoderKLFlux2,
    ClassifierFreeGuidance,
    Flux3AutoBlocks,
    Flux3DistilledAutoBlocks,
    Flux3Transformer2DModel,
    FlowMatchEulerDiscreteScheduler,
)
from diffusers.modular_pipelines.flux3.image_processor import Flux3ImageProcessor
from PIL import Image
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

import common
from adapter_pairs import save_adapter
from common import Call, generator, make_goldens, normal
from qwen3_vl import TEXT, VISION
from qwen_image import picture, tokenizer
from seeded import seed_weights

FOLDER = common.GOLDENS.parent / "flux3"

# Widths that fill no vector of four but in the heads.
TINY = dict(in_channels=10, cond_in_channels=10, num_layers=1, num_single_layers=2, attention_head_dim=12, num_attention_heads=3,
            joint_attention_dim=18, timestep_channels=32, axes_dims_rope=(4, 4, 2, 2))
# Heads of 128, every width a multiple of 256.
SMALL = dict(in_channels=32, cond_in_channels=32, num_layers=2, num_single_layers=2, attention_head_dim=128,
             num_attention_heads=2, joint_attention_dim=512)
VAE = dict(down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
           block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8, latent_channels=8)
SCHEDULER = dict(num_train_timesteps=1000, shift=6.93)
# Every fourth, as in the published models.
LAYERS = (4, 8)


def transformer(folder, seed, **config):
    model = Flux3Transformer2DModel(**config)
    model.save_config(folder)
    return seed_weights(folder, model, seed)


def positions(rows, columns, reference=0):
    """(time, row, column, place in the text) of an image: of the result, or of a reference from 1 on."""
    grid = [[0, y / 2, x / 2, -reference] for y in range(rows) for x in range(columns)]
    return torch.tensor(grid, dtype=torch.float32)


def forward_call(model, name, seed, grid, text_tokens, time, target=None, references=()):
    rng = generator(seed)
    config = model.config
    tokens = lambda sizes, channels: normal(rng, 1, sum(rows * columns for rows, columns in sizes), channels)
    inputs = {"latents": tokens([grid], config.in_channels), "states": normal(rng, 1, text_tokens, config.joint_attention_dim)}
    given = {}
    if references:
        inputs["references"] = tokens(references, config.cond_in_channels)
        ids = torch.cat([positions(*size, i + 1) for i, size in enumerate(references)])
        given = dict(image_cond_hidden_states=inputs["references"], image_cond_ids=ids)
    text = torch.tensor([[0, 0, 0, place] for place in range(text_tokens)], dtype=torch.float32)
    output = model(inputs["latents"], inputs["states"], torch.tensor([time]), positions(*grid), text, **given,
                   target_timestep=None if target is None else torch.tensor([target]), return_dict=False)[0]
    args = {"grid": list(grid), "reference_grids": [list(size) for size in references], "time": time, "target": target}
    return Call(name, "the transformer's output", args, inputs, {"output": output})


def tiny_calls(folder, seed):
    """The distilled model has all layers that there are."""
    model = transformer(folder, seed, **TINY, flow_map=True)
    return [
        forward_call(model, "odd", seed + 1, (5, 3), 7, 1.0, 0.875),
        forward_call(model, "references", seed + 2, (2, 6), 5, 0.4375, 0.0, [(3, 3), (1, 5)]),
    ]


def write_index(folder, kind):
    """As `save_pretrained` of modular pipelines writes it."""
    source = lambda name: {"pretrained_model_name_or_path": "black-forest-labs/flux-3-image-klein", "revision": None,
                           "subfolder": name, "type_hint": CLASSES[name], "variant": None}
    index = {
        "_blocks_class_name": f"Flux3{kind}AutoBlocks",
        "_class_name": f"Flux3{kind}ModularPipeline",
        "_diffusers_version": "0.42.1",
        **{name: [*classes, source(name)] for name, classes in CLASSES.items()},
    }
    (folder / "modular_model_index.json").write_text(json.dumps(index, indent=2) + "\n")


CLASSES = {
    "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
    "text_encoder": ["transformers", "Qwen3VLForConditionalGeneration"],
    "tokenizer": ["transformers", "Qwen3VLProcessor"],
    "transformer": ["diffusers", "Flux3Transformer2DModel"],
    "vae": ["diffusers", "AutoencoderKLFlux2"],
}


class Processor:
    """What the blocks take of Qwen3-VL's, with its chat template for one message."""

    def __init__(self, own):
        self.tokenizer = own

    def apply_chat_template(self, messages, **_options):
        return f"<|im_start|>user\n{messages[0]['content']}<|im_end|>\n<|im_start|>assistant\n"


def components(folder, seed):
    """The parts of the pipeline, their configurations and rules written."""
    for name in CLASSES:
        (folder / name).mkdir(exist_ok=True, parents=True)
    config = Qwen3VLConfig(text_config=TEXT, vision_config=VISION, image_token_id=908, video_token_id=909,
                           vision_start_token_id=903, vision_end_token_id=907, tie_word_embeddings=True,
                           attn_implementation="eager")
    text_encoder = Qwen3VLForConditionalGeneration(config)
    text_encoder.config.save_pretrained(folder / "text_encoder")
    vae = AutoencoderKLFlux2(**VAE)
    vae.save_config(folder / "vae")
    scheduler = FlowMatchEulerDiscreteScheduler(**SCHEDULER)
    scheduler.save_config(folder / "scheduler")
    write_index(folder, "")
    # Variances so small that what is added to them shows.
    statistics = [("bn.running_mean", 0.0, 0.3), ("bn.running_var", 0.02, 0.002)]
    return {
        "text_encoder": seed_weights(folder / "text_encoder", text_encoder, seed),
        "transformer": transformer(folder / "transformer", seed + 1, **SMALL),
        "vae": seed_weights(folder / "vae", vae, seed + 2, buffers=statistics),
        "scheduler": scheduler,
        "tokenizer": Processor(tokenizer(folder / "tokenizer")),
    }


def pipeline(blocks, parts):
    """Without the step that rewrites the prompt."""
    blocks = blocks()
    blocks.sub_blocks.pop("prompt_upsampler")
    result = blocks.init_pipeline()
    side = 2 ** len(parts["vae"].config.block_out_channels)
    result.update_components(**parts, image_processor=Flux3ImageProcessor(vae_scale_factor=side))
    result.set_progress_bar_config(disable=True)
    return result


# As its trainers name them; every kind of module that they adapt.
ADAPTED = {
    "single_blocks.0.q_proj": "single_transformer_blocks.0.attn.to_q",
    "single_blocks.1.v_proj": "single_transformer_blocks.1.attn.to_v",
    "single_blocks.0.attn_out": "single_transformer_blocks.0.attn.to_out.0",
    "single_blocks.1.mlp_in": "single_transformer_blocks.1.ff.linear_in",
    "single_blocks.0.mlp_out": "single_transformer_blocks.0.ff.linear_out",
    "content_mode_blocks.image.0.k_proj": "mode_blocks.image.0.attn.to_k",
    "content_mode_blocks.image_cond.1.mlp_in": "mode_blocks.image_cond.1.ff.linear_in",
    "txt_mode_blocks.0.mlp_out": "txt_mode_blocks.0.ff.linear_out",
}

PROMPT = "a bright red cat sleeps under the ancient mountain, 一只红色的猫, cinematic light in the morning"


def image_call(pipe, name, seed, inputs=None, args=None, guidance_scale=1.0, images=(), **arguments):
    """Final latents, packed, and the image in [0, 1]; `images` are uint8 [height, width, 3]."""
    if "guider" in pipe.components:
        pipe.update_components(guider=ClassifierFreeGuidance(guidance_scale=guidance_scale))
    given = {"image": [Image.fromarray(image.numpy()) for image in images]} if images else {}
    rng = arguments.pop("rng", None) or generator(seed)
    state = pipe(**arguments, **given, text_encoder_out_layers=LAYERS, generator=rng, output_type="pt")
    image = state.get("images")[0].permute(1, 2, 0)
    sizes = {"height": image.shape[0], "width": image.shape[1]}
    stored = {key: value for key, value in arguments.items() if key not in ("latents", "sigmas")}
    inputs = {**(inputs or {}), **{f"image{i}": image for i, image in enumerate(images)}}
    args = {"seed": seed, "guidance_scale": guidance_scale, **sizes, **stored, **(args or {})}
    return Call(name, "an image", args, inputs, {"latents": state.get("latents"), "image": image})


def masked_call(pipe, name, seed, images, mask, strength, steps, **arguments):
    """White in the mask is painted; all images are seen, also the one that is painted."""
    height, width = mask.shape
    vae, scheduler, side = pipe.vae, pipe.scheduler, pipe.vae_scale_factor * 2
    rng = generator(seed)
    pixels = images[0].permute(2, 0, 1)[None].float() / 127.5 - 1
    latents = vae.encode(pixels).latent_dist.mode()
    packed = latents.unflatten(3, (-1, 2)).unflatten(2, (-1, 2)).permute(0, 1, 3, 5, 2, 4).flatten(1, 3)
    mean, var = (getattr(vae.bn, key).view(1, -1, 1, 1) for key in ("running_mean", "running_var"))
    clean = (packed - mean) / torch.sqrt(var + vae.config.batch_norm_eps)
    noise = normal(rng, *clean.shape)
    begin = int(max(steps - min(steps * strength, steps), 0))
    sigmas = torch.linspace(1, 1 / steps, steps, dtype=torch.float64)[begin:].tolist()
    scheduler.set_timesteps(sigmas=sigmas)
    levels = scheduler.sigmas.clone()
    noisy = lambda level: (1 - level) * clean + level * noise
    painted = torch.nn.functional.interpolate(mask[None, None].float() / 255, (height // side, width // side), mode="nearest")
    tokens = lambda x: x.flatten(2).transpose(1, 2)
    usual = scheduler.step

    def step(*args, **options):
        result = usual(*args, **options)[0]
        return (tokens((1 - painted) * noisy(levels[scheduler.step_index])) + tokens(painted) * result,)

    scheduler.step = step
    call = image_call(pipe, name, seed, {"mask": mask}, {"strength": strength, "num_inference_steps": steps}, images=images,
                      rng=rng, latents=noisy(levels[0]), sigmas=sigmas, height=height, width=width, **arguments)
    scheduler.step = usual
    return call


def pipeline_calls(folder, seed):
    pipe = pipeline(Flux3AutoBlocks, components(folder, seed))
    size = dict(height=40, width=56)
    rng = generator(seed + 9)
    mask = torch.zeros(80, 96, dtype=torch.uint8)
    mask[16:56, 40:88] = 255
    guided = dict(prompt="a red cat", negative_prompt=PROMPT * 2, guidance_scale=3.5)
    calls = [
        image_call(pipe, "text", 7, prompt=PROMPT, num_inference_steps=4, **size),
        image_call(pipe, "guided", 8, num_inference_steps=3, **guided, **size),
        image_call(pipe, "empty", 9, prompt="a Red CAT", guidance_scale=2.0, num_inference_steps=2, height=24, width=40),
        image_call(pipe, "cut", 10, prompt=PROMPT * 2, num_inference_steps=2, height=16, width=32, max_sequence_length=90),
        image_call(pipe, "edit", 11, prompt="paint it red", num_inference_steps=3, images=[picture(rng, 80, 64)]),
        image_call(pipe, "several", 12, num_inference_steps=2, images=[picture(rng, 64, 83), picture(rng, 101, 66)], **guided,
                   height=48, width=40),
        masked_call(pipe, "masked", 13, [picture(rng, 80, 96), picture(rng, 64, 72)], mask, 0.7, 4, prompt=PROMPT),
        # Kept whole: its edges are mirrored, and the result is cut to its size.
        image_call(pipe, "whole", 15, prompt="paint it red", num_inference_steps=2, images=[picture(generator(seed + 10), 50, 70)]),
    ]
    pipe.load_lora_weights(folder / "adapter.safetensors", adapter_name="one")
    pipe.transformer.set_adapters("one", 0.7)
    adapted = image_call(pipe, "adapted", 14, prompt=PROMPT, num_inference_steps=2, height=24, width=40,
                         images=[picture(rng, 64, 64)], args={"strength": 0.7})
    pipe.unload_lora_weights()
    return [*calls, adapted]


def build_pipeline(folder, seed):
    components(folder, seed)
    save_adapter(folder, Flux3Transformer2DModel(**SMALL), seed + 20, ADAPTED)


def distilled(folder, seed):
    (folder / "transformer").mkdir(exist_ok=True, parents=True)
    write_index(folder, "Distilled")
    return transformer(folder / "transformer", seed, **SMALL, flow_map=True)


def distilled_calls(folder, seed):
    base = FOLDER / "pipeline"
    parts = {**components(base, GOLDENS["pipeline"][1]), "transformer": distilled(folder, seed)}
    pipe = pipeline(Flux3DistilledAutoBlocks, parts)
    rng = generator(seed + 9)
    return [
        image_call(pipe, "text", 7, prompt=PROMPT, num_inference_steps=4, height=40, width=56),
        image_call(pipe, "edit", 8, prompt="a red cat", num_inference_steps=3, images=[picture(rng, 64, 64)]),
    ]


GOLDENS = {
    "tiny": ("FLUX.3, tiny", 201, lambda folder, seed: transformer(folder, seed, **TINY, flow_map=True), tiny_calls),
    "pipeline": ("FLUX.3, pipeline", 207, build_pipeline, pipeline_calls),
    "distilled": ("FLUX.3, distilled to few steps", 211, distilled, distilled_calls),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
