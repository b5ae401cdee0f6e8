"""Makes the goldens of FLUX.1 under tests/goldens/flux1.

    python3 tools/reference/flux1.py                 # make all
    python3 tools/reference/flux1.py NAME ...        # make some
    python3 tools/reference/flux1.py --check [NAME]  # read the stored ones back and run them again

`dev` is a folder as it is published, but for the weights, which are drawn from the seeds in the seeded.json of each
component. `schnell` has a transformer, with heads of 128, and a scheduler of its own, and `fill` and `control`
a transformer; the rest is that of `dev`.
"""

import json

import torch
from diffusers import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    FluxControlPipeline,
    FluxFillPipeline,
    FluxImg2ImgPipeline,
    FluxInpaintPipeline,
    FluxKontextInpaintPipeline,
    FluxKontextPipeline,
    FluxPipeline,
    FluxTransformer2DModel,
)
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer, PreTrainedTokenizerFast, T5Config, T5EncoderModel

import clip_tokenizer
import common
import tokenizer
from adapter_pairs import save_adapter_pair
from common import Call, generator, make_goldens, multiply, normal, randomise
from kl import picture
from seeded import keep_seed, with_weights

FOLDER = common.GOLDENS.parent / "flux1"

TINY = dict(in_channels=16, num_layers=1, num_single_layers=2, attention_head_dim=16, num_attention_heads=2,
            joint_attention_dim=24, pooled_projection_dim=20, guidance_embeds=True, axes_dims_rope=(4, 4, 8))
DEV = dict(TINY, in_channels=64, joint_attention_dim=64, pooled_projection_dim=32)
SCHNELL = dict(DEV, num_single_layers=1, attention_head_dim=128, guidance_embeds=False, axes_dims_rope=(16, 56, 56))
# Beside the latents those of a masked image, and the mask's 4 x 4 pixels for each token.
CONTROL = dict(DEV, num_single_layers=1, in_channels=64 + 64, out_channels=64)
FILL = dict(DEV, num_single_layers=1, in_channels=64 + 64 + 16, out_channels=64)
VOCABULARY = 512
T5 = dict(vocab_size=VOCABULARY, d_model=64, d_kv=16, num_heads=4, d_ff=96, num_layers=2, feed_forward_proj="gated-gelu")
CLIP = dict(hidden_size=32, intermediate_size=37, num_hidden_layers=2, num_attention_heads=2, projection_dim=32,
            max_position_embeddings=77, hidden_act="quick_gelu", bos_token_id=0, eos_token_id=2)
VAE = dict(down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
           block_out_channels=(32, 64), layers_per_block=1, latent_channels=16, norm_num_groups=32, sample_size=32,
           use_quant_conv=False, use_post_quant_conv=False, scaling_factor=0.3611, shift_factor=0.1159)


def build_tiny(folder, seed):
    model = randomise(FluxTransformer2DModel(**TINY), seed)
    model.save_pretrained(folder)
    keep_seed(folder, model, seed)


def forward_call(model, name, seed, text_tokens, grid, reference=None, timestep=0.75, guidance=3.5):
    """One call, with position ids as the pipelines make them."""
    rng = generator(seed)
    config = model.config
    ids = lambda size: FluxKontextPipeline._prepare_latent_image_ids(1, *size, "cpu", torch.float32)
    places = [ids(grid)]
    tokens = [normal(rng, 1, grid[0] * grid[1], config.in_channels)]
    if reference:
        places.append(ids(reference))
        places[-1][..., 0] = 1
        tokens.append(normal(rng, 1, reference[0] * reference[1], config.in_channels))
    context = normal(rng, 1, text_tokens, config.joint_attention_dim)
    pooled = normal(rng, 1, config.pooled_projection_dim)
    output = model(
        hidden_states=torch.cat(tokens, 1), encoder_hidden_states=context, pooled_projections=pooled,
        timestep=torch.tensor([timestep]), guidance=torch.tensor([guidance]), img_ids=torch.cat(places),
        txt_ids=torch.zeros(text_tokens, 3),
    ).sample  # fmt: skip
    inputs = {"context": context, "pooled": pooled, "sample": tokens[0]} | ({"reference": tokens[1]} if reference else {})
    args = {"grid": list(grid), "reference": reference and list(reference), "timestep": timestep, "guidance": guidance}
    return Call(name, "the velocity of the sample", args, inputs, {"velocity": output[:, : tokens[0].shape[1]]})


def tiny_calls(folder, seed):
    model = FluxTransformer2DModel.from_pretrained(with_weights(folder), torch_dtype=torch.float32).eval()
    return [
        forward_call(model, "text", seed + 1, 7, (4, 6)),
        forward_call(model, "reference", seed + 2, 9, (3, 5), (5, 2), timestep=0.125, guidance=1.0),
    ]


def transformer(folder, options, seed):
    model = randomise(FluxTransformer2DModel(**options), seed)
    # Velocities of about the size of noise, so that steps change a lot but the picture stays one.
    multiply(model.proj_out.weight, 0.7)
    model.bfloat16().save_pretrained(folder)
    keep_seed(folder, model, seed)


