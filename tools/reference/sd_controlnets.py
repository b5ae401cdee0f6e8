"""Makes the goldens of ControlNets for Stable Diffusion under tests/goldens/controlnets.

    python3 tools/reference/sd_controlnets.py                 # make all
    python3 tools/reference/sd_controlnets.py NAME ...        # make some
    python3 tools/reference/sd_controlnets.py --check [NAME]  # read the stored ones back and run them again

The rest of each model is that of the pipelines' goldens of Stable Diffusion.
"""

import pathlib
import shutil
import tempfile

import torch
from diffusers import (
    ControlNetModel,
    ControlNetUnionModel,
    MultiControlNetModel,
    StableDiffusionAdapterPipeline,
    StableDiffusionControlNetImg2ImgPipeline,
    StableDiffusionControlNetInpaintPipeline,
    StableDiffusionControlNetPipeline,
    StableDiffusionXLAdapterPipeline,
    StableDiffusionXLControlNetImg2ImgPipeline,
    StableDiffusionXLControlNetInpaintPipeline,
    StableDiffusionXLControlNetPipeline,
    StableDiffusionXLControlNetUnionPipeline,
    T2IAdapter,
)

import stable_diffusion as sd
from common import Call, make_goldens
from controlnets import FOLDER
from flux1 import photo
from seeded import draw, seed_weights, write_rules

SHARED = ("in_channels", "block_out_channels", "layers_per_block", "norm_num_groups", "cross_attention_dim",
          "attention_head_dim", "transformer_layers_per_block", "use_linear_projection", "addition_embed_type",
          "addition_time_embed_dim", "projection_class_embeddings_input_dim", "down_block_types")  # fmt: skip


def like(unet, **others):
    """The configuration of a ControlNet for a UNet; the picture has two pixels for each of the latents'."""
    own = {name: value for name, value in unet.items() if name in SHARED}
    return own | dict(conditioning_embedding_out_channels=(16, 32)) | others


def controlnet(folder, seed, model):
    folder.mkdir(exist_ok=True)
    model.save_config(folder)
    return seed_weights(folder, model, seed)


