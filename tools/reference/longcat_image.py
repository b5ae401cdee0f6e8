"""Makes the goldens of LongCat-Image under tests/goldens/longcat_image.

    python3 tools/reference/longcat_image.py                 # make all
    python3 tools/reference/longcat_image.py NAME ...        # make some
    python3 tools/reference/longcat_image.py --check [NAME]  # read the stored ones back and run them again

`pipeline` is a folder as it is published, but for the weights, which are drawn from the seeds in the seeded.json of each
component. diffusers has no pipeline of it for a start from an image and for masks: `picture` and `masked` begin and go on as
its pipelines of FLUX.1 do. `quotes.json` has prompts, and the parts that the reference cuts them into.
"""

import json
import sys

import torch
from diffusers import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    LongCatImageEditPipeline,
    LongCatImagePipeline,
    LongCatImageTransformer2DModel,
)
from diffusers.pipelines.longcat_image import pipeline_longcat_image_edit
from diffusers.pipelines.longcat_image.pipeline_longcat_image import prepare_pos_ids, split_quotation
from PIL import Image
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2Tokenizer
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

import byte_pair
import common
from adapter_pairs import save_adapters
from common import Call, generator, make_goldens, normal
from flux_images import SCHEDULER, VAE, given_call, image_call
import qwen_image
from qwen_image import TEXT, VISION, picture, quiet
from seeded import seed_weights
from unigram import write_json

FOLDER = common.GOLDENS.parent / "longcat_image"

# Widths that fill no vector of four but in the heads.
TINY = dict(in_channels=12, num_layers=2, num_single_layers=1, attention_head_dim=12, num_attention_heads=3,
            joint_attention_dim=18, pooled_projection_dim=18, axes_dims_rope=(4, 4, 4))
# Heads of 128, every width a multiple of 256.
SMALL = dict(in_channels=64, num_layers=1, num_single_layers=1, attention_head_dim=128, num_attention_heads=2,
             joint_attention_dim=256, pooled_projection_dim=256)
# With one word that has an apostrophe at most: of several the reference loses all but one.
TEXTS = [
    "a cat", "", "a sign that says 'hello'", "don't write 'fine' here", "'it's fine'", 'a "b" c \u201cd\u201d e \u2018f\u2019', "'", '"', "''", "'a' 'b'",
    "rock'n'roll", "it's 'x' it's", "\u201ca\u201cb\u201d", "\u2018open", "a'b'c", "'a\nb'", "\u4e00'\u4e8c'\u4e09", "\U0001f600 '\U0001f600a'", "x'y \"z\" v",
]


def transformer(folder, seed, config):
    model = LongCatImageTransformer2DModel(**config)
    model.save_config(folder)
    return seed_weights(folder, model, seed)


def forward_call(model, name, seed, rows, columns, tokens, timestep):
    rng = generator(seed)
    config = model.config
    latents = normal(rng, 1, rows * columns, config.in_channels)
    states = normal(rng, 1, tokens, config.joint_attention_dim)
    text = prepare_pos_ids(num_token=tokens)
    image = prepare_pos_ids(modality_id=1, type="image", start=(tokens, tokens), height=rows, width=columns)
    output = model(latents, states, torch.tensor([timestep / 1000]), image, text, return_dict=False)[0]
    args = {"timestep": timestep, "rows": rows, "columns": columns}
    return Call(name, "the transformer's output", args, {"latents": latents, "states": states}, {"output": output})


def tiny_calls(folder, seed):
    model = transformer(folder, seed, TINY)
    return [forward_call(model, "odd", seed + 1, 5, 3, 7, 1000.0), forward_call(model, "wide", seed + 2, 2, 6, 5, 437.5)]


