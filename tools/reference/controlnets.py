"""Makes the goldens of ControlNets under tests/goldens/controlnets.

    python3 tools/reference/controlnets.py                 # make all
    python3 tools/reference/controlnets.py NAME ...        # make some
    python3 tools/reference/controlnets.py --check [NAME]  # read the stored ones back and run them again

Each has a `controlnet` folder, and maybe a transformer of its own; the rest is that of the family's golden.
"""

import pathlib
import shutil
import tempfile

import torch
from diffusers import (
    FluxControlNetImg2ImgPipeline,
    FluxControlNetInpaintPipeline,
    FluxControlNetModel,
    FluxControlNetPipeline,
    FluxMultiControlNetModel,
    QwenImageControlNetInpaintPipeline,
    QwenImageControlNetModel,
    QwenImageControlNetPipeline,
    QwenImageMultiControlNetModel,
    SD3ControlNetModel,
    StableDiffusion3ControlNetInpaintingPipeline,
    StableDiffusion3ControlNetPipeline,
    ZImageControlNetInpaintPipeline,
    ZImageControlNetModel,
    ZImageControlNetPipeline,
)

import common
import flux1
import qwen_image
import stable_diffusion_3 as sd3
import z_image
from common import Call, generator, make_goldens, randomise
from flux1 import photo
from seeded import keep_seed, seed_weights, with_weights

FOLDER = common.GOLDENS.parent / "controlnets"

# Counts of blocks that do not divide each other.
FLUX1 = dict(flux1.DEV, num_layers=3, num_single_layers=3)
FLUX1_UNION = dict(flux1.DEV, num_layers=2, num_single_layers=2, num_mode=10)
# As Union Pro 2.0: no modes, no single blocks; guidance is embedded, though schnell has none.
FLUX1_WIDE = dict(flux1.SCHNELL, num_layers=1, num_single_layers=0, guidance_embeds=True)


def controlnet(folder, model, seed):
    model = randomise(model, seed)
    model.bfloat16().save_pretrained(folder)
    keep_seed(folder, model, seed)


def build_flux1(folder, seed):
    flux1.transformer(folder / "transformer", FLUX1, seed)
    controlnet(folder / "controlnet", FluxControlNetModel(**FLUX1_UNION), seed + 1)


def build_flux1_wide(folder, seed):
    controlnet(folder / "controlnet", FluxControlNetModel(**FLUX1_WIDE), seed)


def load_flux1(pipeline, folder, others, more=()):
    """A pipeline with the parts of `folder`, more ControlNets beside its own, and the rest of FLUX.1's golden `others`."""
    own = with_weights(folder)
    base = flux1.load(flux1.FluxPipeline, others)
    parts = dict(base.components, controlnet=FluxControlNetModel.from_pretrained(own / "controlnet"))
    if (own / "transformer").exists():
        parts["transformer"] = flux1.FluxTransformer2DModel.from_pretrained(own / "transformer")
    parts = {name: part.float() if isinstance(part, torch.nn.Module) else part for name, part in parts.items()}
    kept = {name: parts[name] for name in pipeline.__init__.__annotations__ if name in parts}
    if more:
        kept["controlnet"] = FluxMultiControlNetModel([kept["controlnet"], *more])
    loaded = pipeline(**kept)
    loaded.set_progress_bar_config(disable=True)
    return loaded


def run_flux1(pipeline, name, prompt, width, height, seed, steps, control, **arguments):
    """With a control picture, uint8 [height, width, 3], or a list of them."""
    pictures = control_inputs(control)
    hints = [as_hint(each) for each in pictures.values()]
    hint = hints if isinstance(control, list) else hints[0]
    call = flux1.run(pipeline, name, prompt, width, height, seed, steps, control_image=hint, **arguments)
    del call.args["control_image"]
    return Call(call.name, call.description, call.args, {**call.inputs, **pictures}, call.outputs)


def as_hint(picture):
    """As `preprocess` would give it: tensors are taken as they are."""
    return picture.permute(2, 0, 1).unsqueeze(0).float() / 127.5 - 1


def control_inputs(control):
    """Inputs of a call with one control picture or a list of them."""
    pictures = control if isinstance(control, list) else [control]
    return {"control" if i == 0 else f"control_{i + 1}": each for i, each in enumerate(pictures)}