def parts_of(golden, build, seed, **unet):
    """The parts of a pipeline's golden, its weights drawn."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(sd.FOLDER / golden, copy, dirs_exist_ok=True)
        return build(pathlib.Path(copy), seed, **unet)


SD_CLASSES = (StableDiffusionControlNetPipeline, StableDiffusionControlNetImg2ImgPipeline,
              StableDiffusionControlNetInpaintPipeline)  # fmt: skip
XL_CLASSES = (StableDiffusionXLControlNetPipeline, StableDiffusionXLControlNetImg2ImgPipeline,
              StableDiffusionXLControlNetInpaintPipeline)  # fmt: skip


ADAPTER_CLASSES = (StableDiffusionAdapterPipeline, StableDiffusionXLAdapterPipeline)


def sd_pipelines(net, golden="pipeline", seed=71, **unet):
    return sd.pipelines(SD_CLASSES, parts_of(golden, sd.sd_parts, seed, **unet) | {"controlnet": net})


def xl_pipelines(net):
    return sd.pipelines(XL_CLASSES, parts_of("xl_pipeline", sd.sdxl_parts, 79) | {"controlnet": net})


def holed(image, mask):
    """What a ControlNet for inpainting sees: -1 where the mask redraws the image."""
    return torch.where(mask.unsqueeze(-1) > 127, -255.0, image.float())


def controlled(pipeline, name, seed, control, height=24, width=40, **arguments):
    """A call with control pictures, uint8 [height, width, 3]."""
    hints = [each.permute(2, 0, 1).unsqueeze(0).float() / 255 for each in control]
    key = "image" if isinstance(pipeline, (SD_CLASSES[0], XL_CLASSES[0], *ADAPTER_CLASSES)) else "control_image"

    def run(**call):
        pictures = {key: hints if len(hints) > 1 or "control_mode" in call else hints[0]}
        if isinstance(pipeline, ADAPTER_CLASSES):
            keep = call.pop("callback_on_step_end")
            call["callback"] = lambda step, timestep, latents: keep(pipeline, step, timestep, {"latents": latents})
        result = pipeline(**call | dict(height=height, width=width) | pictures)
        if not torch.is_tensor(result.images):
            result.images = torch.from_numpy(result.images).permute(0, 3, 1, 2)
        return result

    call = sd.picture_call(run, name, seed, height=height, width=width, **arguments)
    inputs = {"control" if i == 0 else f"control_{i + 1}": each for i, each in enumerate(control)
              if not each.is_floating_point()}
    return Call(name, call.description, call.args, {**inputs, **call.inputs}, call.outputs)


PLAIN = dict(prompt=sd.PROMPT, guidance_scale=1.0, num_inference_steps=3)
GUIDED = dict(prompt="a red cat", negative_prompt=sd.PROMPT, guidance_scale=4.0, num_inference_steps=4)


def pictures(seed, count=1):
    return [photo(seed + i, 24, 40) for i in range(count)]


def sd15_calls(folder, seed):
    net = controlnet(folder / "controlnet", seed, ControlNetModel(**like(sd.UNET)))
    text, image, inpaint = sd_pipelines(net)
    given, mask = sd.given(seed + 9, 24, 40)
    return [
        controlled(text, "text", 3, pictures(100), controlnet_conditioning_scale=0.8, **PLAIN),
        controlled(text, "window", 4, pictures(101), controlnet_conditioning_scale=1.3, control_guidance_start=0.3,
                   control_guidance_end=0.9, **GUIDED | dict(num_inference_steps=2)),
        controlled(image, "picture", 5, pictures(102), image=given, strength=0.6, controlnet_conditioning_scale=0.7,
                   control_guidance_end=0.5, **GUIDED),
        controlled(inpaint, "masked", 6, pictures(103), image=given, mask=mask, strength=0.8,
                   controlnet_conditioning_scale=0.7, **GUIDED),
    ]  # fmt: skip


def sd15_inpainting_calls(folder, seed):
    """Beside a UNet that sees the mask, which the ControlNet does not."""
    net = controlnet(folder / "controlnet", seed, ControlNetModel(**like(sd.UNET)))
    _, _, inpaint = sd_pipelines(net, "inpainting", 73, in_channels=9)
    given, mask = sd.given(seed + 9, 24, 40)
    return [controlled(inpaint, "masked", 6, pictures(104), image=given, mask=mask, strength=0.8,
                       controlnet_conditioning_scale=0.7, **GUIDED)]  # fmt: skip


def sdxl_calls(folder, seed):
    net = controlnet(folder / "controlnet", seed, ControlNetModel(**like(sd.UNET_XL)))
    text, image, inpaint = xl_pipelines(net)
    given, mask = sd.given(seed + 9, 24, 40)
    return [
        controlled(text, "text", 3, pictures(110), controlnet_conditioning_scale=0.8, **PLAIN),
        controlled(text, "guided", 4, pictures(111), controlnet_conditioning_scale=0.6, **GUIDED),
        controlled(image, "picture", 5, pictures(112), image=given, strength=0.6, controlnet_conditioning_scale=0.7,
                   **GUIDED),
        controlled(inpaint, "masked", 6, pictures(113), image=given, mask=mask, strength=0.8,
                   controlnet_conditioning_scale=0.7, **GUIDED),
    ]  # fmt: skip


# As the small ones for SDXL: no attention.
REDUCED = dict(down_block_types=("DownBlock2D",) * 2, mid_block_type="UNetMidBlock2D")


def sdxl_reduced_calls(folder, seed):
    net = controlnet(folder / "controlnet", seed, ControlNetModel(**like(sd.UNET_XL, **REDUCED)))
    text, _, _ = xl_pipelines(net)
    return [controlled(text, "text", 3, pictures(114), controlnet_conditioning_scale=0.8, **PLAIN)]


def sd15_pooled_calls(folder, seed):
    """As the one for shuffled pictures: it adds nothing for the negative prompt."""
    net = controlnet(folder / "controlnet", seed, ControlNetModel(**like(sd.UNET, global_pool_conditions=True)))
    text, _, _ = sd_pipelines(net)
    return [controlled(text, "guided", 3, pictures(115), **GUIDED | dict(num_inference_steps=2))]


def sdxl_union_calls(folder, seed):
    own = like(sd.UNET_XL, num_control_type=8, num_trans_channel=32, num_trans_head=2, num_proj_channel=32)
    net = controlnet(folder / "controlnet", seed, ControlNetUnionModel(**own))
    parts = parts_of("xl_pipeline", sd.sdxl_parts, 79) | {"controlnet": net}
    [text] = sd.pipelines([StableDiffusionXLControlNetUnionPipeline], parts)
    brief = GUIDED | dict(num_inference_steps=2)
    both = dict(control_mode=[1, 3])
    joint = controlled(text, "joint", 5, pictures(118, 2), controlnet_conditioning_scale=0.8, **both, **brief)
    # The pipeline has one weight for all pictures, the net one for each.
    own, scales = net.forward, [0.9, 0.4]
    net.forward = lambda *inputs, **named: own(*inputs, **named | dict(conditioning_scale=scales))
    unequal = controlled(text, "unequal", 6, pictures(118, 2), **both, **PLAIN | dict(num_inference_steps=2))
    unequal.args["controlnet_conditioning_scale"] = scales
    net.forward = own
    return [
        joint,
        unequal,
        controlled(text, "depth", 3, pictures(116), control_mode=[1], controlnet_conditioning_scale=0.8, **PLAIN),
        controlled(text, "guided", 4, pictures(117), control_mode=[7], controlnet_conditioning_scale=0.7,
                   **GUIDED | dict(num_inference_steps=2)),
    ]  # fmt: skip


# Channels of a ControlNet-LLLite's pictures, and between its layers; a token of the small UNet has 4 x 4 pixels.
LLLITE_EMBEDDING, LLLITE_HIDDEN = 16, 8
LLLITE_PLACES = {"down_blocks.1.attentions.0": "input_blocks_4_1", "down_blocks.1.attentions.1": "input_blocks_5_1",
                 "mid_block.attentions.0": "middle_block_1"}  # fmt: skip


def lllite_modules(unet):
    """The UNet's projections that a ControlNet-LLLite changes, by its names. Source: kohya-ss/sd-scripts."""
    for place, original in LLLITE_PLACES.items():
        for i, _ in enumerate(unet.get_submodule(place).transformer_blocks):
            for part in ("attn1.to_q", "attn1.to_k", "attn1.to_v", "attn2.to_q"):
                name = f"lllite_unet_{original}_transformer_blocks_{i}_{part.replace('.', '_')}"
                yield name, unet.get_submodule(f"{place}.transformer_blocks.{i}.{part}")


