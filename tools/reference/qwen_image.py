"""Makes the goldens of Qwen-Image under tests/goldens/qwen_image.

    python3 tools/reference/qwen_image.py                 # make all
    python3 tools/reference/qwen_image.py NAME ...        # make some
    python3 tools/reference/qwen_image.py --check [NAME]  # read the stored ones back and run them again

`pipeline` is a folder as it is published, but for the weights, which are drawn from the seeds in the seeded.json of each
component. `layered` has the transformer and the autoencoder of Qwen-Image-Layered; the rest is that of `pipeline`.
`masked` has calls of the parts of `pipeline` alone.
"""

import json
import math
import pathlib
import tempfile

import torch
from diffusers import (
    AutoencoderKLQwenImage,
    FlowMatchEulerDiscreteScheduler,
    QwenImageEditInpaintPipeline,
    QwenImageImg2ImgPipeline,
    QwenImageInpaintPipeline,
    QwenImagePipeline,
    QwenImageTransformer2DModel,
)
from diffusers.pipelines.qwenimage import (
    pipeline_qwenimage_edit,
    pipeline_qwenimage_edit_inpaint,
    pipeline_qwenimage_edit_plus,
    pipeline_qwenimage_layered,
)
from PIL import Image
from transformers import BatchFeature, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2Tokenizer
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

import byte_pair
import common
from adapter_pairs import save_adapter
from common import Call, generator, make_goldens, normal
from seeded import rules_of, seed_weights, write_rules

FOLDER = common.GOLDENS.parent / "qwen_image"

# Widths that fill no vector of four but in the heads.
TINY = dict(patch_size=2, in_channels=16, out_channels=4, num_layers=2, attention_head_dim=12, num_attention_heads=3,
            joint_attention_dim=18, axes_dims_rope=(4, 4, 4))
# Heads of 128, every width a multiple of 256.
SMALL = dict(patch_size=2, in_channels=64, out_channels=16, num_layers=2, attention_head_dim=128, num_attention_heads=2,
             joint_attention_dim=256, axes_dims_rope=(16, 56, 56))
TEXT = dict(vocab_size=912, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=4096, rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]})
VISION = dict(depth=3, hidden_size=40, intermediate_size=52, num_heads=2, out_hidden_size=256, fullatt_block_indexes=[1])
VAE = dict(base_dim=16, z_dim=16, dim_mult=[1, 2, 2], num_res_blocks=1, temperal_downsample=[False, True])
SCHEDULER = dict(num_train_timesteps=1000, shift=1.0, use_dynamic_shifting=True, base_shift=0.5, max_shift=0.9,
                 base_image_seq_len=256, max_image_seq_len=8192, shift_terminal=0.02, time_shift_type="exponential")
# What the Lightning LoRAs are run with.
LIGHTNING = dict(SCHEDULER, base_shift=math.log(3), max_shift=math.log(3), max_image_seq_len=8192, shift_terminal=None)


def forward_call(model, name, seed, grids, text_tokens, timestep):
    """Packed latents of images whose tokens lie in `grids`, the result's first; a prompt of `text_tokens`."""
    rng = generator(seed)
    config = model.config
    tokens = sum(rows * columns for rows, columns in grids)
    latents = normal(rng, 1, tokens, config.in_channels)
    states = normal(rng, 1, text_tokens, config.joint_attention_dim)
    shapes = [[(1, rows, columns) for rows, columns in grids]]
    output = model(hidden_states=latents, encoder_hidden_states=states, timestep=torch.tensor([timestep]) / 1000,
                   img_shapes=shapes, return_dict=False)[0]
    own = grids[0][0] * grids[0][1]
    args = {"timestep": timestep, "grids": [list(grid) for grid in grids]}
    return Call(name, "the transformer's output for the first image", args, {"latents": latents, "states": states},
                {"output": output[:, :own]})


def transformer(folder, seed, **config):
    model = QwenImageTransformer2DModel(**config)
    model.save_config(folder)
    return seed_weights(folder, model, seed)