def flux1_calls(folder, _seed):
    text, image, inpaint = (
        load_flux1(each, folder, flux1.FOLDER / "dev")
        for each in (FluxControlNetPipeline, FluxControlNetImg2ImgPipeline, FluxControlNetInpaintPipeline)
    )
    small = dict(max_sequence_length=32, guidance_scale=3.5)
    mask = torch.zeros(24, 24, dtype=torch.uint8)
    mask[6:16, 4:20] = 255
    calls = [
        run_flux1(text, "pose", flux1.PROMPT, 28, 20, 3, 3, photo(60, 20, 28), control_mode=4,
                  controlnet_conditioning_scale=0.8, **small),
        run_flux1(text, "window", "a red cat", 24, 32, 4, 5, photo(61, 32, 24), control_mode=0,
                  controlnet_conditioning_scale=1.3, control_guidance_start=0.2, control_guidance_end=0.8, **small),
        run_flux1(text, "guided", "a red cat", 24, 24, 5, 2, photo(62, 24, 24), control_mode=2,
                  negative_prompt="blurry, low quality", true_cfg_scale=2.5, **small),
        run_flux1(image, "picture", "a small house at night", 24, 24, 6, 4, photo(63, 24, 24), image=photo(64, 24, 24),
                  strength=0.6, control_mode=1, controlnet_conditioning_scale=0.7, control_guidance_end=0.5, **small),
        run_flux1(inpaint, "masked", "a small house at night", 24, 24, 7, 3, photo(65, 24, 24), image=photo(66, 24, 24),
                  mask=mask, strength=0.7, control_mode=0, controlnet_conditioning_scale=0.7, **small),
    ]  # fmt: skip
    text.load_lora_weights(flux1.FOLDER / "dev" / "adapter-diffusers.safetensors", adapter_name="one")
    text.set_adapters("one", 0.7)
    return [*calls, run_flux1(text, "adapted", "a red cat", 20, 16, 8, 2, photo(68, 16, 20), control_mode=3, **small)]


def flux1_wide_calls(folder, _seed):
    text = load_flux1(FluxControlNetPipeline, folder, flux1.FOLDER / "schnell")
    return [
        run_flux1(text, "text", flux1.PROMPT, 32, 24, 10, 2, photo(67, 24, 32), guidance_scale=3.0,
                  controlnet_conditioning_scale=0.9, max_sequence_length=64),
    ]  # fmt: skip


# One ControlNet of several sees both pictures.
SAME_NET = dict(control_net=["controlnet", "controlnet"])


def flux1_several_calls(folder, seed):
    """The Union ControlNet of another golden and one without modes; then that Union ControlNet twice."""
    sizes = dict(flux1.DEV, num_layers=2, num_single_layers=2)
    (folder / "controlnet_1").mkdir()
    plain = FluxControlNetModel(**sizes)
    plain.save_config(folder / "controlnet_1")
    seed_weights(folder / "controlnet_1", plain, seed)
    # One window for each picture: of a window for all, a pipeline with one net makes one for the first picture alone.
    text, joint = (
        load_flux1(FluxControlNetPipeline, FOLDER / "flux1", flux1.FOLDER / "dev", more) for more in ([plain.float()], [])
    )
    joint.controlnet = FluxMultiControlNetModel([joint.controlnet])
    small = dict(max_sequence_length=32, guidance_scale=3.5)
    pair = [photo(120, 20, 28), photo(121, 20, 28)]
    calls = [
        run_flux1(text, "windows", flux1.PROMPT, 28, 20, 3, 4, pair, control_mode=[4, None],
                  controlnet_conditioning_scale=[0.8, 1.2], control_guidance_start=[0.0, 0.5],
                  control_guidance_end=[0.6, 1.0], **small),
        run_flux1(joint, "joint", "a red cat", 28, 20, 4, 2, pair, control_mode=[0, 2],
                  controlnet_conditioning_scale=[0.9, 0.4], negative_prompt="blurry", true_cfg_scale=2.5,
                  control_guidance_start=[0.0, 0.0], control_guidance_end=[1.0, 1.0], **small),
    ]  # fmt: skip
    calls[1].args.update(SAME_NET)
    return calls


# As the first one that was published: refined for itself, channels as the latents have them.
Z_IMAGE = dict({name: z_image.SMALL[name] for name in ("dim", "n_heads", "n_kv_heads", "n_refiner_layers")},
               control_layers_places=[0, 1], control_in_dim=16)