def lllite_rules(unet):
    for name, module in lllite_modules(unet):
        wide, half = module.in_features, LLLITE_EMBEDDING // 2
        shapes = {"conditioning1.0": [half, 3, 2, 2], "conditioning1.2": [LLLITE_EMBEDDING, half, 2, 2],
                  "down.0": [LLLITE_HIDDEN, wide], "mid.0": [LLLITE_HIDDEN, LLLITE_HIDDEN + LLLITE_EMBEDDING],
                  "up.0": [wide, LLLITE_HIDDEN]}  # fmt: skip
        for layer, shape in shapes.items():
            columns = torch.Size(shape[1:]).numel()
            yield [f"{name}.{layer}.weight", shape, 0.0, columns**-0.5]
            yield [f"{name}.{layer}.bias", shape[:1], 0.0, 0.2]


def steer_by_lllite(unet, tensors, picture, scale):
    """Changes what the projections take; `picture` is [1, 3, height, width] in [0, 1]."""
    relu, conv, linear = torch.nn.functional.relu, torch.nn.functional.conv2d, torch.nn.functional.linear
    for name, module in lllite_modules(unet):
        of = lambda layer, name=name: (tensors[f"{name}.{layer}.weight"], tensors[f"{name}.{layer}.bias"])
        seen = conv(relu(conv(2 * picture - 1, *of("conditioning1.0"), stride=2)), *of("conditioning1.2"), stride=2)
        seen = seen.flatten(2).transpose(1, 2)

        def forward(x, own=module.forward, of=of, seen=seen):
            down = relu(linear(x, *of("down.0")))
            mid = relu(linear(torch.cat([seen.expand(x.shape[0], -1, -1), down], 2), *of("mid.0")))
            return own(x + scale * linear(mid, *of("up.0")))

        module.forward = forward


