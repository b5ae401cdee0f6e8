"""Makes the goldens of AuraFlow under tests/goldens/auraflow.

    python3 tools/reference/auraflow.py                 # make all
    python3 tools/reference/auraflow.py NAME ...        # make some
    python3 tools/reference/auraflow.py --check [NAME]  # read the stored ones back and run them again

`pipeline` is a folder as it is published, but for the weights, which are drawn from the seeds in the seeded.json of each
component. diffusers has no pipeline of it for a start from an image and for masks: `picture` and `masked` begin and go on as
those of Stable Diffusion 3 do.
"""

import json

import tokenizers
import torch
from diffusers import AuraFlowPipeline, AuraFlowTransformer2DModel, AutoencoderKL, FlowMatchEulerDiscreteScheduler
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast, UMT5Config, UMT5EncoderModel

import common
from adapter_pairs import save_adapters
from common import Call, generator, make_goldens, normal
from given_images import given_calls, image_call
from qwen_image import picture, quiet
from seeded import seed_weights
from unigram import corpus, write_json

FOLDER = common.GOLDENS.parent / "auraflow"

# Widths that fill no vector of four but in the heads; a table of five by five places.
TINY = dict(sample_size=10, in_channels=3, out_channels=3, num_mmdit_layers=1, num_single_dit_layers=1, attention_head_dim=12,
            num_attention_heads=3, joint_attention_dim=18, caption_projection_dim=36, pos_embed_max_size=25)
# Heads of 256, as published.
SMALL = dict(sample_size=32, in_channels=4, out_channels=4, num_mmdit_layers=1, num_single_dit_layers=2, attention_head_dim=256,
             num_attention_heads=1, joint_attention_dim=64, caption_projection_dim=256, pos_embed_max_size=1024)
TEXT = dict(vocab_size=900, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4, feed_forward_proj="gated-gelu")
VAE = dict(down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
           block_out_channels=(32, 64), layers_per_block=1, latent_channels=4, norm_num_groups=32, sample_size=64,
           scaling_factor=0.13025)


def tokenizer(folder):
    """BPE with byte fallback, as Llama has it, and an end of every text."""
    if not (folder / "tokenizer.json").exists():
        trained = tokenizers.Tokenizer(models.BPE())
        trained.normalizer = normalizers.Replace(" ", "\u2581")
        trained.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        lines = [word for line in corpus(4, 4000) for word in line.replace(" ", " \u2581").split(" ")]
        trained.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=520, show_progress=False, limit_alphabet=120))
        model = json.loads(trained.to_str())["model"]
        special = ["<unk>", "<s>", "</s>"]
        pieces = [*special, *(f"<0x{byte:02X}>" for byte in range(256)), *model["vocab"]]
        vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
        while len(vocabulary) < 900:
            vocabulary[f"<unused{len(vocabulary)}>"] = len(vocabulary)
        merges = [tuple(pair) for pair in model["merges"]]
        own = tokenizers.Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        own.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
        own.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
        own.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)])
        fast = PreTrainedTokenizerFast(tokenizer_object=own, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="</s>")
        fast.save_pretrained(folder)
        write_json(folder / "tokenizer.json", json.loads((folder / "tokenizer.json").read_text()))
    return PreTrainedTokenizerFast.from_pretrained(folder)


def transformer(folder, seed, config):
    model = AuraFlowTransformer2DModel(**config)
    model.save_config(folder)
    tables = {"pos_embed.pos_embed": (0.0, 0.5), "register_tokens": (0.0, 0.5)}
    return seed_weights(folder, model, seed, overrides=tables)


def forward_call(model, name, seed, size, tokens, timestep):
    rng = generator(seed)
    config = model.config
    latents = normal(rng, 1, config.in_channels, *size)
    states = normal(rng, 1, tokens, config.joint_attention_dim)
    output = model(latents, states, torch.tensor([timestep / 1000]), return_dict=False)[0]
    return Call(name, "the transformer's output", {"timestep": timestep}, {"latents": latents, "states": states}, {"output": output})


def tiny_calls(folder, seed):
    model = transformer(folder, seed, TINY)
    return [forward_call(model, "odd", seed + 1, (10, 6), 7, 1000.0), forward_call(model, "wide", seed + 2, (4, 8), 5, 437.5)]