# As 2.0 and 2.1: with channels for a mask and an image, of which there are none; refined beside the sample.
Z_IMAGE_SHARED = dict(Z_IMAGE, control_in_dim=33, control_refiner_layers_places=[0], add_control_noise_refiner="control_layers")
Z_IMAGE_REFINED = dict(Z_IMAGE_SHARED, add_control_noise_refiner="control_noise_refiner", control_layers_places=[0])


def build_z_image(options):
    def build(folder, seed):
        model = ZImageControlNetModel(**options)
        (folder / "controlnet").mkdir()
        model.save_config(folder / "controlnet")
        seed_weights(folder / "controlnet", model, seed)
    return build


def z_image_calls(options, calls):
    def run(folder, seed):
        with tempfile.TemporaryDirectory() as copy:
            # Its configurations are written again beside the drawn weights.
            shutil.copytree(z_image.FOLDER / "pipeline", copy, dirs_exist_ok=True)
            parts = z_image.components(pathlib.Path(copy), 47)
        with tempfile.TemporaryDirectory() as copy:
            controlnet = seed_weights(pathlib.Path(copy), ZImageControlNetModel(**options), seed)
        plain, inpaint = (
            qwen_image.quiet(each(**parts, controlnet=controlnet))
            for each in (ZImageControlNetPipeline, ZImageControlNetInpaintPipeline)
        )
        return [run_packed(z_image, inpaint if "mask" in call[-1] else plain, *call) for call in calls]
    return run


def run_packed(family, pipeline, name, seed, control, arguments):
    """A call of a family's `picture_call`, with a control picture of the size of the result."""
    shown = control_inputs(control)
    height, width = shown["control"].shape[:2]
    inputs = {**shown, **{key: arguments[key] for key in ("given", "mask") if key in arguments}}
    given = dict(arguments)
    hints = [as_hint(each) for each in shown.values()]
    pictures = {"control_image": hints if isinstance(control, list) else hints[0]}
    if "given" in given:
        pictures["image"] = as_hint(given.pop("given"))
    if "mask" in given:
        pictures["mask_image"] = given.pop("mask").reshape(1, 1, height, width).float() / 255
    call = packed_call(family, pipeline, name, seed, pictures, height=height, width=width, **given)
    return Call(name, call.description, call.args, inputs, call.outputs)


def packed_call(family, pipeline, name, seed, pictures, **arguments):
    """A call of a family's `picture_call` with pictures that the pipeline takes as they are, not kept as arguments."""
    return family.picture_call(lambda **call: pipeline(**call, **pictures), name, seed, **arguments)


def most_likely(vae):
    """Latents without noise, which the pipeline for inpainting draws by chance, not from the seed."""
    encode = vae.encode

    def with_mode(pixels):
        encoded = encode(pixels)
        encoded.latent_dist.sample = encoded.latent_dist.mode
        return encoded

    vae.encode = with_mode


def run_inpainted(pipeline, name, seed, given, mask, arguments):
    """A call with an image and its mask, which are all that the ControlNet sees."""
    height, width = given.shape[:2]
    pictures = {"control_image": as_hint(given),
                "control_mask": mask.reshape(1, 1, height, width).float() / 255}
    call = packed_call(qwen_image, pipeline, name, seed, pictures, height=height, width=width, **arguments)
    return Call(name, call.description, call.args, {"given": given, "mask": mask}, call.outputs)


def hole(height, width, top, left):
    """A mask that paints anew what lies between, off the edges of latents, and keeps the rest."""
    mask = torch.zeros(height, width, dtype=torch.uint8)
    mask[top:-top, left:-left] = 255
    return mask


PLAIN = dict(prompt=z_image.PROMPT, num_inference_steps=3, guidance_scale=0.0)
MASKED = dict(PLAIN, given=photo(73, 20, 28), mask=hole(20, 28, 5, 7), controlnet_conditioning_scale=0.9)
GUIDED = dict(prompt="a red cat", negative_prompt=z_image.PROMPT, num_inference_steps=3, guidance_scale=2.5)
Z_IMAGE_CALLS = [
    ("usual", 7, photo(70, 20, 28), PLAIN),
    ("weighted", 8, photo(71, 16, 24), dict(PLAIN, controlnet_conditioning_scale=1.4)),
    ("guided", 9, photo(72, 24, 16), dict(GUIDED, controlnet_conditioning_scale=0.6)),
]
Z_IMAGE_MASKED_CALL = ("masked", 10, photo(74, 20, 28), MASKED)