def sdxl_lllite_calls(folder, seed):
    (folder / "net").mkdir(exist_ok=True)
    parts = parts_of("xl_pipeline", sd.sdxl_parts, 79)
    write_rules(folder / "net", seed, torch.bfloat16, list(lllite_rules(parts["unet"])), "lllite.safetensors")
    tensors = {name: tensor.float() for name, tensor in draw(folder / "net").items()}
    [text] = sd.pipelines([sd.StableDiffusionXLPipeline], parts)
    [shown] = pictures(seed)
    steer_by_lllite(parts["unet"], tensors, shown.permute(2, 0, 1).unsqueeze(0).float() / 255, 0.7)
    call = sd.picture_call(text, "guided", 3, **BRIEF, height=24, width=40)
    call.args["controlnet_conditioning_scale"] = 0.7
    return [Call(call.name, call.description, call.args, {"control": shown}, call.outputs)]


LORA_RANK = 4


def sai_name(name):
    """What Stability AI's Control-LoRAs call a module of a ControlNet with two layers in each block."""
    fixed = {"conv_in": "input_blocks.0.0", "time_embedding.linear_1": "time_embed.0", "time_embedding.linear_2": "time_embed.2",
             "add_embedding.linear_1": "label_emb.0.0", "add_embedding.linear_2": "label_emb.0.2",
             "controlnet_mid_block": "middle_block_out.0", "controlnet_cond_embedding.conv_in": "input_hint_block.0",
             "controlnet_cond_embedding.conv_out": "input_hint_block.14"}  # fmt: skip
    if name in fixed:
        return fixed[name]
    inner = {"norm1": "in_layers.0", "conv1": "in_layers.2", "norm2": "out_layers.0", "conv2": "out_layers.3",
             "time_emb_proj": "emb_layers.1", "conv_shortcut": "skip_connection"}  # fmt: skip
    match name.split("."):
        case ["controlnet_cond_embedding", "blocks", i]:
            return f"input_hint_block.{2 * int(i) + 2}"
        case ["controlnet_down_blocks", i]:
            return f"zero_convs.{i}.0"
        case ["down_blocks", block, "downsamplers", *_]:
            return f"input_blocks.{3 * int(block) + 3}.0.op"
        case ["down_blocks", block, kind, i, *rest]:
            place = f"input_blocks.{3 * int(block) + int(i) + 1}"
        case ["mid_block", kind, i, *rest]:
            place = f"middle_block.{2 * int(i) if kind == 'resnets' else 1}"
            return f"{place}.{inner[rest[0]] if kind == 'resnets' else '.'.join(rest)}"
    return f"{place}.0.{inner[rest[0]]}" if kind == "resnets" else f"{place}.1.{'.'.join(rest)}"


def control_lora_rules(net):
    """Factors of layers and convolutions that the UNet has, too; everything else is whole."""
    yield ["lora_controlnet", [1], 0.0, 0.0]
    for name, module in net.named_modules():
        weight = getattr(module, "weight", None)
        if weight is None or any(True for _ in module.children()):
            continue
        own, shape = sai_name(name), list(weight.shape)
        columns = weight[0].numel()
        if name.startswith("controlnet_"):
            yield [f"{own}.weight", shape, 0.0, columns**-0.5]
        elif len(shape) == 1:
            yield [f"{own}.weight", shape, 1.0, 0.3]
        else:
            yield [f"{own}.up", [shape[0], LORA_RANK, *[1] * (len(shape) - 2)], 0.0, 0.3]
            yield [f"{own}.down", [LORA_RANK, *shape[1:]], 0.0, columns**-0.5]
        if module.bias is not None:
            yield [f"{own}.bias", list(module.bias.shape), 0.0, 0.2]


