"""Makes the golden of Kolors, tests/goldens/stable_diffusion/kolors.

    python3 tools/reference/kolors.py           # make it
    python3 tools/reference/kolors.py --check   # read the stored one back and run it again

diffusers has no pipeline of it for masks: `masked` is SDXL's, which is given what the text encoder makes of the prompts.
"""

import json

from diffusers import (
    AutoencoderKL,
    EulerDiscreteScheduler,
    KolorsImg2ImgPipeline,
    KolorsPipeline,
    StableDiffusionXLInpaintPipeline,
    UNet2DConditionModel,
)
from diffusers.pipelines.kolors.text_encoder import ChatGLMConfig, ChatGLMModel
from diffusers.pipelines.kolors.tokenizer import ChatGLMTokenizer

import common
import stable_diffusion as sd
from common import make_goldens
from seeded import seed_weights
from unigram import CHINESE, WORDS

FOLDER = common.GOLDENS.parent / "stable_diffusion"

# Heads as wide as in the published model.
TEXT = dict(num_layers=3, hidden_size=64, ffn_hidden_size=96, kv_channels=128, num_attention_heads=4,
            multi_query_attention=True, multi_query_group_num=2, add_qkv_bias=True, rmsnorm=True, layernorm_epsilon=1e-5,
            post_layer_norm=True, add_bias_linear=False, apply_query_key_layer_scaling=True, attention_softmax_in_fp32=True,
            original_rope=True, seq_length=8192)
# A model that its single files tell all of: heads of 64, groups of 32 channels.
UNET = sd.UNET_XL_SINGLE | dict(encoder_hid_dim=64, encoder_hid_dim_type="text_proj",
                                projection_class_embeddings_input_dim=64 + 6 * 256)  # fmt: skip
VAE = sd.VAE | sd.VAE_SINGLE | dict(scaling_factor=0.13025, force_upcast=True)
BETAS = dict(beta_start=0.00085, beta_end=0.014, beta_schedule="scaled_linear", num_train_timesteps=1100, steps_offset=1)
# Without a size it would take that of the UNet's configuration.
sd.SIZED += (KolorsImg2ImgPipeline,)
PROMPT = "一只红色的猫在城市里慢慢走着, a bright red cat sleeps under the ancient mountain"
SPECIAL = 9