# One block for both of the transformer's.
QWEN_IMAGE = dict(qwen_image.SMALL, num_layers=1)
QWEN_IMAGE_PLAIN = dict(prompt="a red cat", true_cfg_scale=1.0, num_inference_steps=4, controlnet_conditioning_scale=0.9)
QWEN_IMAGE_GUIDED = dict(prompt="a red cat", negative_prompt=qwen_image.PROMPT, true_cfg_scale=4.0,
                         num_inference_steps=3, control_guidance_end=0.7)


def qwen_image_controlnet(folder, seed, extra=0):
    model = QwenImageControlNetModel(**QWEN_IMAGE, extra_condition_channels=extra)
    folder.mkdir(exist_ok=True)
    model.save_config(folder)
    return seed_weights(folder, model, seed)


def qwen_image_parts():
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(qwen_image.FOLDER / "pipeline", copy, dirs_exist_ok=True)
        return qwen_image.components(pathlib.Path(copy), 57)


def qwen_image_inpaint_calls(folder, seed):
    controlnet = qwen_image_controlnet(folder / "controlnet", seed, extra=4)
    pipeline = qwen_image.quiet(QwenImageControlNetInpaintPipeline(**qwen_image_parts(), controlnet=controlnet))
    most_likely(pipeline.vae)
    return [
        run_inpainted(pipeline, "plain", 7, photo(82, 24, 40), hole(24, 40, 5, 11), QWEN_IMAGE_PLAIN),
        run_inpainted(pipeline, "guided", 8, photo(83, 40, 24), hole(40, 24, 9, 3), QWEN_IMAGE_GUIDED),
    ]


def qwen_image_calls(folder, seed):
    controlnet = qwen_image_controlnet(folder / "controlnet", seed)
    pipeline = qwen_image.quiet(QwenImageControlNetPipeline(**qwen_image_parts(), controlnet=controlnet))
    return [
        run_packed(qwen_image, pipeline, "plain", 7, photo(80, 24, 40), QWEN_IMAGE_PLAIN),
        run_packed(qwen_image, pipeline, "guided", 8, photo(81, 40, 24), QWEN_IMAGE_GUIDED),
    ]


def qwen_image_several_calls(folder, seed):
    """The ControlNet of another golden sees two pictures; then a second one sees the other."""
    with tempfile.TemporaryDirectory() as copy:
        known = qwen_image_controlnet(pathlib.Path(copy), 1050)
    second = qwen_image_controlnet(folder / "controlnet_1", seed)
    pipeline = qwen_image.quiet(
        QwenImageControlNetPipeline(**qwen_image_parts(), controlnet=QwenImageMultiControlNetModel([known])))
    pair = [photo(122, 24, 40), photo(123, 24, 40)]
    weights = dict(controlnet_conditioning_scale=[0.9, 0.5])
    windows = dict(control_guidance_start=[0.0, 0.4], control_guidance_end=[0.7, 1.0])
    joint = run_packed(qwen_image, pipeline, "joint", 7, pair, QWEN_IMAGE_PLAIN | weights)
    joint.args.update(SAME_NET)

    # The reference has a sum of several nets for FLUX.1 and Stable Diffusion 3 alone; this is theirs.
    def summed(controlnet_cond, conditioning_scale, **others):
        results = [net(controlnet_cond=cond, conditioning_scale=scale, **others)
                   for net, cond, scale in zip((known, second), controlnet_cond, conditioning_scale, strict=True)]
        return [a + b for a, b in zip(*results, strict=True)]

    pipeline.controlnet.forward = summed
    return [joint, run_packed(qwen_image, pipeline, "windows", 8, pair, QWEN_IMAGE_GUIDED | weights | windows)]


# As those of InstantX: blocks of text and image, of which no whole number goes into the transformer's.
SD3_JOINT = dict({name: value for name, value in sd3.MEDIUM.items() if name != "out_channels"}, num_layers=4,
                 dual_attention_layers=(0,), pos_embed_max_size=15)
# As those of Stability AI: blocks of the image alone behind the transformer's own embedding.
SD3_LARGE = dict(SD3_JOINT, num_layers=2, joint_attention_dim=None, qk_norm=None, dual_attention_layers=(),
                 pos_embed_max_size=None, pos_embed_type=None, use_pos_embed=False, force_zeros_for_pooled_projection=False)
# As that of Alimama.
SD3_INPAINT = dict(SD3_JOINT, num_layers=2, extra_conditioning_channels=1)
SD3_SHORT = dict(max_sequence_length=32, guidance_scale=4.5, negative_prompt="blurry, low quality")