def tiny_calls(folder, seed):
    model = transformer(folder, seed, **TINY)
    return [
        forward_call(model, "odd", seed + 1, [(5, 3)], 7, 1000.0),
        forward_call(model, "references", seed + 2, [(2, 4), (3, 3), (1, 6)], 5, 437.5),
    ]


def zero_calls(folder, seed):
    model = transformer(folder, seed, zero_cond_t=True, **TINY)
    return [forward_call(model, "references", seed + 2, [(2, 4), (3, 3), (1, 6)], 5, 437.5)]


@torch.no_grad()
def text_encoder(folder, seed):
    """The language model with its vision tower, under the names of the published files."""
    config = Qwen2_5_VLConfig(text_config=TEXT, vision_config=VISION, image_token_id=908, video_token_id=909,
                              vision_start_token_id=903, vision_end_token_id=907, attn_implementation="eager")
    config._attn_implementation = "eager"
    model = Qwen2_5_VLForConditionalGeneration(config)
    model.config.save_pretrained(folder)
    own = dict(model.named_parameters())
    rules = list(rules_of(model))
    rng = generator(seed)
    for name, shape, mean, std in rules:
        own[name].copy_((torch.randn(shape, generator=rng) * std + mean).bfloat16().float())
    published = [(name.replace("model.visual.", "visual.").replace("model.language_model.", "model."), *rest)
                 for name, *rest in rules]
    write_rules(folder, seed, torch.bfloat16, published)
    return model.eval()


def vae_overrides(vae):
    return {name: (1.0, 0.3) for name, _ in vae.named_parameters() if name.endswith("gamma")}


def tokenizer(folder):
    """With the tokens of pictures after those of the other families' tokenizers."""
    if not (folder / "tokenizer.json").exists():
        special = byte_pair.SPECIAL
        byte_pair.PLAIN, plain = [], byte_pair.PLAIN
        byte_pair.SPECIAL = [*special, *plain[:3], "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
        byte_pair.build(folder)
        byte_pair.SPECIAL, byte_pair.PLAIN = special, plain
        for name in ("vocab.json", "merges.txt"):
            (folder / name).unlink()
    return Qwen2Tokenizer.from_pretrained(folder)


def components(folder, seed):
    """The parts of the pipeline, their configurations and rules written."""
    for name in ("transformer", "text_encoder", "vae", "scheduler", "tokenizer"):
        (folder / name).mkdir(exist_ok=True, parents=True)
    vae = AutoencoderKLQwenImage(**VAE)
    vae.save_config(folder / "vae")
    scheduler = FlowMatchEulerDiscreteScheduler(**SCHEDULER)
    scheduler.save_config(folder / "scheduler")
    index = {
        "_class_name": "QwenImagePipeline",
        "_diffusers_version": "0.34.0.dev0",
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "Qwen2_5_VLForConditionalGeneration"],
        "tokenizer": ["transformers", "Qwen2Tokenizer"],
        "transformer": ["diffusers", "QwenImageTransformer2DModel"],
        "vae": ["diffusers", "AutoencoderKLQwenImage"],
    }
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    return {
        "text_encoder": text_encoder(folder / "text_encoder", seed),
        "transformer": transformer(folder / "transformer", seed + 1, **SMALL),
        "vae": seed_weights(folder / "vae", vae, seed + 2, overrides=vae_overrides(vae)),
        "scheduler": scheduler,
        "tokenizer": tokenizer(folder / "tokenizer"),
    }


ADAPTED = [
    "transformer_blocks.0.attn.to_q",
    "transformer_blocks.0.attn.add_v_proj",
    "transformer_blocks.0.img_mod.1",
    "transformer_blocks.1.attn.to_out.0",
    "transformer_blocks.1.txt_mlp.net.0.proj",
    "transformer_blocks.1.img_mlp.net.2",
]

