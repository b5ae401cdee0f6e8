"""Makes the goldens of ControlNets under tests/goldens/controlnets.

    python3 tools/reference/controlnets.py                 # make all
    python3 tools/reference/controlnets.py NAME ...        # make some
    python3 tools/reference/controlnets.py --check [NAME]  # read the stored ones back and run them again

Each has a `controlnet` folder, and maybe a transformer of its own; the rest is that of the family's golden.
"""

import torch
from diffusers import (
    FluxControlNetImg2ImgPipeline,
    FluxControlNetInpaintPipeline,
    FluxControlNetModel,
    FluxControlNetPipeline,
)

import common
import flux1
from common import Call, generator, make_goldens, randomise
from flux1 import photo
from seeded import keep_seed, with_weights

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


def load_flux1(pipeline, folder, others):
    """A pipeline with the parts of `folder`, and the rest of FLUX.1's golden `others`."""
    own = with_weights(folder)
    base = flux1.load(flux1.FluxPipeline, others)
    parts = dict(base.components, controlnet=FluxControlNetModel.from_pretrained(own / "controlnet"))
    if (own / "transformer").exists():
        parts["transformer"] = flux1.FluxTransformer2DModel.from_pretrained(own / "transformer")
    parts = {name: part.float() if isinstance(part, torch.nn.Module) else part for name, part in parts.items()}
    kept = {name: parts[name] for name in pipeline.__init__.__annotations__ if name in parts}
    loaded = pipeline(**kept)
    loaded.set_progress_bar_config(disable=True)
    return loaded


def run_flux1(pipeline, name, prompt, width, height, seed, steps, control, **arguments):
    """With a control picture, uint8 [height, width, 3]."""
    # As `preprocess` would give it: tensors are taken as they are.
    hint = control.permute(2, 0, 1).unsqueeze(0).float() / 127.5 - 1
    call = flux1.run(pipeline, name, prompt, width, height, seed, steps, control_image=hint, **arguments)
    del call.args["control_image"]
    return Call(call.name, call.description, call.args, {**call.inputs, "control": control}, call.outputs)


def flux1_calls(folder, _seed):
    text, image, inpaint = (
        load_flux1(each, folder, flux1.FOLDER / "dev")
        for each in (FluxControlNetPipeline, FluxControlNetImg2ImgPipeline, FluxControlNetInpaintPipeline)
    )
    small = dict(max_sequence_length=32, guidance_scale=3.5)
    mask = torch.zeros(24, 24, dtype=torch.uint8)
    mask[6:16, 4:20] = 255
    return [
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


def flux1_wide_calls(folder, _seed):
    text = load_flux1(FluxControlNetPipeline, folder, flux1.FOLDER / "schnell")
    return [
        run_flux1(text, "text", flux1.PROMPT, 32, 24, 10, 2, photo(67, 24, 32), guidance_scale=3.0,
                  controlnet_conditioning_scale=0.9, max_sequence_length=64),
    ]  # fmt: skip


GOLDENS = {
    "flux1": ("ControlNet Union for FLUX.1 dev, heads of 16", 1000, build_flux1, flux1_calls),
    "flux1_wide": ("ControlNet for FLUX.1 schnell, heads of 128", 1010, build_flux1_wide, flux1_wide_calls),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
