"""Makes the goldens of Qwen-Image-2.1 under tests/goldens/qwen_image_21.

    python3 tools/reference/qwen_image_21.py                 # make all
    python3 tools/reference/qwen_image_21.py NAME ...        # make some
    python3 tools/reference/qwen_image_21.py --check [NAME]  # read the stored ones back and run them again

`pipeline` is a folder as it is published, but for the weights, which are drawn from the seeds in the seeded.json of each
component. diffusers has no pipeline of it for a start from an image and for masks: `picture` and `masked` begin and go on as
its pipelines of Qwen-Image do. `vision` is the tower of Qwen3-VL alone.
"""

import json

import torch
from diffusers import (
    AutoencoderKLQwenImage21,
    FlowMatchEulerDiscreteScheduler,
    QwenImage21Pipeline,
    QwenImage21Transformer2DModel,
)
from PIL import Image
from transformers import BatchFeature, Qwen3VLConfig, Qwen3VLForConditionalGeneration, Qwen3VLVisionConfig
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLVisionModel

import common
from adapter_pairs import save_adapter
from common import Call, generator, make_goldens, normal
from given_images import encode_frame, given_calls, image_call, pack, shifted_levels
from qwen3_vl import TEXT, VISION, picture_processor
from qwen_image import picture, quiet, tokenizer, vae_overrides
from seeded import seed_weights

FOLDER = common.GOLDENS.parent / "qwen_image_21"

# Widths that fill no vector of four but in the heads.
TINY = dict(in_channels=10, out_channels=10, num_layers=3, attention_head_dim=12, num_attention_heads=3, context_in_dim=18,
            axes_dims_rope=(4, 4, 4))
# Heads of 128, every width a multiple of 256.
SMALL = dict(num_layers=2, num_attention_heads=2, context_in_dim=256)
LANGUAGE = dict(TEXT, num_hidden_layers=2)
# Sixteen pixels to a latent, and the published numbers of channels and their statistics.
VAE = dict(base_dim=8, decoder_base_dim=12, dim_mult=[1, 2, 2, 4, 4], num_res_blocks=1)
SCHEDULER = dict(num_train_timesteps=1000, shift=1.0, use_dynamic_shifting=True, base_shift=0.5, max_shift=1.15,
                 base_image_seq_len=256, max_image_seq_len=4096, time_shift_type="exponential")


def transformer(folder, seed, **config):
    """The norm of the text is stored around zero: 1 is added to it."""
    model = QwenImage21Transformer2DModel(**config)
    model.save_config(folder)
    return seed_weights(folder, model, seed, overrides={"txt_in.text_norm.weight": (0.0, 0.3)})


