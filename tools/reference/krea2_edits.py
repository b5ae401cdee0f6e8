"""Edits by Krea 2 with reference images, for which diffusers has no pipeline: its transformer with more tokens.

Two ways are published with LoRAs. `index` is lbouaraba's krea2edit, as Wan2GP runs it: references lie in the middle of the
result, and have its timestep. `index_timestep_zero` is AI-Toolkit's: references lie at the first row and column, have the
timestep 0, and are counted in the prompt. Pixels of a copy come from the picture in one step, whatever sizes lie between.
"""

import contextlib
import math

import torch
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

from given_images import image_call
from qwen3_vl import picture_processor

IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


def shown(image, method):
    """The copy for the text encoder."""
    width, height = image.size
    share = 768 / max(width, height) if method == "index" else math.sqrt(384 * 384 / (width * height))
    width, height = (round(side * min(1, share)) for side in (width, height))
    rows, columns = smart_resize(height, width, factor=32, min_pixels=65536, max_pixels=16777216)
    return image.resize((columns, rows), Image.Resampling.BICUBIC)


def text_states(pipeline, prompt, images, method):
    """States of the text encoder, which sees the images before the prompt."""
    tokenizer, encoder = pipeline.tokenizer, pipeline.text_encoder
    seen = picture_processor()(images=[shown(image, method) for image in images], return_tensors="pt")
    counts = (seen["image_grid_thw"].prod(dim=1) // 4).tolist()
    label = lambda i: f"Picture {i + 1}: " if method == "index_timestep_zero" else ""
    views = "".join(label(i) + IMAGE.replace("<|image_pad|>", "<|image_pad|>" * count) for i, count in enumerate(counts))
    text = pipeline.prompt_template_encode_prefix + views + prompt + pipeline.prompt_template_encode_suffix
    ids = tokenizer([text], return_tensors="pt").input_ids
    types = (ids == tokenizer.convert_tokens_to_ids("<|image_pad|>")).int()
    states = encoder(input_ids=ids, attention_mask=torch.ones_like(ids), mm_token_type_ids=types, output_hidden_states=True,
                     **seen).hidden_states
    taken = torch.stack([states[i] for i in pipeline.text_encoder_select_layers], dim=2)
    return taken[:, pipeline.prompt_template_encode_start_idx:]


def covering(image, width, height):
    """What is too much at the longer side is cut off."""
    scale = min(image.width / width, image.height / height)
    kept = [min(image.width, round(width * scale)), min(image.height, round(height * scale))]
    left, top = (image.width - kept[0]) // 2, (image.height - kept[1]) // 2
    cut = image.crop((left, top, left + kept[0], top + kept[1]))
    return cut.resize((width, height), Image.Resampling.LANCZOS)


def centred(image, width, height, multiple):
    """The size of a copy in the middle of the result, and its place there."""
    scale = min(height / image.height, width / image.width)
    if image.height * scale >= height * 0.92 and image.width * scale >= width * 0.92:
        return width, height, 0, 0
    sides = [max(multiple, int(side * scale) // multiple * multiple) for side in image.size]
    places = [(most - side) // multiple // 2 for most, side in zip((width, height), sides)]
    return *sides, places[1], places[0]


def within(image, multiple):
    """The size of a copy of a megapixel at most."""
    share = min(1, math.sqrt(1024 * 1024 / (image.width * image.height)))
    return *(max(multiple, round(side * share / multiple) * multiple) for side in image.size), 0, 0


def reference_tokens(pipeline, images, method, width, height):
    multiple = 2 * pipeline.vae_scale_factor
    tokens, places = [], []
    for i, image in enumerate(images):
        across, down, top, left = centred(image, width, height, multiple) if method == "index" else within(image, multiple)
        pixels = torch.tensor(list(covering(image, across, down).getdata())).view(1, down, across, 3)
        vae, encode = pipeline.vae, pipeline.vae.encode
        latents = encode_mode(vae, encode, pixels.permute(0, 3, 1, 2).float() / 127.5 - 1)
        tokens.append(pipeline._pack_latents(latents, *latents.shape))
        grid = torch.cartesian_prod(torch.arange(down // multiple) + top, torch.arange(across // multiple) + left)
        places.append(torch.cat([torch.full((len(grid), 1), i + 1), grid], dim=1))
    return torch.cat(tokens, dim=1), torch.cat(places)


def encode_mode(vae, encode, pixels):
    latents = encode(pixels[:, :, None]).latent_dist.mode()[:, :, 0]
    mean, std = (torch.tensor(getattr(vae.config, key)).view(1, -1, 1, 1) for key in ("latents_mean", "latents_std"))
    return (latents - mean) / std


@contextlib.contextmanager
def beside(transformer, tokens, places, method):
    """The transformer with more tokens behind those of the result."""
    own = transformer.forward

    def forward(hidden_states, position_ids, **rest):
        count = hidden_states.shape[1]
        joined = torch.cat([hidden_states, tokens], dim=1)
        ids = torch.cat([position_ids, places.to(position_ids)])
        output = own(hidden_states=joined, position_ids=ids, **{**rest, "return_dict": False})[0]
        return (output[:, :count],)

    def modulated(module, _inputs, output):
        clean = transformer.time_embed(torch.zeros(1), dtype=output.dtype)
        clean = torch.nn.functional.linear(torch.nn.functional.gelu(clean, approximate="tanh"), module.weight, module.bias)
        others = transformer.text_tokens + transformer.image_tokens
        return torch.cat([output.expand(-1, others, -1), clean.expand(-1, tokens.shape[1], -1)], dim=1)

    def counted(hidden_states, encoder_hidden_states, **rest):
        transformer.text_tokens, transformer.image_tokens = encoder_hidden_states.shape[1], hidden_states.shape[1]
        return forward(hidden_states, encoder_hidden_states=encoder_hidden_states, **rest)

    transformer.forward = counted
    hook = method == "index_timestep_zero" and transformer.time_mod_proj.register_forward_hook(modulated)
    try:
        yield
    finally:
        del transformer.forward
        if hook:
            hook.remove()


def edit_call(pipeline, name, seed, *given, pictures, method, prompt, negative_prompt=None, **arguments):
    """An `image_call` after pictures, each uint8 [height, width, 3]."""
    images = [Image.fromarray(picture.numpy()) for picture in pictures]
    tokens, places = reference_tokens(pipeline, images, method, arguments["width"], arguments["height"])
    texts = {"prompt": prompt} | ({} if negative_prompt is None else {"negative_prompt": negative_prompt})
    states = {name: text_states(pipeline, text, images, method) for name, text in texts.items()}
    # The pipeline has positions for one number of tokens.
    longest = max(own.shape[1] for own in states.values())
    for key, own in states.items():
        pads = longest - own.shape[1]
        states[key] = torch.nn.functional.pad(own, (0, 0, 0, 0, 0, pads)), torch.arange(longest)[None] < longest - pads
    embeds = {f"{key}_embeds{part}": own[i] for key, own in states.items() for i, part in enumerate(("", "_mask"))}
    with beside(pipeline.transformer, tokens, places, method):
        made = image_call(pipeline, name, seed, *given, **embeds, **arguments)
    for key in embeds:
        made.args.pop(key)
    made.args |= {**texts, "reference_method": method}
    made.inputs |= {f"reference{i}": picture for i, picture in enumerate(pictures)}
    return made
