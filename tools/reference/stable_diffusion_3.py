"""Makes the goldens of Stable Diffusion 3 under tests/goldens/stable_diffusion_3.

    python3 tools/reference/stable_diffusion_3.py                 # make all
    python3 tools/reference/stable_diffusion_3.py NAME ...        # make some
    python3 tools/reference/stable_diffusion_3.py --check [NAME]  # read the stored ones back and run them again

Weights are drawn from the seeds in the seeded.json of each component. `pipeline` has the form of SD 3.5 Medium; `sd3` and
`large` are transformers of the other two forms.
"""

import json

import torch
from diffusers import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    SD3Transformer2DModel,
    StableDiffusion3Img2ImgPipeline,
    StableDiffusion3InpaintPipeline,
    StableDiffusion3Pipeline,
)
from transformers import (
    CLIPTextConfig,
    CLIPTextModelWithProjection,
    CLIPTokenizer,
    PreTrainedTokenizerFast,
    T5Config,
    T5EncoderModel,
)

import clip_tokenizer
import common
import tokenizer
from adapter_pairs import save_adapter_pair
from common import Call, generator, make_goldens, multiply, normal
from kl import picture
from seeded import seed_weights, with_weights

FOLDER = common.GOLDENS.parent / "stable_diffusion_3"

TEXT_DIM, POOLED = 96, 52
# Heads of 64, as published models have; a table that is larger than any image here, so that it is cropped.
COMMON = dict(sample_size=16, patch_size=2, in_channels=16, num_layers=3, attention_head_dim=64, num_attention_heads=2,
              joint_attention_dim=TEXT_DIM, caption_projection_dim=128, pooled_projection_dim=POOLED, out_channels=16,
              pos_embed_max_size=25)
SD3 = COMMON
MEDIUM = dict(COMMON, dual_attention_layers=(0, 1), qk_norm="rms_norm")
LARGE = dict(COMMON, qk_norm="rms_norm", num_attention_heads=3, caption_projection_dim=192)
VOCABULARY = 512
T5 = dict(vocab_size=VOCABULARY, d_model=TEXT_DIM, d_kv=16, num_heads=4, d_ff=96, num_layers=2, feed_forward_proj="gated-gelu")
CLIP = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=2, projection_dim=24,
            max_position_embeddings=77, hidden_act="quick_gelu", eos_token_id=2)
CLIP_G = dict(CLIP, hidden_size=40, projection_dim=28, hidden_act="gelu")
VAE = dict(down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
           block_out_channels=(32, 64), layers_per_block=1, latent_channels=16, norm_num_groups=32, sample_size=32,
           use_quant_conv=False, use_post_quant_conv=False, scaling_factor=1.5305, shift_factor=0.0609)


def transformer(folder, options, seed):
    return seeded(folder, SD3Transformer2DModel(**options), seed)


def seeded(folder, model, seed):
    folder.mkdir(parents=True, exist_ok=True)
    model.save_config(folder)
    # Gates and shifts of the size that trained models have.
    modulation = {
        name: (0.0, 0.3 * parameter.shape[-1] ** -0.5)
        for name, parameter in model.named_parameters()
        if "norm1" in name and parameter.ndim == 2
    }
    tables = [("pos_embed.pos_embed", 0.0, 0.7)] if model.pos_embed is not None else []
    return seed_weights(folder, model, seed, buffers=tables, overrides=modulation)


def forward_call(model, name, seed, size, tokens, timestep, skip_layers=None):
    rng = generator(seed)
    config = model.config
    inputs = {
        "latents": normal(rng, 1, config.in_channels, *size),
        "text": normal(rng, 1, tokens, config.joint_attention_dim),
        "pooled": normal(rng, 1, config.pooled_projection_dim),
    }
    output = model(inputs["latents"], inputs["text"], inputs["pooled"], torch.tensor([timestep]), skip_layers=skip_layers)
    args = {"timestep": timestep, "skip_layers": skip_layers or []}
    return Call(name, "the velocity", args, inputs, {"velocity": output.sample})


def build_of(options):
    return lambda folder, seed: transformer(folder, options, seed)


def forward_calls(options):
    def run(folder, seed):
        model = transformer(folder, options, seed)
        return [
            forward_call(model, "wide", seed + 1, (8, 22), 11, 875.0),
            forward_call(model, "upright", seed + 2, (14, 6), 7, 31.25, [1]),
        ]

    return run