def forward_call(model, name, seed, rows, columns, text_tokens, time):
    rng = generator(seed)
    config = model.config
    latents = normal(rng, 1, rows * columns, config.in_channels)
    states = normal(rng, 1, text_tokens, config.context_in_dim)
    mask = torch.arange(text_tokens + rows * columns // 4)[None] >= text_tokens
    output = model(latents, states, torch.tensor([time]), [[(1, rows, columns)]], mask, return_dict=False)[0]
    args = {"time": time, "rows": rows, "columns": columns}
    return Call(name, "the transformer's output", args, {"latents": latents, "states": states},
                {"output": output[:, text_tokens:]})


def tiny_calls(folder, seed):
    model = transformer(folder, seed, **TINY)
    return [forward_call(model, "wide", seed + 1, 2, 6, 7, 1.0), forward_call(model, "tall", seed + 2, 6, 4, 1, 0.4375)]


class Processor:
    """What Qwen3VLProcessor does with texts and pictures; that one needs torchvision for videos."""

    def __init__(self, tokenizer):
        self.tokenizer, self.images = tokenizer, picture_processor()

    def apply_chat_template(self, messages, **_arguments):
        [message] = messages
        text = f"<|im_start|>{message['role']}\n{message['content'][0]['text']}<|im_end|>\n"
        return [self.tokenizer(text).input_ids]

    def __call__(self, text, images=None, **_arguments):
        if images is None:
            return BatchFeature({**self.tokenizer(text, return_tensors="pt")})
        seen = self.images(images=images, return_tensors="pt")
        counts = iter((seen["image_grid_thw"].prod(dim=1) // 4).tolist())
        first, *parts = text[0].split("<|image_pad|>")
        whole = first + "".join("<|image_pad|>" * next(counts) + part for part in parts)
        ids = self.tokenizer([whole], return_tensors="pt")
        types = (ids["input_ids"] == self.tokenizer.convert_tokens_to_ids("<|image_pad|>")).int()
        return BatchFeature({**ids, **seen, "mm_token_type_ids": types})


def components(folder, seed):
    """The parts of the pipeline, their configurations and rules written."""
    for name in ("transformer", "text_encoder", "vae", "scheduler", "processor"):
        (folder / name).mkdir(exist_ok=True, parents=True)
    config = Qwen3VLConfig(text_config=LANGUAGE, vision_config=dict(VISION, num_heads=1), image_token_id=908, video_token_id=909,
                           vision_start_token_id=903, vision_end_token_id=907, attn_implementation="eager")
    text_encoder = Qwen3VLForConditionalGeneration(config)
    text_encoder.config.save_pretrained(folder / "text_encoder")
    vae = AutoencoderKLQwenImage21(**VAE)
    vae.save_config(folder / "vae")
    scheduler = FlowMatchEulerDiscreteScheduler(**SCHEDULER)
    scheduler.save_config(folder / "scheduler")
    index = {
        "_class_name": "QwenImage21Pipeline",
        "_diffusers_version": "0.42.1",
        "processor": ["transformers", "Qwen3VLProcessor"],
        "sample_sigmas": None,
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "Qwen3VLForConditionalGeneration"],
        "transformer": ["diffusers", "QwenImage21Transformer2DModel"],
        "vae": ["diffusers", "AutoencoderKLQwenImage21"],
    }
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    return {
        "text_encoder": seed_weights(folder / "text_encoder", text_encoder, seed),
        "transformer": transformer(folder / "transformer", seed + 1, **SMALL),
        "vae": seed_weights(folder / "vae", vae, seed + 2, overrides=vae_overrides(vae)),
        "scheduler": scheduler,
        "processor": Processor(tokenizer(folder / "processor")),
    }


# Every kind of module that trainers adapt.
ADAPTED = [
    "transformer_blocks.0.attn.to_q",
    "transformer_blocks.0.attn.to_v",
    "transformer_blocks.0.img_mlp.gate_layer",
    "transformer_blocks.1.attn.to_out.0",
    "transformer_blocks.1.img_mlp.proj",
    "transformer_blocks.1.img_mlp.out",
    "txt_in.in_layer",
    "img_in",
    "modulation.1",
    "proj_out",
]

PROMPT = "a bright red cat sleeps under the ancient mountain, 一只红色的猫, cinematic light in the morning"


def rgba_call(pipeline, *given, **arguments):
    """An `image_call` of an image with alpha; what is put over a given one is opaque, on white."""
    call = image_call(pipeline, *given, **arguments)
    image = call.outputs["image"]
    if "mask" in call.inputs:
        call.outputs["image"] = image[..., :3] * image[..., 3:] + 1 - image[..., 3:]
    return call


given_call = given_calls(rgba_call, encode_frame, shifted_levels(4096), pack)


def with_alpha(image):
    """Transparent towards the right."""
    height, width, _ = image.shape
    alpha = torch.linspace(255, 0, width).round().byte().expand(height, width)
    return torch.cat([image, alpha[..., None]], dim=-1)


# Pixels along the sides of the copies of pictures that edits see, in place of 1024; smaller ones fail.
EDIT_SIDE = 256


def edit_call(pipeline, name, seed, images, **arguments):
    """An edit of pictures, each uint8 [height, width, 4]."""
    pictures = [Image.fromarray(image.numpy()) for image in images]
    inputs = {f"given{i}": image for i, image in enumerate(images)}
    call = image_call(pipeline, name, seed, None, inputs, image=pictures, output_resolution=EDIT_SIDE, **arguments)
    call.args.pop("image")
    return call


def edit_calls(pipeline, seed):
    rng = generator(seed)
    images = [with_alpha(picture(rng, 70, 100)), with_alpha(picture(rng, 120, 61))]
    size = dict(height=32, width=64)
    return [
        edit_call(pipeline, "edit", 21, images[:1], prompt="make it red", num_inference_steps=2, **size),
        edit_call(pipeline, "several", 22, images, prompt="a cat", negative_prompt=PROMPT, true_cfg_scale=3.0,
                  num_inference_steps=2, height=64, width=32),
    ]


def pipeline_calls(folder, seed):
    pipeline = quiet(QwenImage21Pipeline(**components(folder, seed)))
    size = dict(height=96, width=64)
    small = dict(height=32, width=64)
    rng = generator(seed + 9)
    mask = torch.zeros(96, 64, dtype=torch.uint8)
    mask[16:64, 16:48] = 255
    guided = dict(prompt="a red cat", negative_prompt=PROMPT, true_cfg_scale=4.0, **size)
    calls = [
        image_call(pipeline, "text", 7, prompt=PROMPT, num_inference_steps=4, **size),
        image_call(pipeline, "guided", 8, num_inference_steps=3, **guided),
        image_call(pipeline, "empty", 9, prompt="", negative_prompt="", true_cfg_scale=2.0, num_inference_steps=2, **small),
        given_call(pipeline, "picture", 11, with_alpha(picture(rng, 96, 64)), 0.6, 5, **guided),
        given_call(pipeline, "masked", 13, with_alpha(picture(rng, 96, 64)), 0.7, 4, mask, prompt=PROMPT, **size),
    ]
    pipeline.load_lora_weights(folder / "adapter.safetensors", adapter_name="one")
    pipeline.set_adapters("one", 0.7)
    adapted = image_call(pipeline, "adapted", 12, prompt=PROMPT, num_inference_steps=2, args={"strength": 0.7}, **small)
    pipeline.unload_lora_weights()
    return [*calls, adapted, *edit_calls(pipeline, seed + 30)]


# Heads as wide as those of the published towers, and as many positions.
TOWER = dict(depth=4, hidden_size=144, intermediate_size=200, num_heads=2, out_hidden_size=64, deepstack_visual_indexes=[1, 2])


def tower(folder, seed):
    config = Qwen3VLVisionConfig(**TOWER)
    model = Qwen3VLVisionModel._from_config(config, attn_implementation="eager")
    config.save_pretrained(folder)
    return seed_weights(folder, model, seed)


def vision_calls(folder, seed):
    model, rng = tower(folder, seed), generator(seed + 1)
    calls = []
    for name, height, width in (("wide", 64, 160), ("tall", 96, 32)):
        image = picture(rng, height, width)
        processor = picture_processor()
        processor.size["shortest_edge"] = 32 * 32
        seen = processor(images=[Image.fromarray(image.numpy())], return_tensors="pt")
        output = model(seen["pixel_values"], seen["image_grid_thw"])
        outputs = {"tokens": output.pooler_output}
        outputs |= {f"deepstack{i}": features for i, features in enumerate(output.deepstack_features)}
        calls.append(Call(name, "an image as the language model sees it", {}, {"image": image}, outputs))
    return calls


def build_pipeline(folder, seed):
    components(folder, seed)
    save_adapter(folder, QwenImage21Transformer2DModel(**SMALL), seed + 20, ADAPTED)


GOLDENS = {
    "tiny": ("Qwen-Image-2.1, tiny", 91, lambda folder, seed: transformer(folder, seed, **TINY), tiny_calls),
    "vision": ("Qwen3-VL's vision tower", 95, tower, vision_calls),
    "pipeline": ("Qwen-Image-2.1, pipeline", 97, build_pipeline, pipeline_calls),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