def components(folder, seed):
    """The parts of the pipeline, their configurations and rules written."""
    for name in ("transformer", "text_encoder", "vae", "scheduler", "tokenizer"):
        (folder / name).mkdir(exist_ok=True, parents=True)
    config = Qwen2_5_VLConfig(text_config=TEXT, vision_config=VISION, attn_implementation="eager")
    text = Qwen2_5_VLForConditionalGeneration(config)
    # Nothing looks through it here, and nothing is said.
    del text.model.visual, text.lm_head
    text.config.save_pretrained(folder / "text_encoder")
    vae = AutoencoderKL(**VAE)
    vae.save_config(folder / "vae")
    scheduler = FlowMatchEulerDiscreteScheduler(**SCHEDULER)
    scheduler.save_config(folder / "scheduler")
    if not (folder / "tokenizer" / "tokenizer.json").exists():
        byte_pair.build(folder / "tokenizer")
        for name in ("vocab.json", "merges.txt"):
            (folder / "tokenizer" / name).unlink()
    index = {
        "_class_name": "LongCatImagePipeline",
        "_diffusers_version": "0.42.1",
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "Qwen2_5_VLForConditionalGeneration"],
        "text_processor": ["transformers", "Qwen2VLProcessor"],
        "tokenizer": ["transformers", "Qwen2Tokenizer"],
        "transformer": ["diffusers", "LongCatImageTransformer2DModel"],
        "vae": ["diffusers", "AutoencoderKL"],
    }
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    return {
        "text_encoder": language_model(seed_weights(folder / "text_encoder", text, seed)),
        "text_processor": None,
        "transformer": transformer(folder / "transformer", seed + 1, SMALL),
        "vae": seed_weights(folder / "vae", vae, seed + 2),
        "scheduler": scheduler,
        "tokenizer": Qwen2Tokenizer.from_pretrained(folder / "tokenizer"),
    }


def language_model(text):
    """The states alone: what comes behind them is not there."""
    language = text.model.language_model
    text.forward = lambda input_ids, attention_mask, output_hidden_states: language(
        input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=True)
    return text


# Modules under the original names, and what they are in diffusers.
ADAPTED = {
    "double_blocks.0.img_attn.qkv": [f"transformer_blocks.0.attn.to_{part}" for part in "qkv"],
    "double_blocks.0.txt_attn.qkv": [f"transformer_blocks.0.attn.add_{part}_proj" for part in "qkv"],
    "double_blocks.0.img_mlp.0": ["transformer_blocks.0.ff.net.0.proj"],
    "double_blocks.0.txt_attn.proj": ["transformer_blocks.0.attn.to_add_out"],
    "single_blocks.0.linear1": [*(f"single_transformer_blocks.0.attn.to_{part}" for part in "qkv"),
                                "single_transformer_blocks.0.proj_mlp"],
    "single_blocks.0.linear2": ["single_transformer_blocks.0.proj_out"],
}

PROMPT = "a bright red Cat's sign says 'Wow, 一只猫' at the ancient mountain, cinematic light at 3:45 in the morning"


def pipeline_calls(folder, seed):
    pipeline = quiet(LongCatImagePipeline(**components(folder, seed)))
    size = dict(height=40, width=56)
    small = dict(height=24, width=40)
    rng = generator(seed + 9)
    mask = torch.zeros(40, 56, dtype=torch.uint8)
    mask[8:28, 20:48] = 255

    def called(maker):
        return lambda *given, **arguments: maker(*given, enable_prompt_rewrite=False, **arguments)

    image, start = called(image_call), called(given_call)
    guided = dict(prompt="a red cat", negative_prompt=PROMPT, guidance_scale=4.0, **size)
    alone = dict(prompt=PROMPT, guidance_scale=1.0, **size)
    calls = [
        image(pipeline, "text", 7, num_inference_steps=4, **alone),
        image(pipeline, "guided", 8, num_inference_steps=3, **guided),
        image(pipeline, "plain", 9, prompt="a Red CAT", guidance_scale=2.0, num_inference_steps=2, enable_cfg_renorm=False, **small),
        image(pipeline, "long", 10, prompt=PROMPT * 12, guidance_scale=1.0, num_inference_steps=1, **small),
        start(pipeline, "picture", 11, picture(rng, 40, 56), 0.6, 5, **guided),
        start(pipeline, "masked", 13, picture(rng, 40, 56), 0.7, 4, mask, **alone),
    ]
    pipeline.transformer.load_lora_adapter(folder / "adapter.safetensors", adapter_name="one", prefix="transformer")
    pipeline.transformer.set_adapters("one", 0.7)
    adapted = image(pipeline, "adapted", 12, prompt="a red cat", guidance_scale=1.0, num_inference_steps=2,
                    args={"strength": 0.7}, **small)
    pipeline.transformer.unload_lora()
    return [*calls, adapted]


