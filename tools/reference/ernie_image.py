"""Makes the goldens of ERNIE-Image under tests/goldens/ernie_image.

    python3 tools/reference/ernie_image.py                 # make all
    python3 tools/reference/ernie_image.py NAME ...        # make some
    python3 tools/reference/ernie_image.py --check [NAME]  # read the stored ones back and run them again

`pipeline` is a folder as it is published, but for the weights, which are drawn from the seeds in the seeded.json of each
component. diffusers has no pipeline of it for a start from an image and for masks: `picture` and `masked` begin and go on as
its pipelines of Z-Image do, with the most likely latents as FLUX.2's, whose autoencoder this is.
"""

import json

import tokenizers
import torch
from diffusers import AutoencoderKLFlux2, ErnieImagePipeline, ErnieImageTransformer2DModel, FlowMatchEulerDiscreteScheduler
from tokenizers import decoders, models, pre_tokenizers, processors, trainers
from transformers import Ministral3Config, Mistral3Config, Mistral3Model, PreTrainedTokenizerFast

import common
from adapter_pairs import save_adapter
from common import Call, generator, make_goldens, normal
from given_images import given_calls, image_call
from qwen_image import picture, quiet
from seeded import seed_weights
from unigram import corpus, write_json

FOLDER = common.GOLDENS.parent / "ernie_image"

# Widths that fill no vector of four but in the heads.
TINY = dict(hidden_size=36, num_attention_heads=3, num_layers=2, ffn_hidden_size=50, in_channels=10, out_channels=10,
            text_in_dim=18, rope_axes_dim=(4, 4, 4))
# Heads of 128, every width a multiple of 256.
SMALL = dict(hidden_size=256, num_attention_heads=2, num_layers=2, ffn_hidden_size=512, in_channels=32, out_channels=32,
             text_in_dim=512)
YARN = dict(type="yarn", rope_type="yarn", rope_theta=1e6, factor=16.0, original_max_position_embeddings=16384, beta_fast=32.0,
            beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1)
TEXT = dict(vocab_size=912, hidden_size=512, intermediate_size=256, num_hidden_layers=3, num_attention_heads=2,
            num_key_value_heads=1, head_dim=128, rope_parameters=YARN)
VISION = dict(hidden_size=16, intermediate_size=20, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)
VAE = dict(down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
           block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8, latent_channels=8)
SCHEDULER = dict(num_train_timesteps=1000, shift=4.0)

# How Mistral's Tekken cuts text.
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def tokenizer(folder, further=(), **options):
    """Byte-level BPE that keeps whole pieces, and begins every text with a token."""
    if not (folder / "tokenizer.json").exists():
        own = tokenizers.Tokenizer(models.BPE(ignore_merges=True))
        own.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(tokenizers.Regex(TEKKEN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ])
        own.decoder = decoders.ByteLevel()
        special = ["<unk>", "<s>", "</s>", "<pad>", *further]
        trainer = trainers.BpeTrainer(vocab_size=900, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
                                      special_tokens=special, show_progress=False)
        own.train_from_iterator(corpus(4, 4000), trainer)
        own.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
        fast = PreTrainedTokenizerFast(tokenizer_object=own, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>",
                                       **options)
        fast.save_pretrained(folder)
        write_json(folder / "tokenizer.json", json.loads((folder / "tokenizer.json").read_text()))
    return PreTrainedTokenizerFast.from_pretrained(folder)


def transformer(folder, seed, **config):
    model = ErnieImageTransformer2DModel(**config)
    model.save_config(folder)
    return seed_weights(folder, model, seed)


def forward_call(model, name, seed, rows, columns, text_tokens, timestep, pads=0):
    """A prompt of `text_tokens`, behind which `pads` are masked."""
    rng = generator(seed)
    config = model.config
    latents = normal(rng, 1, config.in_channels, rows, columns)
    states = normal(rng, 1, text_tokens + pads, config.text_in_dim)
    output = model(latents, torch.tensor([timestep]), states, torch.tensor([text_tokens]), return_dict=False)[0]
    flat = lambda x: x.flatten(2).transpose(1, 2).contiguous()
    args = {"timestep": timestep, "rows": rows, "columns": columns}
    inputs = {"latents": flat(latents), "states": states[:, :text_tokens]}
    return Call(name, "the transformer's output", args, inputs, {"output": flat(output)})


def tiny_calls(folder, seed):
    model = transformer(folder, seed, **TINY)
    return [
        forward_call(model, "odd", seed + 1, 5, 3, 7, 1000.0),
        forward_call(model, "padded", seed + 2, 2, 6, 5, 437.5, pads=4),
    ]


