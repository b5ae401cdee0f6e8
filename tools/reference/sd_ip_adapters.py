"""Makes the goldens of IP-Adapters for Stable Diffusion under tests/goldens/ip_adapters.

    python3 tools/reference/sd_ip_adapters.py                 # make all
    python3 tools/reference/sd_ip_adapters.py NAME ...        # make some
    python3 tools/reference/sd_ip_adapters.py --check [NAME]  # read the stored ones back and run them again

UNets have the heads of the published ones, 40 and 80, or 64. The rest of each model is that of the pipelines' goldens of
Stable Diffusion. Adapters are files with the published names.
"""

import pathlib
import shutil
import tempfile

from PIL import Image
import torch
from diffusers.image_processor import IPAdapterMaskProcessor
from diffusers import (
    ControlNetModel,
    StableDiffusionControlNetPipeline,
    StableDiffusionImg2ImgPipeline,
    StableDiffusionInpaintPipeline,
    StableDiffusionPipeline,
    StableDiffusionXLPipeline,
)
from transformers import CLIPImageProcessor, CLIPVisionConfig, CLIPVisionModelWithProjection

import common
import stable_diffusion as sd
from common import Call, make_goldens
from flux1 import photo
from sd_controlnets import controlled, controlnet, like
from seeded import draw, seed_weights, write_rules

FOLDER = common.GOLDENS.parent / "ip_adapters"

# Heads of 80, as the published encoder has them.
VISION = dict(hidden_size=160, intermediate_size=192, num_hidden_layers=3, num_attention_heads=2, image_size=28,
              patch_size=14, projection_dim=24, hidden_act="gelu")
