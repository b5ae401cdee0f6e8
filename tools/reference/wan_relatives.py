"""Makes the goldens of models that are Wan but for little: SkyReels V2 and ChronoEdit, under tests/goldens/wan.

    python3 tools/reference/wan_relatives.py                 # make all
    python3 tools/reference/wan_relatives.py NAME ...        # make some
    python3 tools/reference/wan_relatives.py --check [NAME]  # read the stored ones back and run them again

Each has a transformer of its own; all else is that of `pipeline-i2v`.
"""

import json

import torch
from diffusers import (
    ChronoEditPipeline,
    ChronoEditTransformer3DModel,
    SkyReelsV2DiffusionForcingImageToVideoPipeline,
    SkyReelsV2DiffusionForcingPipeline,
    SkyReelsV2ImageToVideoPipeline,
    SkyReelsV2Pipeline,
    SkyReelsV2Transformer3DModel,
    UniPCMultistepScheduler,
)

from common import GOLDENS, exact, generator, make_goldens, normal, randomise, rescale
from seeded import keep_seed
from wan_pipelines import load, picture, run

SIZES = dict(num_attention_heads=2, attention_head_dim=32, out_channels=16, text_dim=64, ffn_dim=160, num_layers=2,
             rope_max_seq_len=64)
SEEING = dict(SIZES, in_channels=36, image_dim=160, added_kv_proj_dim=64)


def transformer(folder, seed, kind, config):
    """A transformer whose velocities have unit size, in float16."""
    model = randomise(kind(**config), seed)
    rng = generator(seed + 1)
    others = {"encoder_hidden_states_image": normal(rng, 1, 5, 160)} if "image_dim" in config else {}
    with exact():
        others |= {"fps": [1]} if config.get("inject_sample_info") else {}
        sample = model(normal(rng, 1, config["in_channels"], 3, 8, 8), torch.tensor([500.0]), normal(rng, 1, 512, 64),
                       **others).sample  # fmt: skip
    rescale(model.proj_out, 1.0 / sample.std().item())
    model.half().save_pretrained(folder / "transformer")
    keep_seed(folder / "transformer", model, seed)
    return model.float().eval()


def pipeline(folder, seed, kind, model, config):
    """The pipeline, its index and its transformer written."""
    base = load(GOLDENS / "pipeline-i2v")
    index = json.loads((GOLDENS / "pipeline-i2v" / "model_index.json").read_text())
    others = ("boundary_ratio", "expand_timesteps", "transformer_2")
    index = {"_class_name": kind.__name__, **{key: value for key, value in index.items() if key not in ("_class_name", *others)}}
    index["transformer"] = ["diffusers", model.__name__]
    parts = {name: getattr(base, name) for name in ("text_encoder", "tokenizer", "vae", "scheduler")}
    seeing = {name: getattr(base, name) for name in ("image_encoder", "image_processor")}
    if "image_dim" not in config:
        index = {key: value for key, value in index.items() if key not in seeing}
        seeing = {}
    elif kind is SkyReelsV2ImageToVideoPipeline:
        # As its folders say; only the tower is read.
        index["image_encoder"] = ["transformers", "CLIPVisionModelWithProjection"]
    pipe = kind(transformer=transformer(folder, seed, model, config), **parts, **seeing)
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    pipe.set_progress_bar_config(disable=True)
    return pipe


def text_calls(folder, seed):
    pipe = pipeline(folder, seed, SkyReelsV2Pipeline, SkyReelsV2Transformer3DModel, dict(SIZES, in_channels=16))
    return [run(pipe, "text", "a red circle on the left", 48, 32, 5, 4, 6.0, negative="dark")]


def image_calls(folder, seed):
    pipe = pipeline(folder, seed, SkyReelsV2ImageToVideoPipeline, SkyReelsV2Transformer3DModel, SEEING)
    return [run(pipe, "first", "a cat grows", 48, 32, 9, 4, 5.0, negative="dark", pictures={"image": picture(60, 40, 56)})]


class Unshared(UniPCMultistepScheduler):
    """Keeps the last sample itself. Those pipelines give a part of the latents, and write the next sample over it, so that the
    first correction starts from the wrong one."""

    def step(self, model_output, timestep, sample, **others):
        return super().step(model_output, timestep, sample.clone(), **others)


def forced_calls(folder, seed):
    """Diffusion forcing with all frames at the same timestep but the first one, where it is given."""
    config = dict(SIZES, in_channels=16, inject_sample_info=True)
    pipe = pipeline(folder, seed, SkyReelsV2DiffusionForcingPipeline, SkyReelsV2Transformer3DModel, config)
    pipe.scheduler = Unshared.from_config(pipe.scheduler.config)
    text = run(pipe, "text", "a red circle on the left", 48, 32, 5, 4, 6.0, negative="dark")
    slow = run(pipe, "slow", "a red circle on the left", 48, 32, 5, 2, 1.0, fps=16)
    pipe = SkyReelsV2DiffusionForcingImageToVideoPipeline(**pipe.components)
    pipe.set_progress_bar_config(disable=True)
    first = run(pipe, "first", "a cat grows", 48, 32, 9, 4, 5.0, negative="dark", pictures={"image": picture(62, 40, 56)})
    return [text, slow, first]


def edit_calls(folder, seed):
    pipe = pipeline(folder, seed, ChronoEditPipeline, ChronoEditTransformer3DModel, SEEING)
    call = run(pipe, "edit", "a cat with a hat", 48, 32, 5, 4, 5.0, negative="dark", pictures={"image": picture(61, 40, 56)})
    # The edit is the last frame.
    call.outputs["frames"] = call.outputs["frames"][-1:].clone()
    return [call]


TABLE = {
    "skyreels-t2v": ("SkyReels V2 from text", 900, None, text_calls),
    "skyreels-i2v": ("SkyReels V2 from an image", 905, None, image_calls),
    "skyreels-df": ("SkyReels V2 for diffusion forcing, from text and from an image", 920, None, forced_calls),
    "chronoedit": ("ChronoEdit, whose edit is the last frame of a short video", 910, None, edit_calls),
}

if __name__ == "__main__":
    make_goldens(GOLDENS, TABLE)