PROMPT = "a bright red cat sleeps under the ancient mountain, 一只红色的猫, cinematic light in the morning"


def picture(rng, height, width):
    """A smooth picture, uint8 [height, width, 3]."""
    coarse = normal(rng, 1, 3, 6, 7)
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear")[0]
    return ((0.5 + 0.25 * smooth).clamp(0, 1) * 255).round().byte().permute(1, 2, 0)


def picture_call(pipeline, name, seed, **arguments):
    """Final latents, packed, and the picture in [0, 1]."""
    seen = {}

    def keep(_pipeline, step, _timestep, state):
        seen["latents"] = state["latents"]
        return state

    inputs = {}
    call = dict(arguments)
    if "mask" in arguments:
        inputs["mask"] = arguments.pop("mask")
        call["mask_image"] = call.pop("mask").reshape(1, 1, *inputs["mask"].shape).float() / 255
    if "image" in arguments:
        inputs["given"] = arguments["image"]
        call["image"] = arguments["image"].permute(2, 0, 1).unsqueeze(0).float() / 255
        del arguments["image"]
    image = pipeline(generator=generator(seed), output_type="pt", callback_on_step_end=keep, **call).images
    args = {"seed": seed, **arguments}
    return Call(name, "a picture", args, inputs, {"latents": seen["latents"], "image": image[0].permute(1, 2, 0)})


def quiet(pipeline):
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


# Pixels of the copies of pictures that edits see, in place of 1024 x 1024 and 384 x 384.
LATENT_AREA, VISION_AREA = 96 * 96, 160 * 160