TOKENS = 1 + (VISION["image_size"] // VISION["patch_size"]) ** 2
UNET = sd.UNET | dict(block_out_channels=(80, 160), **sd.blocks(sd.CROSS, sd.CROSS))
UNET_XL = sd.UNET_XL | dict(block_out_channels=(64, 128), attention_head_dim=(1, 2))
# Queries, heads of 64 and blocks of the Plus adapter; diffusers has four blocks.
QUERIES, HEADS, DEPTH = 3, 2, 4


def image_encoder(folder, seed):
    folder.mkdir(exist_ok=True)
    model = CLIPVisionModelWithProjection(CLIPVisionConfig(**VISION, attn_implementation="eager"))
    model.config.save_pretrained(folder)
    return seed_weights(folder, model, seed)


def norm(name, size):
    return {f"{name}.weight": [size], f"{name}.bias": [size]}


def layer(name, rows, columns, bias=True):
    return {f"{name}.weight": [rows, columns]} | ({f"{name}.bias": [rows]} if bias else {})


def projection(kind, text):
    """Names and shapes of what makes tokens of an image."""
    width = VISION["hidden_size"]
    if kind == "plain":
        return layer("proj", 4 * text, VISION["projection_dim"]) | norm("norm", text)
    if kind == "full":
        return layer("proj.0", width, width) | layer("proj.2", text, width) | norm("proj.3", text)
    inner = 64 * HEADS
    shapes = {"latents": [1, QUERIES, inner]} | layer("proj_in", inner, width) | layer("proj_out", text, inner)
    for i in range(DEPTH):
        attention, forward = f"layers.{i}.0", f"layers.{i}.1"
        shapes |= norm(f"{attention}.norm1", inner) | norm(f"{attention}.norm2", inner)
        shapes |= {f"{attention}.to_q.weight": [inner, inner], f"{attention}.to_kv.weight": [2 * inner, inner],
                   f"{attention}.to_out.weight": [inner, inner]}
        shapes |= norm(f"{forward}.0", inner) | layer(f"{forward}.1", 4 * inner, inner, False)
        shapes |= layer(f"{forward}.3", inner, 4 * inner, False)
    return shapes | norm("norm_out", text)


def adapter(folder, seed, kind, unet):
    """A file's tensors as diffusers takes them; of the UNet's attentions every second one sees the text."""
    folder.mkdir(exist_ok=True)
    text = unet.config.cross_attention_dim
    shapes = {f"image_proj.{name}": shape for name, shape in projection(kind, text).items()}
    for i, processor in enumerate(unet.attn_processors):
        if processor.endswith("attn1.processor"):
            continue
        width = unet.get_submodule(processor.removesuffix(".processor")).to_k.weight.shape[0]
        shapes |= {f"ip_adapter.{i}.to_{part}_ip.weight": [width, text] for part in "kv"}
    rules = []
    for name, shape in shapes.items():
        is_norm = len(shape) == 1 and name.endswith("weight")
        std = 0.3 if is_norm else 0.2 if len(shape) == 1 else shape[-1] ** -0.5
        rules.append([name, shape, 1.0 if is_norm else 0.0, std])
    write_rules(folder, seed, torch.bfloat16, rules, "ip-adapter.safetensors")
    tensors = {name: tensor.float() for name, tensor in draw(folder).items()}
    of = lambda prefix: {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
    return {"image_proj": of("image_proj."), "ip_adapter": of("ip_adapter.")}


def parts_of(folder, golden, build, seed, unet):
    """The parts of a pipeline's golden with another UNet, which is written."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(sd.FOLDER / golden, copy, dirs_exist_ok=True)
        parts = build(pathlib.Path(copy), seed)
    (folder / "unet").mkdir(exist_ok=True)
    model = sd.UNet2DConditionModel(**unet)
    model.save_config(folder / "unet")
    return parts | {"unet": seed_weights(folder / "unet", model, seed + 5)}


def adapted(pipeline, encoder, files):
    side = VISION["image_size"]
    pipeline.register_modules(
        image_encoder=encoder, feature_extractor=CLIPImageProcessor(size=side, crop_size=side)
    )
    count = len(files) if isinstance(files, list) else 1
    pipeline.load_ip_adapter(files, subfolder=[""] * count, weight_name=[""] * count)
    return pipeline


# The attentions that see images, as InstantStyle has them; SDXL's way down ends with its third level.
MODES = {"style": {"up": {"block_0": [0, 1, 0]}}, "layout": {"down": {"block_1": [0, 1]}}}
MODES["style_layout"] = MODES["style"] | MODES["layout"]


def scales(mode, scale):
    parts = MODES[mode].items()
    return {way: {block: [scale * own for own in each] for block, each in blocks.items()} for way, blocks in parts}


def several_call(make, pipeline, name, seed, counts, scale, mode=None, is_masked=False, **arguments):
    """A call of several adapters, each with so many images; with masks each image has its own scale."""
    pipeline.set_ip_adapter_scale(
        [scales(each, own) for each, own in zip(mode, scale)] if mode
        else [scale[sum(counts[:i]):sum(counts[:i + 1])] for i in range(len(counts))] if is_masked
        else [scale[sum(counts[:i])] for i in range(len(counts))]
    )
    side = VISION["image_size"]
    total = sum(counts)
    references = [photo(seed + 50 + i, side, side) for i in range(total)]
    of = lambda each: [list(each[sum(counts[:i]):sum(counts[:i + 1])]) for i in range(len(counts))]
    pictures = of([Image.fromarray(each.numpy()) for each in references])
    # Masks that overlap, with slanted edges.
    height, width = SIZE["height"], SIZE["width"]
    rows, columns = torch.arange(height)[:, None] / height, torch.arange(width)[None] / width
    masks = [((rows + 2 * columns - 0.7 * i).abs() < 0.8).to(torch.uint8) * 255 for i in range(total)]
    if is_masked:
        prepared = IPAdapterMaskProcessor().preprocess([Image.fromarray(each.numpy()) for each in masks], height, width)
        arguments["cross_attention_kwargs"] = {
            "ip_adapter_masks": [torch.stack(each, 1).reshape(1, -1, height, width) for each in of(prepared)]
        }
    call = make(pipeline, name, seed, ip_adapter_image=pictures, **arguments)
    for told in ["ip_adapter_image", "cross_attention_kwargs"]:
        call.args.pop(told, None)
    numbered = lambda name, all: {name if i == 0 else f"{name}_{i + 1}": each for i, each in enumerate(all)}
    inputs = numbered("reference", references)
    if is_masked:
        inputs |= numbered("reference_mask", [each[..., None].expand(-1, -1, 3).contiguous() for each in masks])
    names = ["ip-adapter" if i == 0 else f"ip-adapter-{i + 1}" for i, count in enumerate(counts) for _ in range(count)]
    said = {"ip_adapter_name": names, "ip_adapter_scale": scale} | ({"ip_adapter_mode": mode} if mode else {})
    return Call(name, call.description, call.args | said, inputs | call.inputs, call.outputs)


def seen_call(make, pipeline, name, seed, *control, count=1, scale=0.8, mode=None, **arguments):
    """A call with images of what shall be seen, uint8 [side, side, 3], as many as `count`."""
    pipeline.set_ip_adapter_scale(scales(mode, scale) if mode else scale)
    side = VISION["image_size"]
    references = [photo(seed + 50 + i, side, side) for i in range(count)]
    pictures = [Image.fromarray(each.numpy()) for each in references]
    call = make(pipeline, name, seed, *control, ip_adapter_image=[pictures] if count > 1 else pictures[0], **arguments)
    del call.args["ip_adapter_image"]
    inputs = {"reference" if i == 0 else f"reference_{i + 1}": each for i, each in enumerate(references)}
    said = {"ip_adapter_scale": scale} | ({"ip_adapter_mode": mode} if mode else {})
    return Call(name, call.description, call.args | said, inputs | call.inputs, call.outputs)


SIZE = dict(height=24, width=40)
PLAIN = dict(prompt=sd.PROMPT, guidance_scale=1.0, num_inference_steps=3, **SIZE)
GUIDED = dict(prompt="a red cat", negative_prompt=sd.PROMPT, guidance_scale=4.0, num_inference_steps=2, **SIZE)
SD_CLASSES = (StableDiffusionPipeline, StableDiffusionImg2ImgPipeline, StableDiffusionInpaintPipeline)


def sd15_calls(kind, plain):
    def run(folder, seed):
        folder.mkdir(parents=True, exist_ok=True)
        parts = parts_of(folder, "pipeline", sd.sd_parts, 71, UNET)
        encoder = image_encoder(folder / "image_encoder", seed + 1)
        files = adapter(folder / "adapter", seed + 2, kind, parts["unet"])
        net = controlnet(folder / "net", seed + 3, ControlNetModel(**like(UNET))) if plain else None
        text, image, inpaint = [adapted(each, encoder, files) for each in sd.pipelines(SD_CLASSES, parts)]
        given, mask = sd.given(seed + 9, 24, 40)
        calls = [
            seen_call(sd.picture_call, text, "text", 3, **PLAIN),
            seen_call(sd.picture_call, text, "guided", 4, count=2, scale=0.6, **GUIDED),
        ]
        if not plain:
            return calls
        [steered] = sd.pipelines([StableDiffusionControlNetPipeline], parts | {"controlnet": net})
        call = {name: value for name, value in GUIDED.items() if name not in SIZE}
        return calls + [
            seen_call(sd.picture_call, image, "picture", 5, image=given, strength=0.6, **GUIDED),
            seen_call(sd.picture_call, inpaint, "masked", 6, image=given, mask=mask, strength=0.8, **GUIDED),
            seen_call(controlled, adapted(steered, encoder, files), "steered", 7, [photo(seed + 100, 24, 40)], count=2,
                      controlnet_conditioning_scale=0.7, **call),
        ]  # fmt: skip
    return run


def sdxl_calls(kind):
    def run(folder, seed):
        folder.mkdir(parents=True, exist_ok=True)
        parts = parts_of(folder, "xl_pipeline", sd.sdxl_parts, 79, UNET_XL)
        encoder = image_encoder(folder / "image_encoder", seed + 1)
        files = adapter(folder / "adapter", seed + 2, kind, parts["unet"])
        [text] = [adapted(each, encoder, files) for each in sd.pipelines([StableDiffusionXLPipeline], parts)]
        return [
            seen_call(sd.picture_call, text, "text", 3, count=2, **PLAIN),
            seen_call(sd.picture_call, text, "guided", 4, scale=0.6, **GUIDED),
            *(seen_call(sd.picture_call, text, mode, 5, mode=mode, **PLAIN | dict(num_inference_steps=2))
              for mode in (MODES if kind == "plain" else ())),
        ]  # fmt: skip
    return run


def several_calls(golden, build, own_seed, unet, pipeline_class):
    def run(folder, seed):
        folder.mkdir(parents=True, exist_ok=True)
        parts = parts_of(folder, golden, build, own_seed, unet)
        encoder = image_encoder(folder / "image_encoder", seed + 1)
        files = [adapter(folder / name, seed + 2 + i, kind, parts["unet"])
                 for i, (name, kind) in enumerate({"adapter": "plain", "adapter_2": "plus"}.items())]
        [text] = [adapted(each, encoder, files) for each in sd.pipelines([pipeline_class], parts)]
        modes = [several_call(sd.picture_call, text, "modes", 5, [1, 1], [0.8, 1.1], mode=["style", "layout"],
                              **PLAIN | dict(num_inference_steps=2))] if unet is UNET_XL else []
        return [
            several_call(sd.picture_call, text, "several", 3, [2, 1], [0.6, 0.6, 0.9], **GUIDED),
            several_call(sd.picture_call, text, "masked", 4, [2, 1], [0.9, 0.5, 0.7], is_masked=True, **GUIDED),
            *modes,
        ]
    return run


GOLDENS = {
    "sd15": ("IP-Adapter for Stable Diffusion 1.5", 1200, None, sd15_calls("plain", True)),
    "sd15_plus": ("IP-Adapter Plus for Stable Diffusion 1.5", 1210, None, sd15_calls("plus", False)),
    "sd15_full": ("IP-Adapter Full Face for Stable Diffusion 1.5", 1220, None, sd15_calls("full", False)),
    "sdxl": ("IP-Adapter for Stable Diffusion XL", 1230, None, sdxl_calls("plain")),
    "sd15_several": ("Two IP-Adapters for Stable Diffusion 1.5", 1250, None,
                     several_calls("pipeline", sd.sd_parts, 71, UNET, StableDiffusionPipeline)),
    "sdxl_several": ("Two IP-Adapters for Stable Diffusion XL", 1260, None,
                     several_calls("xl_pipeline", sd.sdxl_parts, 79, UNET_XL, StableDiffusionXLPipeline)),
    "sdxl_plus": ("IP-Adapter Plus for Stable Diffusion XL", 1240, None, sdxl_calls("plus")),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
