"""Makes the goldens of HunyuanVideo 1.5 under tests/goldens/hunyuan_video_15.

    python3 tools/reference/hunyuan_video_15.py                 # make all
    python3 tools/reference/hunyuan_video_15.py NAME ...        # make some
    python3 tools/reference/hunyuan_video_15.py --check [NAME]  # read the stored ones back and run them again

`pipeline` is a folder as it is published, but for the weights, which are drawn from the seeds in the seeded.json of each
component. `image` is a folder of the model that begins with an image, and `steps` has the transformer of the one that needs few
steps; what they lack is that of `pipeline` and of `image`.
"""

import json

import torch
from diffusers import (
    AutoencoderKLHunyuanVideo15,
    ClassifierFreeGuidance,
    FlowMatchEulerDiscreteScheduler,
    HunyuanVideo15ImageToVideoPipeline,
    HunyuanVideo15Pipeline,
    HunyuanVideo15Transformer3DModel,
)
from PIL import Image
from transformers import (
    ByT5Tokenizer,
    Qwen2_5_VLTextConfig,
    Qwen2_5_VLTextModel,
    SiglipVisionConfig,
    SiglipVisionModel,
    T5Config,
    T5EncoderModel,
)
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

import common
from adapter_pairs import save_adapter
from byte_pair import USER_TEMPLATE
from common import Call, generator, make_goldens, normal
from qwen_image import TEXT, picture, tokenizer
from seeded import seed_weights

FOLDER = common.GOLDENS.parent / "hunyuan_video_15"

# Widths that fill no vector of four but in the heads.
TINY = dict(in_channels=7, out_channels=3, num_attention_heads=3, attention_head_dim=12, num_layers=2, num_refiner_layers=2,
            text_embed_dim=18, text_embed_2_dim=10, image_embed_dim=14, rope_axes_dim=(4, 4, 4))
# Heads of 128, every width a multiple of 256.
SMALL = dict(in_channels=9, out_channels=4, num_attention_heads=2, attention_head_dim=128, num_layers=2, num_refiner_layers=1,
             text_embed_dim=256, text_embed_2_dim=24, image_embed_dim=144, target_size=96, task_type="t2v")
# Heads as they are published.
HEADS = dict(in_channels=65, out_channels=32, num_layers=1, num_refiner_layers=1, text_embed_dim=32, text_embed_2_dim=16,
             image_embed_dim=24)
VAE = dict(latent_channels=4, block_out_channels=(8, 16, 16, 32, 32), layers_per_block=1)
GLYPHS = dict(d_model=24, d_kv=8, d_ff=36, num_layers=2, num_heads=3, feed_forward_proj="gated-gelu", vocab_size=386)
# A side that patches do not fill, as in the published models.
VISION = dict(hidden_size=144, intermediate_size=200, num_hidden_layers=2, num_attention_heads=2, image_size=30, patch_size=8)
BYTE_TEXTS = ['Text "Open". ', "", " ", "déjà vu", "猫 🦊\n\t", "<color-0> red <en-font-3>x", "a </s> b", "<extra_id_3><extra_id_12>",
              "<pad>", "a<unk>b", "<color-1>", "\x00\x7f"]
PARTS = {
    "guider": ["diffusers", "ClassifierFreeGuidance"],
    "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
    "text_encoder": ["transformers", "Qwen2_5_VLTextModel"],
    "text_encoder_2": ["transformers", "T5EncoderModel"],
    "tokenizer": ["transformers", "Qwen2Tokenizer"],
    "tokenizer_2": ["transformers", "ByT5Tokenizer"],
    "transformer": ["diffusers", "HunyuanVideo15Transformer3DModel"],
    "vae": ["diffusers", "AutoencoderKLHunyuanVideo15"],
}
VISION_PARTS = {
    "feature_extractor": ["transformers", "SiglipImageProcessor"],
    "image_encoder": ["transformers", "SiglipVisionModel"],
}


def transformer(folder, seed, **config):
    model = HunyuanVideo15Transformer3DModel(**config)
    model.save_config(folder)
    return seed_weights(folder, model, seed)


def forward_call(model, name, seed, size, tokens, time, target=None, glyphs=0, image=0):
    """A video of `size`, frames, rows and columns; prompts are padded at their end, as the pipeline has them."""
    rng = generator(seed)
    config = model.config
    inputs = {"latents": normal(rng, 1, config.in_channels, *size), "text": normal(rng, 1, tokens, config.text_embed_dim)}
    padded = lambda states, rows: torch.cat([states, normal(rng, 1, rows - states.shape[1], states.shape[2])], dim=1)
    mask = lambda count, rows: (torch.arange(rows) < count).float()[None]
    glyph_states = normal(rng, 1, glyphs, config.text_embed_2_dim)
    image_states = normal(rng, 1, image, config.image_embed_dim) if image else torch.zeros(1, 5, config.image_embed_dim)
    inputs |= {"glyphs": glyph_states} if glyphs else {}
    inputs |= {"image": image_states} if image else {}
    output = model(inputs["latents"], torch.tensor([time]), padded(inputs["text"], tokens + 3), mask(tokens, tokens + 3),
                   timestep_r=None if target is None else torch.tensor([target]),
                   encoder_hidden_states_2=padded(glyph_states, 8), encoder_attention_mask_2=mask(glyphs, 8),
                   image_embeds=image_states, return_dict=False)[0]
    args = {"time": time, "target": target}
    return Call(name, "the transformer's output", args, inputs, {"output": output})