def components(folder, seed):
    """The parts of the pipeline, their configurations and rules written."""
    for name in ("transformer", "text_encoder", "vae", "scheduler", "tokenizer"):
        (folder / name).mkdir(exist_ok=True, parents=True)
    text = UMT5EncoderModel(UMT5Config(**TEXT))
    text.config.save_pretrained(folder / "text_encoder")
    vae = AutoencoderKL(**VAE)
    vae.save_config(folder / "vae")
    scheduler = FlowMatchEulerDiscreteScheduler(num_train_timesteps=1000, shift=1.73)
    scheduler.save_config(folder / "scheduler")
    index = {
        "_class_name": "AuraFlowPipeline",
        "_diffusers_version": "0.42.1",
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "UMT5EncoderModel"],
        "tokenizer": ["transformers", "LlamaTokenizerFast"],
        "transformer": ["diffusers", "AuraFlowTransformer2DModel"],
        "vae": ["diffusers", "AutoencoderKL"],
    }
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    biases = {name: (0.0, 1.0) for name, _ in text.named_parameters() if "relative_attention_bias" in name}
    return {
        "text_encoder": seed_weights(folder / "text_encoder", text, seed, overrides={**biases, "shared.weight": (0.0, 1.0)}),
        "transformer": transformer(folder / "transformer", seed + 1, SMALL),
        "vae": seed_weights(folder / "vae", vae, seed + 2),
        "scheduler": scheduler,
        "tokenizer": tokenizer(folder / "tokenizer"),
    }


# Modules under the original names, and what they are in diffusers.
ADAPTED = {
    "double_layers.0.attn.w2q": ["joint_transformer_blocks.0.attn.to_q"],
    "double_layers.0.attn.w1o": ["joint_transformer_blocks.0.attn.to_add_out"],
    "double_layers.0.mlpC.c_fc1": ["joint_transformer_blocks.0.ff_context.linear_1"],
    "double_layers.0.modX.1": ["joint_transformer_blocks.0.norm1.linear"],
    "single_layers.1.attn.w1v": ["single_transformer_blocks.1.attn.to_v"],
    "single_layers.0.mlp.c_proj": ["single_transformer_blocks.0.ff.out_projection"],
}

PROMPT = "a bright red Cat sleeps under the ancient mountain, 一只红色的猫, cinematic light at 3:45 in the morning"


def encode(pipeline, pixels, rng):
    return pipeline.vae.encode(pixels).latent_dist.sample(rng) * pipeline.vae.config.scaling_factor


def set_levels(pipeline, steps, begin, _latents):
    scheduler = pipeline.scheduler
    scheduler.set_timesteps(steps)
    # The file's shift is in them, and the scheduler adds it to those that it is given.
    shift = scheduler.config.shift
    levels = [float(s / (shift - (shift - 1) * s)) for s in scheduler.sigmas[begin:-1].double()]
    scheduler.set_timesteps(sigmas=levels)
    return levels


given_call = given_calls(image_call, encode, set_levels)


def pipeline_calls(folder, seed):
    pipeline = quiet(AuraFlowPipeline(**components(folder, seed)))
    size = dict(height=40, width=56)
    small = dict(height=24, width=40)
    rng = generator(seed + 9)
    mask = torch.zeros(40, 56, dtype=torch.uint8)
    mask[8:28, 20:48] = 255
    guided = dict(prompt="a red cat", negative_prompt=PROMPT, guidance_scale=4.0, max_sequence_length=64, **size)
    alone = dict(prompt=PROMPT, guidance_scale=1.0, max_sequence_length=128, **size)
    calls = [
        image_call(pipeline, "text", 7, num_inference_steps=4, **alone),
        image_call(pipeline, "guided", 8, num_inference_steps=3, **guided),
        image_call(pipeline, "usual", 9, prompt="a Red CAT", guidance_scale=2.0, num_inference_steps=2, **small),
        given_call(pipeline, "picture", 11, picture(rng, 40, 56), 0.6, 5, **guided),
        given_call(pipeline, "masked", 13, picture(rng, 40, 56), 0.7, 4, mask, **alone),
    ]
    pipeline.transformer.load_lora_adapter(folder / "adapter.safetensors", adapter_name="one", prefix="transformer")
    pipeline.transformer.set_adapters("one", 0.7)
    adapted = image_call(pipeline, "adapted", 12, prompt="a red cat", guidance_scale=1.0, num_inference_steps=2, max_sequence_length=32,
                         args={"strength": 0.7}, **small)
    pipeline.transformer.unload_lora()
    return [*calls, adapted]


def build_pipeline(folder, seed):
    components(folder, seed)
    save_adapters(folder, AuraFlowTransformer2DModel(**SMALL), seed + 20, ADAPTED)


GOLDENS = {
    "tiny": ("AuraFlow, tiny", 801, lambda folder, seed: transformer(folder, seed, TINY), tiny_calls),
    "pipeline": ("AuraFlow, pipeline", 807, build_pipeline, pipeline_calls),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