def build_dev(folder, seed):
    clip_tokenizer.build(folder / "tokenizer")
    tokenizer.build(folder / "tokenizer_2", VOCABULARY)
    words = len(json.loads((folder / "tokenizer/vocab.json").read_text()))
    clip = randomise(CLIPTextModel(CLIPTextConfig(vocab_size=words, **CLIP)), seed)
    t5 = randomise(T5EncoderModel(T5Config(**T5)), seed + 1)
    vae = randomise(AutoencoderKL(**VAE), seed + 2)
    for i, (name, model) in enumerate({"text_encoder": clip, "text_encoder_2": t5, "vae": vae}.items()):
        model.half().save_pretrained(folder / name)
        keep_seed(folder / name, model, seed + i)
    transformer(folder / "transformer", DEV, seed + 3)
    # The values of the published models.
    scheduler = FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True, shift=3.0, base_shift=0.5, max_shift=1.15)
    scheduler.save_config(folder / "scheduler")
    index = {
        "_class_name": "FluxPipeline",
        "_diffusers_version": "0.30.0.dev0",
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "CLIPTextModel"],
        "text_encoder_2": ["transformers", "T5EncoderModel"],
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "tokenizer_2": ["transformers", "T5TokenizerFast"],
        "transformer": ["diffusers", "FluxTransformer2DModel"],
        "vae": ["diffusers", "AutoencoderKL"],
    }
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    save_adapter_pair(folder, FluxTransformer2DModel(**DEV), seed + 20, ADAPTED, "", torch.half)


def build_schnell(folder, seed):
    transformer(folder / "transformer", SCHNELL, seed)
    FlowMatchEulerDiscreteScheduler(shift=1.0).save_config(folder / "scheduler")


def build_control(folder, seed):
    transformer(folder / "transformer", CONTROL, seed)


def build_fill(folder, seed):
    transformer(folder / "transformer", FILL, seed)


# Modules under the names of Black Forest Labs, and what they are in diffusers.
ADAPTED = {
    "double_blocks.0.img_attn.qkv": [f"transformer_blocks.0.attn.to_{n}" for n in "qkv"],
    "double_blocks.0.txt_attn.qkv": [f"transformer_blocks.0.attn.add_{n}_proj" for n in "qkv"],
    "double_blocks.0.img_attn.proj": ["transformer_blocks.0.attn.to_out.0"],
    "double_blocks.0.txt_mlp.0": ["transformer_blocks.0.ff_context.net.0.proj"],
    "double_blocks.0.img_mod.lin": ["transformer_blocks.0.norm1.linear"],
    "single_blocks.0.linear1": [
        *(f"single_transformer_blocks.0.attn.to_{n}" for n in "qkv"), "single_transformer_blocks.0.proj_mlp"],
    "single_blocks.1.linear2": ["single_transformer_blocks.1.proj_out"],
    "single_blocks.1.modulation.lin": ["single_transformer_blocks.1.norm.linear"],
    "img_in": ["x_embedder"],
    "txt_in": ["context_embedder"],
    "vector_in.in_layer": ["time_text_embed.text_embedder.linear_1"],
}  # fmt: skip


def load(pipeline, folder):
    dev = with_weights(FOLDER / "dev")
    own = with_weights(folder)
    part = lambda name: own / name if (own / name).exists() else dev / name
    loaded = pipeline(
        scheduler=FlowMatchEulerDiscreteScheduler.from_pretrained(part("scheduler")),
        text_encoder=CLIPTextModel.from_pretrained(dev / "text_encoder", dtype=torch.float32, attn_implementation="eager"),
        text_encoder_2=T5EncoderModel.from_pretrained(dev / "text_encoder_2", dtype=torch.float32),
        tokenizer=CLIPTokenizer.from_pretrained(dev / "tokenizer"),
        tokenizer_2=PreTrainedTokenizerFast.from_pretrained(dev / "tokenizer_2"),
        transformer=FluxTransformer2DModel.from_pretrained(part("transformer"), torch_dtype=torch.float32),
        vae=AutoencoderKL.from_pretrained(dev / "vae", torch_dtype=torch.float32),
    )
    loaded.set_progress_bar_config(disable=True)
    return loaded


def photo(seed, height, width):
    """A picture as a file would hold it."""
    pixels = picture(generator(seed), height, width)[0].permute(1, 2, 0)
    return ((pixels * 0.5 + 0.5) * 255).round().to(torch.uint8)