@torch.no_grad()
def sdxl_control_lora_calls(folder, seed):
    (folder / "net").mkdir(exist_ok=True)
    (folder / "unet").mkdir(exist_ok=True)
    unet = sd.UNet2DConditionModel(**sd.UNET_XL)
    unet.save_config(folder / "unet")
    # The device rounds what it writes to the type of the weights.
    seed_weights(folder / "unet", unet, seed + 1, torch.float32)
    net = ControlNetModel.from_unet(unet, conditioning_embedding_out_channels=(16, 32))
    write_rules(folder / "net", seed, torch.bfloat16, list(control_lora_rules(net)), "control-lora.safetensors")
    tensors = {name: tensor.float() for name, tensor in draw(folder / "net").items()}
    names = [name for name, _ in net.named_modules()]
    net.load_lora_adapter(dict(tensors), prefix=None)
    # diffusers leaves biases beside factors as the UNet has them; they are whole in the file, as ComfyUI takes them.
    for name in names:
        module = net.get_submodule(name)
        if hasattr(module, "lora_A") and f"{sai_name(name)}.up" in tensors and module.base_layer.bias is not None:
            module.base_layer.bias.copy_(tensors[f"{sai_name(name)}.bias"])
    parts = parts_of("xl_pipeline", sd.sdxl_parts, 79) | {"unet": unet, "controlnet": net}
    [text] = sd.pipelines([StableDiffusionXLControlNetPipeline], parts)
    return [controlled(text, "guided", 3, pictures(seed), controlnet_conditioning_scale=0.7, **BRIEF)]


def nets_of(folder, config, first, second, seed):
    """The ControlNet of another golden, drawn again, and one of this golden's own, as diffusers names its folder."""
    with tempfile.TemporaryDirectory() as copy:
        known = controlnet(pathlib.Path(copy), first, ControlNetModel(**config))
    return MultiControlNetModel([known, controlnet(folder / "controlnet_1", seed, ControlNetModel(**config | second))])


BRIEF = GUIDED | dict(num_inference_steps=2)
UNEQUAL = dict(controlnet_conditioning_scale=[0.8, 0.3])


def sd15_several_calls(folder, seed):
    """Two at once of unequal weights and windows; then one beside an adapter, whose features the UNet gets too."""
    nets = nets_of(folder, like(sd.UNET), 1100, {}, seed)
    text, _, inpaint = sd_pipelines(nets)
    adapter = controlnet(folder / "controlnet_2", seed + 1, T2IAdapter(**ADAPTER))
    given, mask = sd.given(seed + 9, 24, 40)
    both, beside = pictures(seed, 2), pictures(seed + 4, 2)
    windows = dict(control_guidance_start=[0.0, 0.5], control_guidance_end=[1.0, 1.0])
    calls = [
        controlled(text, "guided", 3, both, **UNEQUAL, **windows, **BRIEF),
        controlled(inpaint, "masked", 4, both, image=given, mask=mask, strength=0.8, **UNEQUAL, **GUIDED),
        controlled(inpaint, "holed", 6, [holed(given, mask), both[1]], image=given, mask=mask, strength=1.0, guess_mode=True,
                   **UNEQUAL, **BRIEF),
    ]
    calls[2].args["control_type"] = ["inpaint", "map"]
    [text] = sd.pipelines(SD_CLASSES[:1], parts_of("pipeline", sd.sd_parts, 71) | {"controlnet": nets.nets[0]})
    features = adapter(beside[1].permute(2, 0, 1).unsqueeze(0).float() / 255)
    seeing, steering = text.unet.forward, nets.nets[0].forward
    for name, shares in (("beside_adapter", (1, 1, 1)), ("weakened", (0.25, 0.62, 0.825))):
        added = [0.6 * share * each for each, share in zip(features, shares, strict=True)]
        text.unet.forward = lambda *inputs, added=added, **named: seeing(
            *inputs, **named, down_intrablock_additional_residuals=list(added))
        # The weights of guess mode for both prompts are those of WebUI's "My prompt is more important".
        nets.nets[0].forward = lambda *inputs, name=name, **named: steering(
            *inputs, **named | dict(guess_mode=name == "weakened"))
        call = controlled(text, name, 5, beside[:1], controlnet_conditioning_scale=0.8, **BRIEF)
        call.args.update(controlnet_conditioning_scale=[0.8, 0.6], control_net=["controlnet", "controlnet_2"])
        if name == "weakened":
            call.args["control_balance"] = "prompt"
        inputs = {**call.inputs, "control_2": beside[1]}
        calls.append(Call(call.name, call.description, call.args, inputs, call.outputs))
    return calls


