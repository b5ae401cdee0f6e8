"""Makes the goldens of Stable Diffusion under tests/goldens/stable_diffusion.

    python3 tools/reference/stable_diffusion.py                 # make all
    python3 tools/reference/stable_diffusion.py NAME ...        # make some
    python3 tools/reference/stable_diffusion.py --check [NAME]  # read the stored ones back and run them again

Weights are drawn from the seeds in the seeded.json of each component.
"""

import json

import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    EDMDPMSolverMultistepScheduler,
    EDMEulerScheduler,
    EulerAncestralDiscreteScheduler,
    EulerDiscreteScheduler,
    LatentConsistencyModelPipeline,
    LCMScheduler,
    PNDMScheduler,
    StableDiffusionDepth2ImgPipeline,
    StableDiffusionImg2ImgPipeline,
    StableDiffusionInpaintPipeline,
    StableDiffusionInstructPix2PixPipeline,
    StableDiffusionPipeline,
    StableDiffusionXLImg2ImgPipeline,
    StableDiffusionXLInpaintPipeline,
    StableDiffusionXLInstructPix2PixPipeline,
    StableDiffusionXLPipeline,
    TCDScheduler,
    UNet2DConditionModel,
)
from safetensors.torch import save_file
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

import clip_tokenizer
import common
from common import Call, generator, make_goldens, normal
from seeded import seed_weights

FOLDER = common.GOLDENS.parent / "stable_diffusion"

CROSS = ("CrossAttnDownBlock2D", "CrossAttnUpBlock2D")
PLAIN = ("DownBlock2D", "UpBlock2D")


def blocks(*kinds):
    """The block types of the levels, the largest first."""
    return dict(down_block_types=[kind[0] for kind in kinds], up_block_types=[kind[1] for kind in reversed(kinds)])


# Of the form of SD 1.5; heads of 12 and 20, groups of 6 and 10.
SD15 = dict(sample_size=8, block_out_channels=(24, 40, 40), layers_per_block=2, norm_num_groups=4, cross_attention_dim=20,
            attention_head_dim=2, **blocks(CROSS, CROSS, PLAIN))
# Of the form of SDXL, with its heads of 64.
SDXL = dict(sample_size=8, block_out_channels=(32, 64, 128), layers_per_block=2, norm_num_groups=8, cross_attention_dim=32,
            attention_head_dim=(1, 1, 2), transformer_layers_per_block=(1, 2, 3), use_linear_projection=True,
            addition_embed_type="text_time", addition_time_embed_dim=8, projection_class_embeddings_input_dim=16 + 6 * 8,
            **blocks(PLAIN, CROSS, CROSS))
# The heads of SD 1.5: 40, 80 and 160.
HEADS = dict(sample_size=8, block_out_channels=(80, 160, 320), layers_per_block=1, norm_num_groups=16,
             cross_attention_dim=64, attention_head_dim=2, **blocks(CROSS, CROSS, CROSS))
# Depths by layer, a middle block without attention, and the guidance embedded, as distilled models have it.
PRUNED = dict(sample_size=8, block_out_channels=(16, 32), layers_per_block=2, norm_num_groups=8, cross_attention_dim=24,
              attention_head_dim=(2, 4), transformer_layers_per_block=[1, [1, 2]],
              reverse_transformer_layers_per_block=[[3, 1, 2], 1], mid_block_type="UNetMidBlock2D",
              use_linear_projection=True, time_cond_proj_dim=32, **blocks(CROSS, CROSS))


def forward_call(model, name, seed, size, timestep, tokens=7):
    rng = generator(seed)
    config = model.config
    inputs = {
        "latents": normal(rng, 1, config.in_channels, *size),
        "text": normal(rng, 1, tokens, config.cross_attention_dim),
    }
    added = {}
    if config.addition_embed_type == "text_time":
        width = config.projection_class_embeddings_input_dim - 6 * config.addition_time_embed_dim
        inputs["pooled"] = normal(rng, 1, width)
        inputs["ids"] = torch.tensor([[48.0, 64.0, 3.0, 5.0, 32.0, 40.0]])
        added = {"added_cond_kwargs": {"text_embeds": inputs["pooled"], "time_ids": inputs["ids"]}}
    if config.time_cond_proj_dim:
        inputs["guidance"] = normal(rng, 1, config.time_cond_proj_dim)
        added["timestep_cond"] = inputs["guidance"]
    output = model(inputs["latents"], timestep, inputs["text"], return_dict=False, **added)[0]
    return Call(name, "the UNet's output", {"timestep": timestep}, inputs, {"output": output})