class Processor:
    """What Qwen2_5_VLProcessor does with pictures; that one needs torchvision for videos."""

    def __init__(self, tokenizer):
        self.tokenizer, self.images = tokenizer, Qwen2VLImageProcessorPil()

    def __call__(self, text, images, **_arguments):
        seen = self.images(images=images, return_tensors="pt")
        counts = iter((seen["image_grid_thw"].prod(dim=1) // 4).tolist())
        first, *parts = text[0].split("<|image_pad|>")
        whole = first + "".join("<|image_pad|>" * next(counts) + part for part in parts)
        return BatchFeature({**self.tokenizer([whole], return_tensors="pt"), **seen})


def seeing(text_encoder, placeholder):
    """Positions in three dimensions, which diffusers leaves out with transformers 5, and the models were trained with."""
    forward = text_encoder.forward

    def with_types(input_ids, **arguments):
        return forward(input_ids, mm_token_type_ids=(input_ids == placeholder).int(), **arguments)

    text_encoder.forward = with_types
    return forward


def edit_call(pipeline, name, seed, images, mask=None, **arguments):
    """An edit of pictures, each uint8 [height, width, 3]; white in the mask is painted."""
    pictures = [Image.fromarray(image.numpy()) for image in images]
    seen = {}

    def keep(_pipeline, step, _timestep, state):
        seen["latents"] = state["latents"]
        return state

    given = pictures if name == "plus" else pictures[0]
    inputs = {f"given{i}": image for i, image in enumerate(images)}
    call = dict(arguments)
    if mask is not None:
        inputs["mask"] = mask
        call["mask_image"] = Image.fromarray(mask.numpy())
    result = pipeline(image=given, generator=generator(seed), output_type="pt", callback_on_step_end=keep, **call).images
    outputs = {"latents": seen["latents"], "image": result[0].permute(1, 2, 0)}
    return Call(name, "an edit", {"seed": seed, **arguments}, inputs, outputs)


def edit_calls(parts, seed):
    dimensions = pipeline_qwenimage_edit.calculate_dimensions
    pipeline_qwenimage_edit.calculate_dimensions = lambda _area, ratio: dimensions(LATENT_AREA, ratio)
    pipeline_qwenimage_edit_plus.VAE_IMAGE_SIZE = LATENT_AREA
    pipeline_qwenimage_edit_plus.CONDITION_IMAGE_SIZE = VISION_AREA
    processor = Processor(parts["tokenizer"])
    forward = seeing(parts["text_encoder"], parts["tokenizer"].convert_tokens_to_ids("<|image_pad|>"))
    rng = generator(seed)
    images = [picture(rng, 70, 100), picture(rng, 120, 61)]
    size = dict(height=32, width=48)
    plus = quiet(pipeline_qwenimage_edit_plus.QwenImageEditPlusPipeline(**parts, processor=None))
    one = quiet(pipeline_qwenimage_edit.QwenImageEditPipeline(**parts, processor=None))
    plus.processor = one.processor = processor
    calls = [
        edit_call(plus, "plus", 21, images, prompt="make it red", negative_prompt=" ", true_cfg_scale=3.0,
                  num_inference_steps=2, **size),
        edit_call(one, "edit", 22, images[:1], prompt="a cat", true_cfg_scale=1.0, num_inference_steps=2, **size),
    ]
    parts["text_encoder"].forward = forward
    return calls


def pipeline_calls(folder, seed):
    parts = components(folder, seed)
    pipeline = quiet(QwenImagePipeline(**parts))
    other = quiet(QwenImageImg2ImgPipeline(**parts))
    fast = quiet(QwenImagePipeline(**{**parts, "scheduler": FlowMatchEulerDiscreteScheduler(**LIGHTNING)}))
    size = dict(height=40, width=56)
    small = dict(height=24, width=40)
    plain = dict(prompt=PROMPT, true_cfg_scale=1.0, **size)
    guided = dict(prompt="a red cat", negative_prompt=PROMPT, num_inference_steps=3, true_cfg_scale=4.0, **size)
    image = picture(generator(seed + 9), 40, 56)
    calls = [
        picture_call(pipeline, "text", 7, num_inference_steps=4, **plain),
        picture_call(pipeline, "guided", 8, **guided),
        picture_call(pipeline, "cut", 2, prompt=PROMPT * 4, true_cfg_scale=1.0, num_inference_steps=2, height=16,
                     width=32, max_sequence_length=90),
        picture_call(other, "picture", 11, image=image, strength=0.6, num_inference_steps=4, **plain),
        picture_call(fast, "lightning", 13, num_inference_steps=4, **plain | small),
    ]
    pipeline.load_lora_weights(folder / "adapter.safetensors", adapter_name="one")
    pipeline.set_adapters("one", 0.7)
    adapted = picture_call(pipeline, "adapted", 12, num_inference_steps=2, **plain | small)
    adapted.args["strength"] = 0.7
    pipeline.unload_lora_weights()
    return [*calls, adapted, *edit_calls(parts, seed + 30)]


# The size of a masked edit, which is that of the copies of pictures.
MASKED_SIZE = dict(width=64, height=32)


def masked_calls(_folder, seed):
    with tempfile.TemporaryDirectory() as folder:
        parts = components(pathlib.Path(folder), GOLDENS["pipeline"][1])
    rng = generator(seed)
    # Along the edges of latents, which the reference rounds it to.
    mask = torch.zeros(40, 56, dtype=torch.uint8)
    mask[8:28, 20:48] = 255
    small = torch.zeros(32, 64, dtype=torch.uint8)
    small[8:24, 16:48] = 255
    inpaint = quiet(QwenImageInpaintPipeline(**parts))
    edit = quiet(QwenImageEditInpaintPipeline(**parts, processor=None))
    edit.processor = Processor(parts["tokenizer"])
    pipeline_qwenimage_edit_inpaint.calculate_dimensions = lambda _area, _ratio: (*MASKED_SIZE.values(), None)
    seeing(parts["text_encoder"], parts["tokenizer"].convert_tokens_to_ids("<|image_pad|>"))
    guided = dict(prompt="a red cat", negative_prompt=" ", true_cfg_scale=4.0, num_inference_steps=3)
    masked_edit = edit_call(edit, "edit", 42, [picture(rng, 32, 64)], small, strength=0.9, **guided)
    masked_edit.args |= MASKED_SIZE
    return [
        masked_edit,
        picture_call(inpaint, "image", 41, image=picture(rng, 40, 56), mask=mask, strength=0.7, height=40, width=56, **guided),
    ]


LAYERED = dict(SMALL, use_additional_t_cond=True, use_layer3d_rope=True)
LAYERED_SIZE = dict(width=40, height=24)


def layered_parts(folder, seed):
    """The parts that are not as in `pipeline`, their configurations and rules written."""
    for name in ("transformer", "vae"):
        (folder / name).mkdir(exist_ok=True, parents=True)
    vae = AutoencoderKLQwenImage(**VAE, input_channels=4)
    vae.save_config(folder / "vae")
    return {
        "transformer": transformer(folder / "transformer", seed + 1, **LAYERED),
        "vae": seed_weights(folder / "vae", vae, seed + 2, overrides=vae_overrides(vae)),
    }


def layered_call(pipeline, name, seed, image, **arguments):
    """The layers of a picture, uint8 [height, width, 4]: final latents, packed, and RGBA in [0, 1]."""
    seen = {}

    def keep(_pipeline, step, _timestep, state):
        seen["latents"] = state["latents"]
        return state

    given = Image.fromarray(image.numpy())
    assert given.mode == "RGBA"
    result = pipeline(image=given, generator=generator(seed), output_type="pt", callback_on_step_end=keep, **arguments).images
    outputs = {"latents": seen["latents"], "layers": result[0].permute(0, 2, 3, 1)}
    return Call(name, "layers", {"seed": seed, **arguments, **LAYERED_SIZE}, {"given": image}, outputs)


def layered_calls(folder, seed):
    whole = FOLDER / "pipeline"
    tokens = Qwen2Tokenizer.from_pretrained(whole / "tokenizer")
    parts = layered_parts(folder, seed)
    with tempfile.TemporaryDirectory() as text:
        parts["text_encoder"] = text_encoder(pathlib.Path(text), GOLDENS["pipeline"][1])
    pipeline_qwenimage_layered.calculate_dimensions = lambda _area, _ratio: tuple(LAYERED_SIZE.values())
    pipeline = quiet(pipeline_qwenimage_layered.QwenImageLayeredPipeline(
        **parts, scheduler=FlowMatchEulerDiscreteScheduler(**SCHEDULER), tokenizer=tokens, processor=None))
    rng = generator(seed + 9)
    image = torch.cat([picture(rng, 24, 40), picture(rng, 24, 40)[..., :1]], dim=-1)
    return [
        layered_call(pipeline, "plain", 31, image, prompt="a red cat", true_cfg_scale=1.0, layers=2, num_inference_steps=2),
        layered_call(pipeline, "guided", 32, image, prompt="a cat", negative_prompt=" ", true_cfg_scale=4.0,
                     cfg_normalize=True, layers=1, num_inference_steps=2),
    ]


def build_layered(folder, seed):
    layered_parts(folder, seed)
    index = json.loads((FOLDER / "pipeline" / "model_index.json").read_text())
    index |= {"_class_name": "QwenImageLayeredPipeline"}
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")


def build_pipeline(folder, seed):
    components(folder, seed)
    save_adapter(folder, QwenImageTransformer2DModel(**SMALL), seed + 20, ADAPTED, std=0.4)


GOLDENS = {
    "zero": ("Qwen-Image, given pictures without noise", 51, None, zero_calls),
    "tiny": ("Qwen-Image, tiny", 51, lambda folder, seed: transformer(folder, seed, **TINY), tiny_calls),
    "pipeline": ("Qwen-Image, pipeline", 57, build_pipeline, pipeline_calls),
    "masked": ("Qwen-Image, masks", 77, None, masked_calls),
    "layered": ("Qwen-Image-Layered, pipeline", 67, build_layered, layered_calls),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