def run(pipeline, name, prompt, width, height, seed, steps, image=None, mask=None, **arguments):
    """Final latents, unpacked, and the picture in [0, 1]."""
    seen = {}

    def keep(_pipeline, _step, _timestep, state):
        seen["latents"] = state["latents"]
        return state

    role = "control_image" if isinstance(pipeline, FluxControlPipeline) else "image"
    given = {} if image is None else {role: image.permute(2, 0, 1).unsqueeze(0).float() / 255}
    if mask is not None:
        given["mask_image"] = mask.reshape(1, 1, *mask.shape).float() / 255
    is_kontext = isinstance(pipeline, (FluxKontextPipeline, FluxKontextInpaintPipeline))
    others = dict(_auto_resize=False, max_area=width * height) if is_kontext else {}
    frame = pipeline(
        prompt=prompt, width=width, height=height, num_inference_steps=steps, generator=generator(seed),
        output_type="pt", callback_on_step_end=keep, **given, **others, **arguments,
    ).images[0]  # fmt: skip
    latents = pipeline._unpack_latents(seen["latents"], height, width, pipeline.vae_scale_factor)
    args = {"prompt": prompt, "width": width, "height": height, "num_inference_steps": steps, "seed": seed, **arguments}
    args["pipeline"] = type(pipeline).__name__
    inputs = ({} if image is None else {"given": image}) | ({} if mask is None else {"mask": mask})
    return Call(name, "a picture", args, inputs, {"latents": latents, "image": frame.permute(1, 2, 0)})


PROMPT = "A bright red cat sleeps under the ancient mountain, 猫 don't, cinematic light in the Morning"


def dev_calls(folder, _seed):
    text = load(FluxPipeline, folder)
    classes = (FluxImg2ImgPipeline, FluxInpaintPipeline, FluxKontextPipeline, FluxKontextInpaintPipeline)
    others = [each(**text.components) for each in classes]
    for pipeline in others:
        pipeline.set_progress_bar_config(disable=True)
    image, inpaint, kontext, kontext_inpaint = others
    # Along the edges of latents, which the reference rounds it to.
    mask = torch.zeros(24, 24, dtype=torch.uint8)
    mask[6:16, 4:20] = 255
    calls = [
        run(text, "text", PROMPT, 40, 24, 3, 3, guidance_scale=3.5, max_sequence_length=64),
        run(text, "odd", PROMPT * 4, 28, 20, 4, 2, guidance_scale=1.0, max_sequence_length=37),
        run(text, "guided", "a red cat", 24, 32, 5, 2, guidance_scale=2.0, max_sequence_length=32,
            negative_prompt="blurry, low quality", true_cfg_scale=2.5),
        run(image, "picture", "a small house at night", 24, 32, 6, 4, photo(50, 32, 24), strength=0.6, guidance_scale=3.5,
            max_sequence_length=32),
        run(kontext, "kontext", "make it yellow", 24, 20, 7, 2, photo(51, 28, 36), guidance_scale=2.5,
            max_sequence_length=32),
        run(inpaint, "masked", "a small house at night", 24, 24, 11, 3, photo(52, 24, 24), mask, strength=0.7,
            guidance_scale=3.5, max_sequence_length=32),
        run(kontext_inpaint, "kontext_masked", "make it yellow", 24, 24, 12, 3, photo(53, 24, 24), mask, strength=0.9,
            guidance_scale=2.5, max_sequence_length=32),
        run(kontext, "kontext_text", "a small house at night", 16, 24, 8, 2, guidance_scale=2.5, max_sequence_length=32),
    ]  # fmt: skip
    text.load_lora_weights(folder / "adapter-diffusers.safetensors", adapter_name="one")
    text.set_adapters("one", 0.7)
    adapted = run(text, "adapted", "a red cat", 24, 24, 9, 2, guidance_scale=3.5, max_sequence_length=32)
    adapted.args["strength"] = 0.7
    return [*calls, adapted]


def schnell_calls(folder, _seed):
    text = load(FluxPipeline, folder)
    return [run(text, "text", PROMPT, 32, 24, 10, 4, guidance_scale=0.0, max_sequence_length=64)]


def control_calls(folder, _seed):
    control = load(FluxControlPipeline, folder)
    picture = photo(55, 20, 28)
    given = picture.permute(2, 0, 1).unsqueeze(0).float() / 255 * 2 - 1
    preprocess = control.prepare_image
    # The pipeline takes tensors as they are.
    control.prepare_image = lambda image, **others: preprocess(image=given, **others)
    return [run(control, "control", "a small house at night", 28, 20, 15, 3, picture, guidance_scale=30.0, max_sequence_length=32)]


def fill_calls(folder, _seed):
    fill = load(FluxFillPipeline, folder)
    mask = torch.zeros(20, 28, dtype=torch.uint8)
    # Not along the edges of latents: Fill sees every pixel of it.
    mask[3:17, 5:22] = 255
    common = dict(image=photo(54, 20, 28), mask=mask, guidance_scale=30.0, max_sequence_length=32)
    return [
        run(fill, "fill", "a small house at night", 28, 20, 13, 3, **common),
        run(fill, "partly", "a red cat", 28, 20, 14, 3, strength=0.7, **common),
    ]


GOLDENS = {
    "tiny": ("FLUX.1's transformer, heads of 16", 900, build_tiny, tiny_calls),
    "dev": ("FLUX.1 dev and Kontext, heads of 16", 910, build_dev, dev_calls),
    "control": ("FLUX.1 Canny and Depth, heads of 16", 950, build_control, control_calls),
    "fill": ("FLUX.1 Fill, heads of 16", 940, build_fill, fill_calls),
    "schnell": ("FLUX.1 schnell, heads of 128", 930, build_schnell, schnell_calls),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