def unet_golden(config, calls):
    def build(folder, seed):
        model = UNet2DConditionModel(**config)
        model.save_config(folder)
        return seed_weights(folder, model, seed)

    def run(folder, seed):
        model = build(folder, seed)
        return [forward_call(model, name, seed + i, *rest) for i, (name, *rest) in enumerate(calls, 1)]

    return build, run


# Of a whole pipeline: a pixel of the latents is 2 x 2 of the image.
VAE = dict(down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
           block_out_channels=(16, 32), layers_per_block=1, latent_channels=4, norm_num_groups=8, sample_size=32)
TEXT = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=2, projection_dim=24,
            max_position_embeddings=77, attn_implementation="eager")
TEXT_2 = TEXT | dict(hidden_size=40)
UNET = dict(sample_size=16, block_out_channels=(32, 64, 64), layers_per_block=1, norm_num_groups=8,
            cross_attention_dim=32, attention_head_dim=2, **blocks(CROSS, CROSS, PLAIN))
UNET_XL = dict(sample_size=16, block_out_channels=(32, 64), layers_per_block=2, norm_num_groups=8, cross_attention_dim=72,
               attention_head_dim=(1, 2), transformer_layers_per_block=(1, 2), use_linear_projection=True,
               addition_embed_type="text_time", addition_time_embed_dim=8,
               projection_class_embeddings_input_dim=24 + 6 * 8, **blocks(PLAIN, CROSS))
# Models that their single files tell all of: text encoders of the published widths, groups of 32 channels.
TEXTS_SINGLE = (
    TEXT | dict(hidden_size=768, num_hidden_layers=2, num_attention_heads=12, projection_dim=768),
    TEXT | dict(hidden_size=1280, num_hidden_layers=2, num_attention_heads=20, projection_dim=1280),
)
TEXT_SINGLE_2 = TEXT | dict(hidden_size=1024, num_hidden_layers=2, num_attention_heads=16, projection_dim=1024,
                            hidden_act="gelu")  # fmt: skip
VAE_SINGLE = dict(block_out_channels=(32, 64), norm_num_groups=32)
UNET_SINGLE = dict(sample_size=64, block_out_channels=(32, 64), layers_per_block=2, cross_attention_dim=768,
                   attention_head_dim=8, **blocks(CROSS, PLAIN))
UNET_2_SINGLE = UNET_SINGLE | dict(sample_size=64, block_out_channels=(64, 128), cross_attention_dim=1024,
                                   attention_head_dim=(1, 2), use_linear_projection=True)  # fmt: skip
UNET_XL_SINGLE = UNET_XL | dict(sample_size=128, block_out_channels=(64, 128), norm_num_groups=32, cross_attention_dim=2048,
                                addition_time_embed_dim=256, projection_class_embeddings_input_dim=2816)