def tiny_calls(folder, seed):
    model = transformer(folder, seed, **TINY, use_meanflow=True)
    return [
        forward_call(model, "text", seed + 1, (2, 3, 5), 7, 1000.0),
        forward_call(model, "image", seed + 2, (3, 2, 4), 5, 437.5, 218.75, glyphs=4, image=6),
    ]


def heads_calls(folder, seed):
    model = transformer(folder, seed, **HEADS)
    return [forward_call(model, "image", seed + 1, (2, 3, 4), 6, 875.0, glyphs=3, image=5)]


def vae_calls(folder, seed):
    model = autoencoder(folder, seed)
    rng = generator(seed + 1)
    calls = []
    for name, frames in (("image", 1), ("video", 9)):
        video = normal(rng, 1, 3, frames, 32, 48)
        moments = model.encode(video).latent_dist.parameters
        latents = normal(rng, 1, 4, 1 + (frames - 1) // 4, 2, 3)
        calls.append(Call(name, "moments of a video, and pixels of latents", {"frames": frames},
                          {"video": video, "latents": latents},
                          {"moments": moments, "pixels": model.decode(latents).sample}))
    return calls


def autoencoder(folder, seed):
    vae = AutoencoderKLHunyuanVideo15(**VAE)
    vae.save_config(folder)
    gammas = {name: (1.0, 0.3) for name, _ in vae.named_parameters() if name.endswith("gamma")}
    return seed_weights(folder, vae, seed, overrides=gammas)


def write_index(folder, name, parts):
    index = {"_class_name": name, "_diffusers_version": "0.42.1", **dict(sorted(parts.items()))}
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")


def components(folder, seed):
    """The parts of the pipeline, their configurations and rules written."""
    for name in PARTS:
        (folder / name).mkdir(exist_ok=True, parents=True)
    # Two layers more than states are taken of.
    text = Qwen2_5_VLTextModel(Qwen2_5_VLTextConfig(**{**TEXT, "num_hidden_layers": 3}, attn_implementation="eager"))
    text.config.save_pretrained(folder / "text_encoder")
    glyphs = T5EncoderModel(T5Config(**GLYPHS))
    glyphs.config.save_pretrained(folder / "text_encoder_2")
    bytes_tokenizer = ByT5Tokenizer()
    bytes_tokenizer.add_tokens(["<color-0>", "<en-font-3>"], special_tokens=True)
    bytes_tokenizer.save_pretrained(folder / "tokenizer_2")
    ids = [[text, bytes_tokenizer(text, add_special_tokens=True).input_ids] for text in BYTE_TEXTS]
    (folder / "tokenizer_2" / "ids.json").write_text(json.dumps(ids, ensure_ascii=False) + "\n")
    scheduler = FlowMatchEulerDiscreteScheduler(shift=5.0)
    scheduler.save_config(folder / "scheduler")
    guider = ClassifierFreeGuidance(guidance_scale=6.0)
    guider.save_pretrained(folder / "guider")
    own = tokenizer(folder / "tokenizer")
    own.chat_template = USER_TEMPLATE
    write_index(folder, "HunyuanVideo15Pipeline", PARTS)
    small = {"shared.weight": (0.0, 1.0)}
    return {
        "text_encoder": seed_weights(folder / "text_encoder", text, seed),
        "text_encoder_2": seed_weights(folder / "text_encoder_2", glyphs, seed + 3, overrides=small),
        "transformer": transformer(folder / "transformer", seed + 1, **SMALL),
        "vae": autoencoder(folder / "vae", seed + 2),
        "scheduler": scheduler,
        "guider": guider,
        "tokenizer": own,
        "tokenizer_2": bytes_tokenizer,
    }


def image_parts(folder, seed):
    """An image encoder, and a transformer that sees by it."""
    for name in ["transformer", *VISION_PARTS]:
        (folder / name).mkdir(exist_ok=True, parents=True)
    vision = SiglipVisionModel(SiglipVisionConfig(**VISION, attn_implementation="eager"))
    vision.config.save_pretrained(folder / "image_encoder")
    side = VISION["image_size"]
    processor = SiglipImageProcessorPil(size={"height": side, "width": side})
    processor.save_pretrained(folder / "feature_extractor")
    write_index(folder, "HunyuanVideo15ImageToVideoPipeline", PARTS | VISION_PARTS)
    return {
        "image_encoder": seed_weights(folder / "image_encoder", vision, seed),
        "feature_extractor": processor,
        "transformer": transformer(folder / "transformer", seed + 1, **{**SMALL, "task_type": "i2v"}),
    }


def run(pipe, name, seed, prompt, frames=5, steps=2, guidance=6.0, negative="", image=None, **size):
    pipe.set_progress_bar_config(disable=True)
    pipe.guider = ClassifierFreeGuidance(guidance_scale=guidance)
    given = {} if image is None else {"image": Image.fromarray(image.numpy())}
    latents = []
    pipe.vae.decode, decode = lambda z, **options: (latents.append(z), decode(z, **options))[1], pipe.vae.decode
    output = pipe(prompt=prompt, negative_prompt=negative, num_frames=frames, num_inference_steps=steps,
                  generator=generator(seed), output_type="pt", **given, **size).frames
    pipe.vae.decode = decode
    height, width = output.shape[-2:]
    args = {"prompt": prompt, "negative_prompt": negative, "width": width, "height": height, "num_frames": frames,
            "num_inference_steps": steps, "guidance_scale": guidance, "seed": seed}
    inputs = {} if image is None else {"image": image}
    scaled = latents[0] * pipe.vae.config.scaling_factor
    return Call(name, "final latents and frames", args, inputs,
                {"latents": scaled, "frames": output[0].permute(0, 2, 3, 1)})


ADAPTED = ["transformer_blocks.0.attn.to_q", "transformer_blocks.0.attn.add_k_proj", "transformer_blocks.1.ff.net.0.proj",
           "transformer_blocks.1.ff_context.net.2", "context_embedder.token_refiner.refiner_blocks.0.attn.to_v",
           "transformer_blocks.0.norm1.linear"]


def pipeline_calls(folder, seed):
    parts = components(folder, seed)
    pipe = HunyuanVideo15Pipeline(**parts)
    size = dict(width=64, height=48)
    sign = 'a sign says "Open", and “déjà vu”, and "Open" again'
    calls = [
        run(pipe, "guided", seed + 4, sign, negative='the word "shut"', **size),
        run(pipe, "text", seed + 5, "a red fox runs through the snow", frames=9, guidance=1.0, **size),
        run(pipe, "negative", seed + 6, "", negative="blurry", **size),
        run(pipe, "cut", seed + 9, "the red fox jumps over it; " * 300, steps=1, guidance=1.0, **size),
    ]
    lora = save_adapter(folder, pipe.transformer, seed + 7, ADAPTED, std=0.5, rank=4)
    lora = {name: tensor.float() for name, tensor in lora.items()}
    pipe.transformer.load_lora_adapter(lora, prefix="transformer", adapter_name="golden")
    pipe.transformer.set_adapters("golden", 0.75)
    adapted = run(pipe, "adapted", seed + 8, 'the "sea"', guidance=1.0, **size)
    adapted.args["strength"] = 0.75
    return [*calls, adapted]


def image_calls(folder, seed):
    parts = components(FOLDER / "pipeline", PIPELINE_SEED) | image_parts(folder, seed)
    pipe = HunyuanVideo15ImageToVideoPipeline(**parts)
    return [
        run(pipe, "image", seed + 4, 'the fox says "hi"', negative="blurry", image=picture(generator(seed + 5), 60, 80)),
        run(pipe, "upright", seed + 6, "it turns around", frames=1, guidance=1.0, image=picture(generator(seed + 7), 90, 40)),
    ]


def step_calls(folder, seed):
    (folder / "transformer").mkdir(exist_ok=True, parents=True)
    others = image_parts(FOLDER / "image", IMAGE_SEED)
    model = transformer(folder / "transformer", seed, **{**SMALL, "task_type": "i2v", "use_meanflow": True})
    parts = components(FOLDER / "pipeline", PIPELINE_SEED) | others | {"transformer": model}
    pipe = HunyuanVideo15ImageToVideoPipeline(**parts)
    return [run(pipe, "steps", seed + 4, "it runs", steps=3, guidance=1.0, image=picture(generator(seed + 5), 60, 80))]


PIPELINE_SEED = 1520
IMAGE_SEED = 1540

GOLDENS = {
    "tiny": ("HunyuanVideo 1.5's transformer with odd widths", 1500, None, tiny_calls),
    "heads": ("HunyuanVideo 1.5's transformer with the heads of published models", 1505, None, heads_calls),
    "vae": ("HunyuanVideo 1.5's autoencoder", 1510, None, vae_calls),
    "pipeline": ("HunyuanVideo 1.5 from text", PIPELINE_SEED, None, pipeline_calls),
    "image": ("HunyuanVideo 1.5 from an image", IMAGE_SEED, None, image_calls),
    "steps": ("HunyuanVideo 1.5 distilled to few steps", 1560, None, step_calls),
}

if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