def sd3_pipeline(pipeline, folder, options, seed):
    """With the rest of the golden of SD 3.5 Medium, but for a deeper transformer beside some."""
    parts = sd3.load(sd3.FOLDER / "pipeline").components
    parts["controlnet"] = sd3.seeded(folder / "controlnet", SD3ControlNetModel(**options), seed)
    if options is SD3_JOINT:
        parts["transformer"] = sd3.transformer(folder / "transformer", dict(sd3.MEDIUM, num_layers=5), seed + 1)
    loaded = pipeline(**{name: part for name, part in parts.items() if name in pipeline.__init__.__annotations__})
    loaded.set_progress_bar_config(disable=True)
    most_likely(loaded.vae)
    return loaded


def run_sd3(pipeline, name, prompt, seed, steps, control, mask=None, **arguments):
    height, width = control.shape[:2]
    given = {"control_image": control.permute(2, 0, 1).unsqueeze(0).float() / 127.5 - 1}
    if mask is not None:
        given["control_mask"] = mask.reshape(1, 1, height, width).float() / 255
    call = sd3.run(pipeline, name, prompt, width, height, seed, steps, **given, **arguments)
    for key in given:
        del call.args[key]
    call.inputs = {"control": control} if mask is None else {"given": control, "mask": mask}
    return call


def sd3_calls(folder, seed):
    pipeline = sd3_pipeline(StableDiffusion3ControlNetPipeline, folder, SD3_JOINT, seed)
    return [
        run_sd3(pipeline, "guided", "a red cat", 3, 3, photo(90, 24, 40), **SD3_SHORT),
        run_sd3(pipeline, "window", "a red cat", 4, 5, photo(91, 32, 24), controlnet_conditioning_scale=1.3,
                control_guidance_start=0.2, control_guidance_end=0.8, **SD3_SHORT | {"guidance_scale": 1.0}),
    ]  # fmt: skip


def sd3_large_calls(folder, seed):
    pipeline = sd3_pipeline(StableDiffusion3ControlNetPipeline, folder, SD3_LARGE, seed)
    return [run_sd3(pipeline, "guided", "a red cat", 5, 3, photo(92, 24, 40), controlnet_conditioning_scale=0.8, **SD3_SHORT)]


def sd3_inpaint_calls(folder, seed):
    pipeline = sd3_pipeline(StableDiffusion3ControlNetInpaintingPipeline, folder, SD3_INPAINT, seed)
    return [run_sd3(pipeline, "guided", "a red cat", 6, 3, photo(93, 24, 40), hole(24, 40, 5, 11), **SD3_SHORT)]


GOLDENS = {
    "sd3": ("ControlNet of text and image for SD 3.5 Medium", 1070, None, sd3_calls),
    "sd3_large": ("ControlNet of the image alone for SD 3.5", 1080, None, sd3_large_calls),
    "sd3_inpaint": ("ControlNet Inpainting for SD 3.5 Medium", 1090, None, sd3_inpaint_calls),
    "flux1": ("ControlNet Union for FLUX.1 dev, heads of 16", 1000, build_flux1, flux1_calls),
    "flux1_several": ("Two ControlNets for FLUX.1 dev", 1290, None, flux1_several_calls),
    "flux1_wide": ("ControlNet for FLUX.1 schnell, heads of 128", 1010, build_flux1_wide, flux1_wide_calls),
    "z_image": ("ControlNet Union for Z-Image", 1020, build_z_image(Z_IMAGE), z_image_calls(Z_IMAGE, Z_IMAGE_CALLS)),
    "z_image_shared": ("ControlNet Union 2.0 for Z-Image", 1030, build_z_image(Z_IMAGE_SHARED),
                       z_image_calls(Z_IMAGE_SHARED, [Z_IMAGE_CALLS[1], Z_IMAGE_MASKED_CALL])),
    "z_image_refined": ("ControlNet Union 2.1 for Z-Image", 1040, build_z_image(Z_IMAGE_REFINED),
                        z_image_calls(Z_IMAGE_REFINED, Z_IMAGE_CALLS[2:])),
    "qwen_image": ("ControlNet Union for Qwen-Image", 1050, None, qwen_image_calls),
    "qwen_image_several": ("Two ControlNets for Qwen-Image", 1300, None, qwen_image_several_calls),
    "qwen_image_inpaint": ("ControlNet Inpainting for Qwen-Image", 1060, None, qwen_image_inpaint_calls),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