def components(folder, seed):
    """The parts of the pipeline, their configurations and rules written."""
    for name in ("transformer", "text_encoder", "vae", "scheduler", "tokenizer"):
        (folder / name).mkdir(exist_ok=True, parents=True)
    text = Ministral3Config(**TEXT)
    config = Mistral3Config(text_config=text, vision_config={"model_type": "pixtral", **VISION}, attn_implementation="eager")
    text_encoder = Mistral3Model(config)
    text_encoder.config.save_pretrained(folder / "text_encoder")
    vae = AutoencoderKLFlux2(**VAE)
    vae.save_config(folder / "vae")
    scheduler = FlowMatchEulerDiscreteScheduler(**SCHEDULER)
    scheduler.save_config(folder / "scheduler")
    index = {
        "_class_name": "ErnieImagePipeline",
        "_diffusers_version": "0.42.1",
        "pe": [None, None],
        "pe_tokenizer": [None, None],
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "Mistral3Model"],
        "tokenizer": ["transformers", "PreTrainedTokenizerFast"],
        "transformer": ["diffusers", "ErnieImageTransformer2DModel"],
        "vae": ["diffusers", "AutoencoderKLFlux2"],
    }
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    # Variances so small that what is added to them shows.
    statistics = [("bn.running_mean", 0.0, 0.3), ("bn.running_var", 0.02, 0.002)]
    return {
        "text_encoder": seed_weights(folder / "text_encoder", text_encoder, seed),
        "transformer": transformer(folder / "transformer", seed + 1, **SMALL),
        "vae": seed_weights(folder / "vae", vae, seed + 2, buffers=statistics),
        "scheduler": scheduler,
        "tokenizer": tokenizer(folder / "tokenizer"),
    }


# Every kind of module that trainers adapt.
ADAPTED = [
    "layers.0.self_attention.to_q",
    "layers.0.self_attention.to_v",
    "layers.0.mlp.gate_proj",
    "layers.1.self_attention.to_out.0",
    "layers.1.mlp.up_proj",
    "layers.1.mlp.linear_fc2",
    "adaLN_modulation.1",
    "text_proj",
    "final_linear",
]

PROMPT = "a bright red Cat sleeps under the ancient mountain, 一只红色的猫, cinematic light at 3:45 in the morning"


def levels_call(pipeline, *given, sigmas, **arguments):
    """An `image_call` with levels of noise, which the pipeline takes none of."""
    scheduler = pipeline.scheduler
    usual = scheduler.set_timesteps
    scheduler.set_timesteps = lambda device, **_: usual(sigmas=sigmas, device=device)
    call = image_call(pipeline, *given, **arguments)
    scheduler.set_timesteps = usual
    return call


def encode(pipeline, pixels, _rng):
    vae = pipeline.vae
    latents = pipeline._patchify_latents(vae.encode(pixels).latent_dist.mode())
    mean, var = (getattr(vae.bn, key).view(1, -1, 1, 1) for key in ("running_mean", "running_var"))
    return (latents - mean) / torch.sqrt(var + 1e-5)


def set_levels(pipeline, steps, begin, _latents):
    levels = torch.linspace(1, 0, steps + 1)[:-1][begin:]
    pipeline.scheduler.set_timesteps(sigmas=levels)
    return levels


given_call = given_calls(levels_call, encode, set_levels)


def pipeline_calls(folder, seed):
    pipeline = quiet(ErnieImagePipeline(**components(folder, seed)))
    size = dict(height=40, width=56)
    small = dict(height=24, width=40)
    rng = generator(seed + 9)
    mask = torch.zeros(40, 56, dtype=torch.uint8)
    mask[8:28, 20:48] = 255
    guided = dict(prompt="a red cat", negative_prompt=PROMPT, guidance_scale=4.0, **size)
    calls = [
        image_call(pipeline, "text", 7, prompt=PROMPT, guidance_scale=1.0, num_inference_steps=4, **size),
        image_call(pipeline, "guided", 8, num_inference_steps=3, **guided),
        image_call(pipeline, "empty", 9, prompt="a Red CAT", negative_prompt="", guidance_scale=2.0, num_inference_steps=2, **small),
        given_call(pipeline, "picture", 11, picture(rng, 40, 56), 0.6, 5, **guided),
        given_call(pipeline, "masked", 13, picture(rng, 40, 56), 0.7, 4, mask, prompt=PROMPT, guidance_scale=1.0, **size),
    ]
    pipeline.load_lora_weights(folder / "adapter.safetensors", adapter_name="one")
    pipeline.set_adapters("one", 0.7)
    adapted = image_call(pipeline, "adapted", 12, prompt=PROMPT, guidance_scale=1.0, num_inference_steps=2,
                         args={"strength": 0.7}, **small)
    pipeline.unload_lora_weights()
    return [*calls, adapted]


def build_pipeline(folder, seed):
    components(folder, seed)
    save_adapter(folder, ErnieImageTransformer2DModel(**SMALL), seed + 20, ADAPTED)


GOLDENS = {
    "tiny": ("ERNIE-Image, tiny", 101, lambda folder, seed: transformer(folder, seed, **TINY), tiny_calls),
    "pipeline": ("ERNIE-Image, pipeline", 107, build_pipeline, pipeline_calls),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