def tokenizer_of(folder):
    if not (folder / "tokenizer.model").exists():
        import sentencepiece as spm

        folder.mkdir(parents=True, exist_ok=True)
        texts = folder / "texts.txt"
        texts.write_text("\n".join([WORDS["en"], WORDS["de"], " ".join(CHINESE)] * 4))
        spm.SentencePieceTrainer.train(input=str(texts), model_prefix=str(folder / "tokenizer"), vocab_size=640, model_type="bpe",
                                       byte_fallback=True, character_coverage=0.99, minloglevel=2,
                                       normalization_rule_name="identity")
        texts.unlink()
        (folder / "tokenizer.vocab").unlink()
        config = {"tokenizer_class": "ChatGLMTokenizer", "padding_side": "left", "remove_space": False, "do_lower_case": False}
        (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
    return ChatGLMTokenizer(str(folder / "tokenizer.model"))


def components(folder, seed):
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = tokenizer_of(folder / "tokenizer")
    words = tokenizer.tokenizer.sp_model.vocab_size() + SPECIAL
    text = ChatGLMModel(ChatGLMConfig(padded_vocab_size=words + 3, **TEXT))
    unet = UNet2DConditionModel(**UNET)
    vae = AutoencoderKL(**VAE)
    (folder / "text_encoder").mkdir(exist_ok=True)
    text.config.save_pretrained(folder / "text_encoder")
    seed_weights(folder / "text_encoder", text, seed)
    for i, (name, part) in enumerate((("unet", unet), ("vae", vae)), 1):
        part.save_config(folder / name)
        seed_weights(folder / name, part, seed + i)
    scheduler = EulerDiscreteScheduler(**BETAS, timestep_spacing="leading")
    scheduler.save_config(folder / "scheduler")
    parts = dict(text_encoder=text, unet=unet, vae=vae, tokenizer=tokenizer, scheduler=scheduler)
    index = {"_class_name": "KolorsPipeline", "_diffusers_version": "0.42.1", "force_zeros_for_empty_prompt": True}
    own = {"text_encoder": ["kolors", "ChatGLMModel"], "tokenizer": ["kolors", "ChatGLMTokenizer"]}
    index |= {name: own.get(name, ["diffusers", type(part).__name__]) for name, part in parts.items()}
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    return parts


def masked_call(pipeline, name, seed, prompt, negative_prompt, **arguments):
    embeds, negative, pooled, negative_pooled = pipeline.encode_prompt(prompt, negative_prompt=negative_prompt)
    inpaint = StableDiffusionXLInpaintPipeline(vae=pipeline.vae, unet=pipeline.unet, scheduler=pipeline.scheduler, text_encoder=None,
                                               text_encoder_2=None, tokenizer=None, tokenizer_2=None,
                                               force_zeros_for_empty_prompt=False)
    inpaint.set_progress_bar_config(disable=True)
    call = sd.picture_call(inpaint, name, seed, prompt_embeds=embeds, negative_prompt_embeds=negative, pooled_prompt_embeds=pooled,
                           negative_pooled_prompt_embeds=negative_pooled, **arguments)
    call.args = {key: value for key, value in call.args.items() if "embeds" not in key}
    call.args |= dict(prompt=prompt, negative_prompt=negative_prompt)
    return call


# Convolutions with LoRAs are rounded, which SDXL's golden shows.
ADAPTED = {name: original for name, original in sd.ADAPTED_XL["unet"].items() if "conv" not in name}


def build(folder, seed):
    parts = components(folder, seed)
    sd.save_adapters(folder, parts, seed + 20, {"unet": ADAPTED}, "StableDiffusionXLPipeline")
    # SDXL's are read under these names.
    (folder / "adapter-kohya.safetensors").unlink()
    (folder / "adapter-diffusers.safetensors").rename(folder / "adapter.safetensors")


def calls(folder, seed):
    parts = components(folder, seed)
    pipeline, other = KolorsPipeline(**parts), KolorsImg2ImgPipeline(**parts)
    for each in (pipeline, other):
        each.set_progress_bar_config(disable=True)
    image, mask = sd.given(seed + 9, 24, 40)
    size = dict(height=24, width=40)
    guided = dict(prompt=PROMPT, negative_prompt="dark 猫", guidance_scale=5.0, num_inference_steps=3, **size)
    made = [
        sd.picture_call(pipeline, "guided", 7, **guided),
        sd.picture_call(pipeline, "empty", 8, prompt="a", negative_prompt="", guidance_scale=3.0, num_inference_steps=2, **size),
        sd.picture_call(pipeline, "cut", 9, prompt=PROMPT * 12, guidance_scale=1.0, negative_prompt="", num_inference_steps=2,
                        original_size=(48, 80), crops_coords_top_left=(3, 5), **size),
        sd.picture_call(other, "picture", 10, image=image, strength=0.6, **guided | dict(num_inference_steps=4)),
        masked_call(pipeline, "masked", 11, image=image, mask=mask, strength=0.7, **guided | dict(num_inference_steps=4)),
    ]
    pipeline.load_lora_weights(folder, weight_name="adapter.safetensors", adapter_name="one")
    pipeline.set_adapters("one", 0.7)
    adapted = sd.picture_call(pipeline, "adapted", 12, **guided)
    adapted.args["strength"] = 0.7
    pipeline.unload_lora_weights()
    return [*made, adapted]


GOLDENS = {"kolors": ("Kolors, pipeline", 121, build, calls)}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