BETAS = dict(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", steps_offset=1)
PROMPT = "a bright red cat sleeps under the ancient mountain, cinematic light in the morning"
MODULES = {"unet": "diffusers", "vae": "diffusers", "scheduler": "diffusers"}


def tokenizer_of(folder, pad):
    """Of transformers; one of the two of SDXL pads with "!"."""
    if not (folder / "vocab.json").exists():
        clip_tokenizer.build(folder)
        path = folder / "tokenizer_config.json"
        config = json.loads(path.read_text())
        path.write_text(json.dumps(config | {"pad_token": pad}, indent=1) + "\n")
    return CLIPTokenizer.from_pretrained(folder)


def components(folder, seed, unet, scheduler, has_second=False, has_first=True, texts=(TEXT, TEXT_2), **vae):
    """The parts of a pipeline, their configurations and rules written."""
    folder.mkdir(parents=True, exist_ok=True)
    parts, tokenizers = {}, {}
    if has_first:
        # Stable Diffusion 2 has OpenCLIP's tower, which pads with "!".
        is_open_clip = texts[0].get("hidden_act") == "gelu"
        tokenizers["tokenizer"] = tokenizer_of(folder / "tokenizer", "!" if is_open_clip else clip_tokenizer.EOS)
        words = len(tokenizers["tokenizer"])
        own = dict(vocab_size=words, eos_token_id=words - 1, hidden_act="quick_gelu")
        text = CLIPTextConfig(**own | texts[0])
        parts["text_encoder"] = CLIPTextModel(text)
        # Diffusers looks for the final norm where transformers had it before version 5.
        object.__setattr__(parts["text_encoder"], "text_model", parts["text_encoder"])
    if has_second:
        tokenizers["tokenizer_2"] = tokenizer_of(folder / "tokenizer_2", "!")
        words = len(tokenizers["tokenizer_2"])
        text = CLIPTextConfig(**texts[1], vocab_size=words, eos_token_id=2, hidden_act="gelu")
        parts["text_encoder_2"] = CLIPTextModelWithProjection(text)
    factor = dict(scaling_factor=0.13025, force_upcast=True) if has_second else dict(scaling_factor=0.18215)
    parts |= {"unet": UNet2DConditionModel(**unet), "vae": AutoencoderKL(**VAE | factor | vae)}
    for i, (name, part) in enumerate(parts.items()):
        (folder / name).mkdir(exist_ok=True)
        part.config.save_pretrained(folder / name) if "text" in name else part.save_config(folder / name)
        seed_weights(folder / name, part, seed + i)
    scheduler.save_config(folder / "scheduler")
    return parts | tokenizers | {"scheduler": scheduler}


def write_index(folder, class_name, parts, **settings):
    index = {"_class_name": class_name, "_diffusers_version": "0.36.0", "safety_checker": [None, None], **settings}
    of = lambda name, part: [None, None] if part is None else [MODULES.get(name, "transformers"), type(part).__name__]
    index |= {name: of(name, part) for name, part in parts.items()}
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")


# Pipelines of images that take a size, too.
SIZED = (StableDiffusionInpaintPipeline, StableDiffusionXLInpaintPipeline, StableDiffusionXLInstructPix2PixPipeline)


def picture_call(pipeline, name, seed, **arguments):
    """Final latents and the picture in [0, 1]."""
    seen, inputs = {}, {}

    def keep(_pipeline, step, _timestep, state):
        seen["latents"] = state["latents"]
        return state

    call = dict(arguments)
    if "image" in arguments:
        inputs["given"] = arguments.pop("image")
        call["image"] = inputs["given"].permute(2, 0, 1).unsqueeze(0).float() / 255
        if not isinstance(pipeline, SIZED):
            call.pop("height"), call.pop("width")
    if "depth" in arguments:
        inputs["control"] = arguments.pop("depth")
        call["depth_map"] = call.pop("depth")[None, ..., 0].float()
    if "mask" in arguments:
        inputs["mask"] = arguments.pop("mask")
        call["mask_image"] = call.pop("mask").reshape(1, 1, *inputs["mask"].shape).float() / 255
    if isinstance(pipeline, StableDiffusionXLInstructPix2PixPipeline):
        call["callback"] = lambda _step, _timestep, latents: seen.update(latents=latents)
    else:
        call["callback_on_step_end"] = keep
    image = pipeline(generator=generator(seed), output_type="pt", **call).images
    return Call(name, "a picture", {"seed": seed, **arguments}, inputs,
                {"latents": seen["latents"], "image": image[0].permute(1, 2, 0)})  # fmt: skip


def given(seed, height, width):
    """A smooth picture, and a mask along the edges of latents."""
    mask = torch.zeros(height, width, dtype=torch.uint8)
    mask[6:18, 12:28] = 255
    coarse = normal(generator(seed), 1, 3, 4, 5)
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear")[0]
    return ((0.5 + 0.25 * smooth).clamp(0, 1) * 255).round().byte().permute(1, 2, 0), mask


def pipelines(classes, parts):
    other = dict(safety_checker=None, feature_extractor=None, requires_safety_checker=False)
    built = [each(**parts, **({} if "text_encoder_2" in parts else other)) for each in classes]
    for pipeline in built:
        pipeline.set_progress_bar_config(disable=True)
    return built


# Adapted modules of each pipeline, and what trainers call them who keep the original names; of SD 1 they keep none.
TRANSFORMER = "transformer_blocks.0"
ADAPTED = {
    "unet": {
        f"down_blocks.0.attentions.0.{TRANSFORMER}.attn1.to_q": None,
        f"down_blocks.1.attentions.0.{TRANSFORMER}.attn2.to_k": None,
        f"mid_block.attentions.0.{TRANSFORMER}.ff.net.0.proj": None,
        f"up_blocks.1.attentions.1.{TRANSFORMER}.attn1.to_out.0": None,
        "up_blocks.1.attentions.0.proj_in": None,
        "up_blocks.2.resnets.1.conv1": None,
        "down_blocks.0.resnets.0.time_emb_proj": None,
    },
    "text_encoder": {"encoder.layers.1.self_attn.q_proj": None, "encoder.layers.0.mlp.fc1": None},
}
ADAPTED_XL = {
    "unet": {
        f"down_blocks.1.attentions.0.{TRANSFORMER}.attn1.to_q": f"input_blocks.4.1.{TRANSFORMER}.attn1.to_q",
        f"mid_block.attentions.0.{TRANSFORMER}.attn2.to_k": f"middle_block.1.{TRANSFORMER}.attn2.to_k",
        f"up_blocks.0.attentions.1.{TRANSFORMER}.ff.net.2": f"output_blocks.1.1.{TRANSFORMER}.ff.net.2",
        "down_blocks.0.resnets.1.conv1": "input_blocks.2.0.in_layers.2",
        "up_blocks.1.resnets.2.time_emb_proj": "output_blocks.5.0.emb_layers.1",
        "add_embedding.linear_1": "label_emb.0.0",
    },
    "text_encoder": {"encoder.layers.1.self_attn.q_proj": None},
    "text_encoder_2": {f"text_model.encoder.layers.{name}": None for name in ("1.mlp.fc2", "0.self_attn.v_proj")},
}
KOHYA = {
    "StableDiffusionPipeline": {"unet": "lora_unet_", "text_encoder": "lora_te_text_model_"},
    "StableDiffusionXLPipeline": {"unet": "lora_unet_", "text_encoder": "lora_te1_text_model_",
                                  "text_encoder_2": "lora_te2_"},
}  # fmt: skip


def save_adapters(folder, parts, seed, adapted, class_name):
    """An adapter of rank 2 under the names of diffusers, and under those of kohya's scripts, with an alpha."""
    rng = generator(seed)
    ours, theirs = {}, {}
    for part, modules in adapted.items():
        for name, original in modules.items():
            shape = parts[part].get_submodule(name).weight.shape
            down = normal(rng, 2, *shape[1:], std=shape[1:].numel() ** -0.5).half()
            up = normal(rng, shape[0], 2, *(1 for _ in shape[2:]), std=0.4).half()
            ours[f"{part}.{name}.lora_A.weight"] = down
            ours[f"{part}.{name}.lora_B.weight"] = up
            key = KOHYA[class_name][part] + (original or name).replace(".", "_")
            tensors = {"lora_down.weight": down.clone(), "lora_up.weight": up * 2, "alpha": torch.tensor(1.0)}
            theirs |= {f"{key}.{tail}": tensor for tail, tensor in tensors.items()}
    save_file(ours, folder / "adapter-diffusers.safetensors")
    save_file(theirs, folder / "adapter-kohya.safetensors")


def adapted_call(pipeline, folder, seed, **arguments):
    pipeline.load_lora_weights(folder, weight_name="adapter-diffusers.safetensors", adapter_name="one")
    pipeline.set_adapters("one", 0.7)
    call = picture_call(pipeline, "adapted", seed, **arguments)
    call.args["lora_strength"] = 0.7
    return call


def scheduled_call(pipeline, name, seed, kind, eta=None, **arguments):
    """With the scheduler of models that were distilled from this one."""
    own = pipeline.scheduler
    pipeline.scheduler = kind(**BETAS, timestep_spacing="trailing") if eta is None else kind(**BETAS)
    step = {} if eta is None else {"eta": eta}
    call = picture_call(pipeline, name, seed, **step, **arguments)
    call.args["scheduler"] = {k: v for k, v in pipeline.scheduler.config.items() if not k.startswith("_")}
    call.args["scheduler"]["_class_name"] = kind.__name__
    pipeline.scheduler = own
    return call


def chosen_call(pipeline, name, seed, **arguments):
    """What a user says of the noise where the files do not."""
    own = pipeline.scheduler
    noise = dict(prediction_type="v_prediction", rescale_betas_zero_snr=True)
    pipeline.scheduler = type(own).from_config(own.config, **noise, timestep_spacing="trailing")
    call = picture_call(pipeline, name, seed, **arguments)
    pipeline.scheduler = own
    call.args |= noise
    return call


def sd_parts(folder, seed, **unet):
    scheduler = PNDMScheduler(**BETAS, skip_prk_steps=True, set_alpha_to_one=False)
    return components(folder, seed, UNET | unet, scheduler)


def build_sd(folder, seed):
    parts = sd_parts(folder, seed)
    write_index(folder, "StableDiffusionPipeline", parts, requires_safety_checker=True)
    save_adapters(folder, parts, seed + 20, ADAPTED, "StableDiffusionPipeline")


def sd_calls(folder, seed):
    classes = (StableDiffusionPipeline, StableDiffusionImg2ImgPipeline, StableDiffusionInpaintPipeline)
    pipeline, other, inpaint = pipelines(classes, sd_parts(folder, seed))
    image, mask = given(seed + 9, 24, 40)
    size = dict(height=24, width=40)
    plain = dict(prompt=PROMPT, guidance_scale=1.0, **size)
    guided = dict(prompt="a red cat", negative_prompt=PROMPT, guidance_scale=4.0, num_inference_steps=4, **size)
    return [
        picture_call(pipeline, "text", 7, num_inference_steps=5, **plain),
        picture_call(pipeline, "skipped", 8, num_inference_steps=2, clip_skip=1, **plain),
        picture_call(pipeline, "guided", 9, **guided),
        picture_call(pipeline, "rescaled", 10, guidance_rescale=0.7, **guided),
        picture_call(other, "picture", 11, image=image, strength=0.6, **guided),
        picture_call(inpaint, "masked", 12, image=image, mask=mask, strength=0.8, **guided),
        picture_call(inpaint, "replaced", 13, image=image, mask=mask, strength=1.0, **guided),
        scheduled_call(pipeline, "tcd", 17, TCDScheduler, eta=0.3, num_inference_steps=3, **plain),
        scheduled_call(other, "turbo", 18, EulerAncestralDiscreteScheduler, image=image, strength=0.5,
                       num_inference_steps=4, **plain | dict(guidance_scale=0.0)),
        adapted_call(pipeline, folder, 16, num_inference_steps=2, **plain),
    ]


def build_inpainting(folder, seed):
    parts = sd_parts(folder, seed, in_channels=9)
    write_index(folder, "StableDiffusionInpaintPipeline", parts)


def inpainting_calls(folder, seed):
    [inpaint] = pipelines([StableDiffusionInpaintPipeline], sd_parts(folder, seed, in_channels=9))
    image, mask = given(seed + 9, 24, 40)
    guided = dict(prompt="a red cat", negative_prompt=PROMPT, guidance_scale=4.0, num_inference_steps=3,
                  height=24, width=40, image=image, mask=mask)  # fmt: skip
    return [
        picture_call(inpaint, "replaced", 14, strength=1.0, **guided),
        picture_call(inpaint, "masked", 15, strength=0.7, **guided),
    ]


def lcm_parts(folder, seed):
    return components(folder, seed, UNET | dict(time_cond_proj_dim=32), LCMScheduler(**BETAS))


def build_lcm(folder, seed):
    write_index(folder, "LatentConsistencyModelPipeline", lcm_parts(folder, seed))


def lcm_calls(folder, seed):
    [pipeline] = pipelines([LatentConsistencyModelPipeline], lcm_parts(folder, seed))
    call = dict(prompt=PROMPT, num_inference_steps=3, guidance_scale=6.5, height=24, width=40)
    return [picture_call(pipeline, "text", 17, **call)]


SIZES = dict(original_size=(48, 90), crops_coords_top_left=(3, 5), negative_original_size=(20, 30),
             negative_crops_coords_top_left=(1, 0))  # fmt: skip


def sdxl_parts(folder, seed):
    scheduler = EulerDiscreteScheduler(**BETAS, timestep_spacing="leading")
    return components(folder, seed, UNET_XL, scheduler, has_second=True)


def build_sdxl(folder, seed):
    parts = sdxl_parts(folder, seed)
    write_index(folder, "StableDiffusionXLPipeline", parts, force_zeros_for_empty_prompt=True)
    save_adapters(folder, parts, seed + 20, ADAPTED_XL, "StableDiffusionXLPipeline")


def sdxl_calls(folder, seed):
    classes = (StableDiffusionXLPipeline, StableDiffusionXLImg2ImgPipeline, StableDiffusionXLInpaintPipeline)
    pipeline, other, inpaint = pipelines(classes, sdxl_parts(folder, seed))
    image, mask = given(seed + 9, 24, 40)
    size = dict(height=24, width=40)
    plain = dict(prompt=PROMPT, num_inference_steps=4, **size)
    guided = dict(prompt="a red cat", negative_prompt=PROMPT, guidance_scale=4.0, num_inference_steps=4, **size)
    return [
        picture_call(pipeline, "text", 7, guidance_scale=3.0, **plain),
        picture_call(pipeline, "skipped", 8, guidance_scale=1.0, clip_skip=1, **plain),
        picture_call(pipeline, "guided", 9, **guided),
        picture_call(pipeline, "sizes", 10, target_size=(32, 36), negative_target_size=(64, 80), **SIZES, **guided),
        picture_call(other, "picture", 11, image=image, strength=0.6, **guided),
        picture_call(inpaint, "masked", 12, image=image, mask=mask, strength=0.8, **guided),
        chosen_call(pipeline, "chosen", 13, guidance_rescale=0.7, **guided),
        refined_call(pipeline, folder, 14, refiner_start=0.5, **guided),
        adapted_call(pipeline, folder, 16, guidance_scale=1.0, **plain),
    ]


def single_parts(folder, seed):
    scheduler = PNDMScheduler(**BETAS, skip_prk_steps=True, set_alpha_to_one=False)
    return components(folder, seed, UNET_SINGLE, scheduler, texts=TEXTS_SINGLE, **VAE_SINGLE)


def build_single(folder, seed):
    write_index(folder, "StableDiffusionPipeline", single_parts(folder, seed), requires_safety_checker=True)


def single_calls(folder, seed):
    [pipeline] = pipelines([StableDiffusionPipeline], single_parts(folder, seed))
    return [picture_call(pipeline, "text", 7, **SINGLE)]


def v2_single_parts(folder, seed):
    scheduler = DDIMScheduler(**BETAS, clip_sample=False, set_alpha_to_one=False, prediction_type="v_prediction")
    return components(folder, seed, UNET_2_SINGLE, scheduler, texts=(TEXT_SINGLE_2,), **VAE_SINGLE)


def build_v2_single(folder, seed):
    write_index(folder, "StableDiffusionPipeline", v2_single_parts(folder, seed), requires_safety_checker=False)


def v2_single_calls(folder, seed):
    [pipeline] = pipelines([StableDiffusionPipeline], v2_single_parts(folder, seed))
    return [picture_call(pipeline, "text", 7, **SINGLE)]


def xl_single_parts(folder, seed):
    scheduler = EulerDiscreteScheduler(**BETAS, timestep_spacing="leading")
    return components(folder, seed, UNET_XL_SINGLE, scheduler, has_second=True, texts=TEXTS_SINGLE, **VAE_SINGLE)


def build_xl_single(folder, seed):
    write_index(folder, "StableDiffusionXLPipeline", xl_single_parts(folder, seed), force_zeros_for_empty_prompt=True)


def xl_single_calls(folder, seed):
    [pipeline] = pipelines([StableDiffusionXLPipeline], xl_single_parts(folder, seed))
    return [picture_call(pipeline, "text", 7, **SINGLE)]


SINGLE = dict(prompt="a red cat", negative_prompt=PROMPT, guidance_scale=4.0, num_inference_steps=2, height=16, width=24)


def refiner_parts(folder, seed):
    scheduler = EulerDiscreteScheduler(**BETAS, timestep_spacing="leading")
    unet = UNET_XL | dict(cross_attention_dim=40, projection_class_embeddings_input_dim=24 + 5 * 8)
    parts = components(folder, seed, unet, scheduler, has_second=True, has_first=False)
    return {"text_encoder": None, "tokenizer": None} | parts


REFINER = dict(requires_aesthetics_score=True, force_zeros_for_empty_prompt=False)


def playground_parts(folder, seed):
    statistics = dict(scaling_factor=0.5, latents_mean=[-1.6, 1.9, -1.4, 2.5], latents_std=[8.4, 5.9, 3.6, 5.5])
    scheduler = EDMDPMSolverMultistepScheduler(sigma_max=80.0)
    return components(folder, seed, UNET_XL, scheduler, has_second=True, **statistics)


def build_playground(folder, seed):
    write_index(folder, "StableDiffusionXLPipeline", playground_parts(folder, seed))


def playground_calls(folder, seed):
    classes = (StableDiffusionXLPipeline, StableDiffusionXLImg2ImgPipeline)
    pipeline, other = pipelines(classes, playground_parts(folder, seed))
    image, _ = given(seed + 9, 24, 40)
    guided = dict(prompt="a red cat", negative_prompt=PROMPT, guidance_scale=3.0, num_inference_steps=4,
                  height=24, width=40)  # fmt: skip
    return [
        picture_call(pipeline, "text", 7, **guided),
        picture_call(other, "picture", 11, image=image, strength=0.6, **guided),
    ]


def edit_parts(folder, seed):
    return components(folder, seed, UNET | dict(in_channels=8), EulerAncestralDiscreteScheduler(**BETAS))


def build_edit(folder, seed):
    write_index(folder, "StableDiffusionInstructPix2PixPipeline", edit_parts(folder, seed))


EDIT = dict(prompt="a red cat", num_inference_steps=3, height=24, width=40)


def edit_calls(folder, seed):
    [pipeline] = pipelines([StableDiffusionInstructPix2PixPipeline], edit_parts(folder, seed))
    call = dict(image=given(seed + 9, 24, 40)[0], **EDIT)
    return [
        picture_call(pipeline, "guided", 7, negative_prompt=PROMPT, guidance_scale=4.0, image_guidance_scale=1.5, **call),
        picture_call(pipeline, "alone", 8, guidance_scale=4.0, image_guidance_scale=0.5, **call),
    ]


def cosxl_edit_parts(folder, seed):
    scheduler = EDMEulerScheduler(sigma_min=0.002, sigma_max=120.0, sigma_data=1.0, prediction_type="v_prediction",
                                  sigma_schedule="exponential")  # fmt: skip
    return components(folder, seed, UNET_XL | dict(in_channels=8), scheduler, has_second=True)


def build_cosxl_edit(folder, seed):
    parts = cosxl_edit_parts(folder, seed)
    write_index(folder, "StableDiffusionXLInstructPix2PixPipeline", parts, is_cosxl_edit=True)


def cosxl_edit_calls(folder, seed):
    parts = cosxl_edit_parts(folder, seed)
    pipeline = StableDiffusionXLInstructPix2PixPipeline(**parts, is_cosxl_edit=True)
    pipeline.set_progress_bar_config(disable=True)
    call = dict(image=given(seed + 9, 24, 40)[0], negative_prompt=PROMPT, guidance_scale=5.0, **EDIT)
    return [picture_call(pipeline, "guided", 7, image_guidance_scale=2.0, **call)]


def depth_parts(folder, seed):
    return sd_parts(folder, seed, in_channels=5)


def build_depth(folder, seed):
    write_index(folder, "StableDiffusionDepth2ImgPipeline", depth_parts(folder, seed))


def depth_calls(folder, seed):
    pipeline = StableDiffusionDepth2ImgPipeline(**depth_parts(folder, seed), depth_estimator=None, feature_extractor=None)
    pipeline.set_progress_bar_config(disable=True)
    depth = given(seed + 10, 24, 40)[0][..., :1].expand(-1, -1, 3).contiguous()
    call = dict(prompt="a red cat", negative_prompt=PROMPT, guidance_scale=4.0, num_inference_steps=4, height=24, width=40,
                image=given(seed + 9, 24, 40)[0], strength=0.8)  # fmt: skip
    return [picture_call(pipeline, "depth", 7, depth=depth, **call)]


def build_refiner(folder, seed):
    write_index(folder, "StableDiffusionXLImg2ImgPipeline", refiner_parts(folder, seed), **REFINER)


def refiner_calls(folder, seed):
    pipeline = StableDiffusionXLImg2ImgPipeline(**refiner_parts(folder, seed), **REFINER)
    pipeline.set_progress_bar_config(disable=True)
    image, _ = given(seed + 9, 24, 40)
    guided = dict(prompt="a red cat", guidance_scale=4.0, num_inference_steps=4, height=24, width=40, image=image)
    scores = dict(aesthetic_score=7.5, negative_aesthetic_score=1.25, **SIZES)
    return [
        picture_call(pipeline, "picture", 11, negative_prompt=PROMPT, strength=0.6, **guided),
        picture_call(pipeline, "scores", 12, negative_prompt="", strength=0.4, **guided, **scores),
    ]


def refined_call(base, folder, seed, **arguments):
    """The base model, and the refiner of the golden `refiner` for the rest of the steps."""
    own = refiner_parts(folder.parent / "refiner", GOLDENS["refiner"][1])
    shared = dict(text_encoder_2=base.text_encoder_2, tokenizer_2=base.tokenizer_2, vae=base.vae)
    refiner = StableDiffusionXLImg2ImgPipeline(**own | shared, **REFINER)
    refiner.set_progress_bar_config(disable=True)
    share = arguments.pop("refiner_start")
    latents = base(generator=generator(seed), output_type="latent", denoising_end=share, **arguments).images
    seen = {}

    def keep(_pipeline, step, _timestep, state):
        seen["latents"] = state["latents"]
        return state

    call = dict(arguments)
    call.pop("height"), call.pop("width")
    scores = dict(aesthetic_score=7.5, negative_aesthetic_score=2.0)
    size = (arguments["height"], arguments["width"])
    image = refiner(image=latents, denoising_start=share, generator=generator(seed), output_type="pt", original_size=size,
                    callback_on_step_end=keep, **scores, **call).images  # fmt: skip
    return Call("refined", "a picture", {"seed": seed, "refiner_start": share, **scores, **arguments}, {},
                {"latents": seen["latents"], "image": image[0].permute(1, 2, 0)})  # fmt: skip


GOLDENS = {
    "sd15": ("Stable Diffusion 1.5, tiny", 61, *unet_golden(SD15, [("even", (8, 12), 981), ("odd", (7, 5), 1.5)])),
    "sdxl": ("Stable Diffusion XL, tiny", 63, *unet_golden(SDXL, [("even", (8, 4), 501), ("odd", (6, 10), 999)])),
    "heads": ("Stable Diffusion 1.5, heads", 65, *unet_golden(HEADS, [("one", (8, 8), 261, 77)])),
    "pipeline": ("Stable Diffusion 1.5, pipeline", 71, build_sd, sd_calls),
    "inpainting": ("Stable Diffusion 1.5, inpainting", 73, build_inpainting, inpainting_calls),
    "lcm": ("Latent consistency, pipeline", 83, build_lcm, lcm_calls),
    "xl_pipeline": ("Stable Diffusion XL, pipeline", 79, build_sdxl, sdxl_calls),
    "playground": ("Playground 2.5, pipeline", 97, build_playground, playground_calls),
    "edit": ("InstructPix2Pix, pipeline", 101, build_edit, edit_calls),
    "cosxl_edit": ("CosXL Edit, pipeline", 103, build_cosxl_edit, cosxl_edit_calls),
    "depth": ("Stable Diffusion 2 depth, pipeline", 107, build_depth, depth_calls),
    "refiner": ("Stable Diffusion XL refiner, pipeline", 89, build_refiner, refiner_calls),
    "single": ("Stable Diffusion 1.5, single files", 109, build_single, single_calls),
    "v2_single": ("Stable Diffusion 2.1 with v, single files", 127, build_v2_single, v2_single_calls),
    "xl_single": ("Stable Diffusion XL, single files", 113, build_xl_single, xl_single_calls),
    "pruned": ("Stable Diffusion, pruned and distilled", 67, *unet_golden(PRUNED, [("one", (6, 8), 341)])),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