def sdxl_several_calls(folder, seed):
    text, _, _ = xl_pipelines(nets_of(folder, like(sd.UNET_XL), 1120, REDUCED, seed))
    return [controlled(text, "guided", 3, pictures(seed, 2), **UNEQUAL, **BRIEF)]


def adapter_calls(kind, base, build, model_seed, pipeline, **config):
    def run(folder, seed):
        adapter = controlnet(folder / "controlnet", seed, T2IAdapter(adapter_type=kind, num_res_blocks=2, **config))
        [text] = sd.pipelines([pipeline], parts_of(base, build, model_seed) | {"adapter": adapter})
        call = GUIDED | dict(num_inference_steps=2, adapter_conditioning_scale=0.8)
        return [controlled(text, "guided", 3, pictures(seed), **call)]
    return run


ADAPTER = dict(adapter_type="full_adapter", num_res_blocks=2, channels=[32, 64, 64], downscale_factor=2)
SD_BASE = ("pipeline", sd.sd_parts, 71, StableDiffusionAdapterPipeline)
XL_BASE = ("xl_pipeline", sd.sdxl_parts, 79, StableDiffusionXLAdapterPipeline)


GOLDENS = {
    "sd15": ("ControlNet for Stable Diffusion 1.5", 1100, None, sd15_calls),
    "sd15_inpainting": ("ControlNet beside an inpainting UNet", 1110, None, sd15_inpainting_calls),
    "sd15_pooled": ("ControlNet for shuffled pictures", 1140, None, sd15_pooled_calls),
    "sdxl": ("ControlNet for Stable Diffusion XL", 1120, None, sdxl_calls),
    "sdxl_union": ("ControlNet Union for Stable Diffusion XL", 1150, None, sdxl_union_calls),
    "sd15_adapter": ("T2I-Adapter for Stable Diffusion 1.5", 1160, None,
                     adapter_calls("full_adapter", *SD_BASE, channels=[32, 64, 64], downscale_factor=2)),
    "sd15_light_adapter": ("Light T2I-Adapter for Stable Diffusion 1.5", 1170, None,
                           adapter_calls("light_adapter", *SD_BASE, channels=[32, 64], downscale_factor=2)),
    "sdxl_adapter": ("T2I-Adapter for Stable Diffusion XL", 1180, None,
                     adapter_calls("full_adapter_xl", *XL_BASE, channels=[32, 64], downscale_factor=4)),
    "sd15_several": ("Two ControlNets for Stable Diffusion 1.5, and an adapter", 1190, None, sd15_several_calls),
    "sdxl_several": ("Two ControlNets for Stable Diffusion XL", 1200, None, sdxl_several_calls),
    "sdxl_lllite": ("ControlNet-LLLite for Stable Diffusion XL", 1250, None, sdxl_lllite_calls),
    "sdxl_control_lora": ("Control-LoRA for Stable Diffusion XL", 1270, None, sdxl_control_lora_calls),
    "sdxl_reduced": ("ControlNet without attention for Stable Diffusion XL", 1130, None, sdxl_reduced_calls),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