def clip_tokenizer_of(folder, pad):
    clip_tokenizer.build(folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"pad_token": pad}, indent=1) + "\n")
    return len(json.loads((folder / "vocab.json").read_text()))


def build_pipeline(folder, seed):
    words = [clip_tokenizer_of(folder / "tokenizer", clip_tokenizer.EOS), clip_tokenizer_of(folder / "tokenizer_2", "!")]
    tokenizer.build(folder / "tokenizer_3", VOCABULARY)
    parts = {
        "text_encoder": CLIPTextModelWithProjection(CLIPTextConfig(vocab_size=words[0], **CLIP)),
        "text_encoder_2": CLIPTextModelWithProjection(CLIPTextConfig(vocab_size=words[1], **CLIP_G)),
        "text_encoder_3": T5EncoderModel(T5Config(**T5)),
        "vae": AutoencoderKL(**VAE),
    }
    for i, (name, part) in enumerate(parts.items()):
        (folder / name).mkdir(parents=True, exist_ok=True)
        part.config.save_pretrained(folder / name) if "text" in name else part.save_config(folder / name)
        seed_weights(folder / name, part, seed + i, torch.float16)
    transformer(folder / "transformer", MEDIUM, seed + 4)
    FlowMatchEulerDiscreteScheduler(shift=3.0).save_config(folder / "scheduler")
    index = {
        "_class_name": "StableDiffusion3Pipeline",
        "_diffusers_version": "0.32.0",
        "feature_extractor": [None, None],
        "image_encoder": [None, None],
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "CLIPTextModelWithProjection"],
        "text_encoder_2": ["transformers", "CLIPTextModelWithProjection"],
        "text_encoder_3": ["transformers", "T5EncoderModel"],
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "tokenizer_2": ["transformers", "CLIPTokenizer"],
        "tokenizer_3": ["transformers", "T5TokenizerFast"],
        "transformer": ["diffusers", "SD3Transformer2DModel"],
        "vae": ["diffusers", "AutoencoderKL"],
    }
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    save_adapter_pair(folder, SD3Transformer2DModel(**MEDIUM), seed + 20, ADAPTED, "", torch.half)


# Modules under the names of Stability AI, and what they are in diffusers.
ADAPTED = {
    "joint_blocks.0.x_block.attn.qkv": [f"transformer_blocks.0.attn.to_{n}" for n in "qkv"],
    "joint_blocks.1.context_block.attn.qkv": [f"transformer_blocks.1.attn.add_{n}_proj" for n in "qkv"],
    "joint_blocks.1.x_block.attn2.proj": ["transformer_blocks.1.attn2.to_out.0"],
    "joint_blocks.0.context_block.mlp.fc2": ["transformer_blocks.0.ff_context.net.2"],
    "joint_blocks.2.x_block.adaLN_modulation.1": ["transformer_blocks.2.norm1.linear"],
    "context_embedder": ["context_embedder"],
    "y_embedder.mlp.0": ["time_text_embed.text_embedder.linear_1"],
}


def load(folder):
    own = with_weights(folder)
    clip = dict(dtype=torch.float32, attn_implementation="eager")
    pipeline = StableDiffusion3Pipeline(
        scheduler=FlowMatchEulerDiscreteScheduler.from_pretrained(own / "scheduler"),
        text_encoder=CLIPTextModelWithProjection.from_pretrained(own / "text_encoder", **clip),
        text_encoder_2=CLIPTextModelWithProjection.from_pretrained(own / "text_encoder_2", **clip),
        text_encoder_3=T5EncoderModel.from_pretrained(own / "text_encoder_3", dtype=torch.float32),
        tokenizer=CLIPTokenizer.from_pretrained(own / "tokenizer"),
        tokenizer_2=CLIPTokenizer.from_pretrained(own / "tokenizer_2"),
        tokenizer_3=PreTrainedTokenizerFast.from_pretrained(own / "tokenizer_3"),
        transformer=SD3Transformer2DModel.from_pretrained(own / "transformer", torch_dtype=torch.float32),
        vae=AutoencoderKL.from_pretrained(own / "vae", torch_dtype=torch.float32),
    )
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def photo(seed, height, width):
    """A picture as a file would hold it."""
    pixels = picture(generator(seed), height, width)[0].permute(1, 2, 0)
    return ((pixels * 0.5 + 0.5) * 255).round().to(torch.uint8)