def build_pipeline(folder, seed):
    components(folder, seed)
    save_adapters(folder, LongCatImageTransformer2DModel(**SMALL), seed + 20, ADAPTED)


# Pixels of the copies of pictures that edits see, in place of 1024 x 1024.
EDIT_AREA = 96 * 96


class Processor:
    """What the pipeline takes of Qwen2VLProcessor; that one needs torchvision for videos."""

    def __init__(self):
        self.image_processor = Qwen2VLImageProcessorPil()


def edit_components(folder, seed):
    """The pipeline's, with a text encoder that sees."""
    parts = components(folder, seed)
    (folder / "text_encoder" / "seeded.json").unlink()
    (folder / "tokenizer" / "tokenizer.json").unlink()
    index = json.loads((folder / "model_index.json").read_text())
    index |= {"_class_name": "LongCatImageEditPipeline", "vae_image_size": EDIT_AREA}
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    tokenizer = qwen_image.tokenizer(folder / "tokenizer")
    text = qwen_image.text_encoder(folder / "text_encoder", seed)
    placeholder = tokenizer.convert_tokens_to_ids("<|image_pad|>")
    forward = text.forward

    # Positions in three dimensions, which diffusers leaves out with transformers 5, and the models were trained with.
    def with_positions(input_ids, image_grid_thw, **arguments):
        positions, _ = text.model.get_rope_index(input_ids, mm_token_type_ids=(input_ids == placeholder).int(),
                                                 image_grid_thw=image_grid_thw)
        return forward(input_ids, image_grid_thw=image_grid_thw, position_ids=positions, **arguments)

    text.forward = with_positions
    return {**parts, "text_encoder": text, "tokenizer": tokenizer, "text_processor": Processor()}


def edit_calls(folder, seed):
    dimensions = pipeline_longcat_image_edit.calculate_dimensions
    pipeline_longcat_image_edit.calculate_dimensions = lambda _area, ratio: dimensions(EDIT_AREA, ratio)
    pipeline = quiet(LongCatImageEditPipeline(**edit_components(folder, seed)))
    rng = generator(seed + 9)

    def edit(name, seed, image, **arguments):
        width, height = pipeline_longcat_image_edit.calculate_dimensions(0, image.shape[1] / image.shape[0])
        unpack = pipeline._unpack_latents
        seen = {}

        def keep(latents, *sizes):
            seen["latents"] = unpack(latents, *sizes)
            return seen["latents"]

        pipeline._unpack_latents = keep
        pixels = pipeline(image=Image.fromarray(image.numpy()), generator=generator(seed), output_type="pt", **arguments).images
        pipeline._unpack_latents = unpack
        outputs = {"latents": seen["latents"], "image": pixels[0].permute(1, 2, 0)}
        args = {"seed": seed, **arguments, "width": width, "height": height}
        return Call(name, "an edit", args, {"given0": image}, outputs)

    return [
        edit("edit", 21, picture(rng, 90, 131), prompt="write 'Ab' on it", guidance_scale=1.0, num_inference_steps=2),
        edit("guided", 22, picture(rng, 120, 61), prompt="make it red", negative_prompt="a cat", guidance_scale=3.0,
             num_inference_steps=2),
    ]


GOLDENS = {
    "edit": ("LongCat-Image-Edit, pipeline", 717, edit_components, edit_calls),
    "tiny": ("LongCat-Image, tiny", 701, lambda folder, seed: transformer(folder, seed, TINY), tiny_calls),
    "pipeline": ("LongCat-Image, pipeline", 707, build_pipeline, pipeline_calls),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
    if "--check" not in sys.argv:
        write_json(FOLDER / "quotes.json", [[text, split_quotation(text)] for text in TEXTS])