def run(pipeline, name, prompt, width, height, seed, steps, image=None, mask=None, **arguments):
    """Final latents and the picture in [0, 1]; the pipeline for masks forgets the autoencoder's shift, which is added here."""
    given = {} if image is None else {"image": image.permute(2, 0, 1).unsqueeze(0).float() / 255}
    if mask is not None:
        given["mask_image"] = mask.reshape(1, 1, *mask.shape).float() / 255
    latents = pipeline(
        prompt=prompt, width=width, height=height, num_inference_steps=steps, generator=generator(seed),
        output_type="latent", **given, **arguments,
    ).images  # fmt: skip
    vae = pipeline.vae
    pixels = vae.decode(latents / vae.config.scaling_factor + vae.config.shift_factor).sample[0]
    args = {"prompt": prompt, "width": width, "height": height, "num_inference_steps": steps, "seed": seed, **arguments}
    inputs = ({} if image is None else {"given": image}) | ({} if mask is None else {"mask": mask})
    frame = (pixels / 2 + 0.5).clamp(0, 1).permute(1, 2, 0)
    return Call(name, "a picture", args, inputs, {"latents": latents, "image": frame})


PROMPT = "A bright red cat sleeps under the ancient mountain, 猫 don't, cinematic light in the Morning"


def pipeline_calls(folder, _seed):
    text = load(folder)
    image = StableDiffusion3Img2ImgPipeline(**text.components)
    inpaint = StableDiffusion3InpaintPipeline(**text.components)
    for pipeline in (image, inpaint):
        pipeline.set_progress_bar_config(disable=True)
    # Along the edges of latents, which the reference rounds it to.
    mask = torch.zeros(24, 32, dtype=torch.uint8)
    mask[6:16, 4:20] = 255
    short = dict(max_sequence_length=32)
    negative = "blurry, low quality"
    calls = [
        run(text, "text", PROMPT, 40, 24, 3, 3, guidance_scale=4.5, negative_prompt=negative, max_sequence_length=64),
        run(text, "long", PROMPT * 5, 28, 44, 4, 2, guidance_scale=7.0, max_sequence_length=256),
        run(text, "turbo", "a red cat", 24, 32, 5, 4, guidance_scale=1.0, **short),
        run(text, "skipped", "a red cat", 24, 24, 6, 5, guidance_scale=4.5, skip_guidance_layers=[1],
            skip_layer_guidance_scale=2.8, skip_layer_guidance_start=0.01, skip_layer_guidance_stop=0.5, **short),
        run(text, "clip_skip", "a red cat", 24, 24, 7, 2, guidance_scale=1.0, clip_skip=1, **short),
        run(image, "picture", "a small house at night", 24, 32, 8, 4, photo(50, 32, 24), strength=0.6, guidance_scale=4.5,
            negative_prompt=negative, **short),
        run(inpaint, "masked", "a small house at night", 32, 24, 9, 3, photo(52, 24, 32), mask, strength=0.7,
            guidance_scale=4.5, **short),
    ]  # fmt: skip
    t5, text.text_encoder_3 = text.text_encoder_3, None
    calls.append(run(text, "without_t5", PROMPT, 24, 24, 10, 2, guidance_scale=4.5, negative_prompt=negative, **short))
    text.text_encoder_3 = t5
    text.load_lora_weights(folder / "adapter-diffusers.safetensors", adapter_name="one")
    text.set_adapters("one", 0.7)
    adapted = run(text, "adapted", "a red cat", 24, 24, 11, 2, guidance_scale=4.5, **short)
    adapted.args["strength"] = 0.7
    return [*calls, adapted]


GOLDENS = {
    "sd3": ("the transformer of SD 3 Medium's form", 1700, build_of(SD3), forward_calls(SD3)),
    "large": ("the transformer of SD 3.5 Large's form", 1710, build_of(LARGE), forward_calls(LARGE)),
    "medium": ("the transformer of SD 3.5 Medium's form", 1720, build_of(MEDIUM), forward_calls(MEDIUM)),
    "pipeline": ("SD 3.5 Medium", 1730, build_pipeline, pipeline_calls),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
