"""Makes the goldens under tests/goldens/wan.

    python3 tools/reference/wan.py                 # make all
    python3 tools/reference/wan.py NAME ...        # make some
    python3 tools/reference/wan.py --check [NAME]  # read the stored ones back and run them again
    python3 tools/reference/wan.py --inside NAME   # with what is inside, to find where a model goes wrong
"""

import json
import sys

import numpy as np
import torch
from diffusers import (
    FlowMatchEulerDiscreteScheduler,
    FlowMatchHeunDiscreteScheduler,
    FlowMatchLCMScheduler,
    UniPCMultistepScheduler,
    WanImageToVideoPipeline,
    WanPipeline,
    WanTransformer3DModel,
    WanVACEPipeline,
)
from transformers import PreTrainedTokenizerFast, UMT5Config, UMT5EncoderModel

import tokenizer
import wan_animate
import wan_pipelines
import wan_tiles
from common import (
    GOLDENS,
    check_golden,
    exact,
    fresh_folder,
    generator,
    normal,
    randomise,
    rescale,
    without_inside,
    write_golden,
)
from pipeline import run_pipeline
from seeded import keep_seed
from wan_models import (
    attention_calls,
    build_attention,
    build_conditioned,
    build_transformer,
    build_umt5,
    build_vae,
    build_vision,
    conditioned_calls,
    make_vae,
    smooth_video,
    transformer_calls,
    umt5_calls,
    vae_calls,
    vision_calls,
)

VOCABULARY = 448


def save_pipeline(folder, seed, scheduler, vae_config, expand_timesteps):
    """A whole pipeline in float16: text width 64, two layers of two heads of 32."""
    text = UMT5EncoderModel(
        UMT5Config(vocab_size=VOCABULARY, d_model=64, d_kv=32, num_heads=2, d_ff=96, num_layers=2)
    )
    randomise(text, seed)
    transformer = WanTransformer3DModel(
        num_attention_heads=2, attention_head_dim=32, in_channels=16, out_channels=16,
        text_dim=64, ffn_dim=160, num_layers=2, rope_max_seq_len=64,
    )  # fmt: skip
    randomise(transformer, seed + 10)
    rng = generator(seed + 11)
    with exact():
        sample = transformer(
            normal(rng, 1, 16, 2, 8, 8), torch.tensor([500.0]), normal(rng, 1, 8, 64)
        ).sample
    rescale(transformer.proj_out, 1.0 / sample.std().item())
    vae = make_vae(seed + 20, **vae_config)
    tokenizer.build(folder / "tokenizer", VOCABULARY)
    pipe = WanPipeline(
        tokenizer=PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer/tokenizer.json")),
        text_encoder=text.half(),
        vae=vae.half(),
        scheduler=scheduler,
        transformer=transformer.half(),
        expand_timesteps=expand_timesteps,
    )
    pipe.save_pretrained(folder)
    # transformers 5 would name a class here that transformers 4 does not have, and would rewrite
    # the tokenizer's files.
    index = json.loads((folder / "model_index.json").read_text())
    index["tokenizer"] = ["transformers", "PreTrainedTokenizerFast"]
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    fresh_folder(folder / "tokenizer")
    tokenizer.build(folder / "tokenizer", VOCABULARY)
    keep_seed(folder / "text_encoder", text, seed)
    keep_seed(folder / "transformer", transformer, seed + 10)
    keep_seed(folder / "vae", vae, seed + 20)


def picture(seed, height, width):
    pixels = smooth_video(generator(seed), 1, 1, height, width)[0, :, 0].permute(1, 2, 0)
    return ((pixels * 0.5 + 0.5) * 255).round().to(torch.uint8).numpy().astype(np.uint8)


def clip(seed, frames, height, width):
    return np.stack([picture(seed + i, height, width) for i in range(frames)])


def t2v_calls(folder):
    return [
        run_pipeline(folder, "image", "a red circle on the left", "blurry, low quality",
                     64, 64, 1, 42, 3, 3.5, 512),
        run_pipeline(folder, "clip5", "  A Red circle &amp;amp; a\tblue   square ", "",
                     48, 32, 5, 42, 4, 1.0, 64),
        run_pipeline(folder, "clip9", "three green stars, unusually \u2603 small", "",
                     32, 48, 9, 1234567, 8, 5.0, 512),
        run_pipeline(folder, "from_clip9", "a green moon", "dark",
                     48, 32, 9, 5, 5, 3.0, 512, video=clip(30, 9, 32, 48), strength=0.7),
        run_pipeline(folder, "from_clip1", "two blue squares", "",
                     32, 32, 1, 6, 4, 1.0, 64, video=clip(40, 1, 32, 32), strength=1.0),
    ]  # fmt: skip


def sampled(name, cls, folder, *request):
    """A call with another scheduler; what noise that draws comes from the generator of the latents."""

    def adapt(pipe):
        pipe.scheduler = cls(shift=3.0)
        held = {}
        prepare, step = pipe.prepare_latents, pipe.scheduler.step

        def prepare_latents(*args):
            held["generator"] = next(arg for arg in args if isinstance(arg, torch.Generator))
            return prepare(*args)

        def next_step(*args, **kwargs):
            return step(*args, generator=held["generator"], **kwargs)

        pipe.prepare_latents, pipe.scheduler.step = prepare_latents, next_step

    call = run_pipeline(folder, name, *request, adapt=adapt)
    call.args["sampler"] = name
    return call


def ti2v_calls(folder):
    return [
        sampled("lcm", FlowMatchLCMScheduler, folder, "a red ring turns", "",
                48, 32, 5, 45, 4, 1.0, 64),
        sampled("heun", FlowMatchHeunDiscreteScheduler, folder, "a red ring", "dark",
                48, 32, 1, 46, 3, 2.0, 64),
        run_pipeline(folder, "image", "a yellow flower, high quality", "blurry, low quality",
                     64, 64, 1, 42, 4, 3.5, 512),
        run_pipeline(folder, "clip5", "a purple heart moves right", "",
                     48, 32, 5, 42, 4, 1.0, 64),
        run_pipeline(folder, "from_image", "a cat grows", "low quality",
                     48, 32, 5, 42, 4, 3.5, 512, picture(7, 32, 48)),
        run_pipeline(folder, "from_resized_image", "a dog spins", "",
                     32, 48, 5, 43, 3, 2.0, 64, picture(8, 70, 41)),
        run_pipeline(folder, "from_clip9", "a cyan ring", "low quality",
                     48, 32, 9, 44, 4, 3.5, 512, video=clip(50, 9, 32, 48), strength=0.6),
    ]  # fmt: skip


TRANSFORMER_TINY = dict(
    num_attention_heads=2, attention_head_dim=12, in_channels=16, out_channels=16, text_dim=32,
    ffn_dim=32, num_layers=2, rope_max_seq_len=32,
)  # fmt: skip
TRANSFORMER_32 = dict(
    num_attention_heads=3, attention_head_dim=32, in_channels=16, out_channels=16, text_dim=64,
    ffn_dim=192, num_layers=2, rope_max_seq_len=64,
)  # fmt: skip
TRANSFORMER_128 = dict(
    num_attention_heads=2, attention_head_dim=128, in_channels=16, out_channels=16, text_dim=256,
    ffn_dim=512, num_layers=2, rope_max_seq_len=64,
)  # fmt: skip
VAE_21 = dict(
    base_dim=8, z_dim=4, dim_mult=[1, 2, 3, 3], num_res_blocks=2,
    temperal_downsample=[False, True, True], scale_factor_spatial=8,
)  # fmt: skip
VAE_22 = dict(
    base_dim=8, decoder_base_dim=12, z_dim=16, dim_mult=[1, 1, 2, 2], num_res_blocks=1,
    temperal_downsample=[False, True, True], is_residual=True, in_channels=12, out_channels=12,
    patch_size=2, scale_factor_spatial=16,
)  # fmt: skip
PIPELINE_VAE_21 = dict(
    base_dim=8, z_dim=16, dim_mult=[1, 2, 2, 2], num_res_blocks=1,
    temperal_downsample=[False, True, True], scale_factor_spatial=8,
)  # fmt: skip
PIPELINE_VAE_22 = dict(
    base_dim=8, decoder_base_dim=12, z_dim=16, dim_mult=[1, 2, 2], num_res_blocks=1,
    temperal_downsample=[True, True], is_residual=True, in_channels=12, out_channels=12,
    patch_size=2, scale_factor_spatial=8,
)  # fmt: skip

UMT5_TINY = dict(d_model=32, num_heads=2, d_kv=16, d_ff=64, num_layers=2, vocab_size=300)
UMT5_64 = dict(d_model=256, num_heads=4, d_kv=64, d_ff=512, num_layers=2, vocab_size=300)


def unipc():
    return UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0,
        num_train_timesteps=1000,
    )  # fmt: skip


# name -> (description, seed, build(folder, seed), calls(folder, seed))
TABLE = {
    "umt5-tiny": (
        "UMT5 encoder, float32, one file",
        100,
        lambda f, s: build_umt5(f, s, **UMT5_TINY),
        lambda f, s: umt5_calls(
            f, s, {"batch40": ([5, 17, 40], 40), "one512": ([512], 512), "pad512": ([9], 512)}, True
        ),
    ),
    "umt5-hd64": (
        "UMT5 encoder, bfloat16, several files with an index",
        110,
        lambda f, s: build_umt5(f, s, torch.bfloat16, "1MB", **UMT5_64),
        lambda f, s: umt5_calls(f, s, {"batch40": ([5, 17, 40], 40), "pad512": ([33], 512)}),
    ),
    "transformer-tiny": (
        "WanTransformer3DModel, heads of 12, float32",
        200,
        lambda f, s: build_transformer(f, s, **TRANSFORMER_TINY),
        lambda f, s: transformer_calls(f, s, distinct=True),
    ),
    "transformer-hd32": (
        "WanTransformer3DModel, heads of 32, float16",
        210,
        lambda f, s: build_transformer(f, s, torch.float16, **TRANSFORMER_32),
        transformer_calls,
    ),
    "transformer-hd128": (
        "WanTransformer3DModel, heads of 128, bfloat16 with norms, tables and time embedder float32",
        220,
        lambda f, s: build_transformer(f, s, torch.bfloat16, mixed=True, **TRANSFORMER_128),
        transformer_calls,
    ),
    "transformer-i2v-tiny": (
        "WanTransformer3DModel of the 2.1 I2V kind: keys and values of an image",
        230,
        lambda f, s: build_conditioned(
            f, s, **TRANSFORMER_TINY | dict(in_channels=36, image_dim=20, added_kv_proj_dim=24)
        ),
        conditioned_calls,
    ),
    "transformer-flf2v-tiny": (
        "WanTransformer3DModel of the 2.1 FLF2V kind: two images with positions",
        235,
        lambda f, s: build_conditioned(
            f, s, **TRANSFORMER_TINY
            | dict(in_channels=36, image_dim=20, added_kv_proj_dim=24, pos_embed_seq_len=10)
        ),
        lambda f, s: conditioned_calls(f, s, images=2),
    ),
    "transformer-vace-tiny": (
        "WanVACETransformer3DModel, heads of 12, control blocks at 0 and 2",
        240,
        lambda f, s: build_conditioned(
            f, s, True, **TRANSFORMER_TINY | dict(num_layers=3, vace_layers=[0, 2], vace_in_channels=96)
        ),
        lambda f, s: conditioned_calls(f, s, vace=True),
    ),
    "transformer-tiles-tiny": (
        "WanTransformer3DModel with the gates of video sparse attention, heads of 12",
        245,
        lambda f, s: wan_tiles.build(f, s, **TRANSFORMER_TINY | dict(in_channels=4, out_channels=4)),
        wan_tiles.calls,
    ),
    "vision-tiny": (
        "CLIPVisionModel, heads of 20, quick_gelu, float32",
        250,
        lambda f, s: build_vision(
            f, s, hidden_size=40, intermediate_size=48, num_hidden_layers=3, num_attention_heads=2,
            image_size=28, patch_size=14,
        ),
        vision_calls,
    ),
    "vision-hd80": (
        "CLIPVisionModel, heads of 80, gelu, as Wan 2.1 has them",
        260,
        lambda f, s: build_vision(
            f, s, hidden_size=160, intermediate_size=256, num_hidden_layers=2, num_attention_heads=2,
            image_size=42, patch_size=14, hidden_act="gelu",
        ),
        vision_calls,
    ),
    "vae21-tiny": (
        "AutoencoderKLWan of the 2.1 kind, float32",
        300,
        lambda f, s: build_vae(f, s, **VAE_21),
        vae_calls,
    ),
    "vae22-tiny": (
        "AutoencoderKLWan of the 2.2 kind (residual shortcuts, pixel patches), float16",
        310,
        lambda f, s: build_vae(f, s, torch.float16, **VAE_22),
        vae_calls,
    ),
    "vae-attention-wide": (
        "middle attention of AutoencoderKLWan at the width of Wan 2.1, float16; no config.json",
        320,
        lambda f, s: build_attention(f, s, 384),
        lambda f, s: attention_calls(f, s, 384),
    ),
    "pipeline-t2v": (
        "WanPipeline of the 2.1 kind: UniPC, scalar timesteps",
        400,
        lambda f, s: save_pipeline(f, s, unipc(), PIPELINE_VAE_21, False),
        lambda f, _: t2v_calls(f),
    ),
    "pipeline-ti2v": (
        "WanPipeline of the 2.2 TI2V kind: FlowMatchEuler, timesteps per token",
        500,
        lambda f, s: save_pipeline(
            f, s, FlowMatchEulerDiscreteScheduler(shift=3.0), PIPELINE_VAE_22, True
        ),
        lambda f, _: ti2v_calls(f),
    ),
    "pipeline-t2v-experts": (
        "WanPipeline of the 2.2 A14B kind: two experts, heads of 128",
        600,
        lambda f, s: wan_pipelines.save(
            f, s, WanPipeline, [dict(heads=1, head_dim=128)] * 2, boundary_ratio=0.875
        ),
        lambda f, _: wan_pipelines.experts_calls(f),
    ),
    "pipeline-i2v-experts": (
        "WanImageToVideoPipeline of the 2.2 A14B kind: two experts, 36 channels, no image encoder",
        650,
        lambda f, s: wan_pipelines.save(
            f, s, WanImageToVideoPipeline, [dict(channels=36)] * 2, boundary_ratio=0.9
        ),
        lambda f, _: wan_pipelines.first_frame_calls(f, "maybe"),
    ),
    "pipeline-i2v": (
        "WanImageToVideoPipeline of the 2.1 kind: image encoder, heads of 128",
        700,
        lambda f, s: wan_pipelines.save(
            f, s, WanImageToVideoPipeline, [dict(channels=36, image_dim=160, heads=1, head_dim=128)],
            vision=True,
        ),
        lambda f, _: wan_pipelines.first_frame_calls(f, "never"),
    ),
    "pipeline-flf2v": (
        "WanImageToVideoPipeline of the 2.1 kind for first and last frames: positions of both images",
        750,
        lambda f, s: wan_pipelines.save(
            f, s, WanImageToVideoPipeline, [dict(channels=36, image_dim=160, images=2)], 16.0, vision=True
        ),
        lambda f, _: wan_pipelines.first_frame_calls(f, "always"),
    ),
    "pipeline-vace": (
        "WanVACEPipeline: control clips, masks, reference images; heads of 128",
        800,
        lambda f, s: wan_pipelines.save(
            f, s, WanVACEPipeline, [dict(vace=True, heads=1, head_dim=128)]
        ),
        lambda f, _: wan_pipelines.control_calls(f),
    ),
    "pipeline-vace-experts": (
        "WanVACEPipeline of the 2.2 VACE-Fun A14B kind: two experts, control pictures, a mask, a reference image",
        850,
        lambda f, s: wan_pipelines.save(
            f, s, WanVACEPipeline, [dict(vace=True), dict(vace=True)], boundary_ratio=0.875
        ),
        lambda f, _: wan_pipelines.expert_control_calls(f),
    ),
    "transformer-animate-tiny": (
        "WanAnimate2Transformer3DModel, heads of 12, float32; ten layers, of which the negative prompt leaves one out",
        900,
        lambda f, s: wan_animate.build_transformer(f, s, heads=2, head_dim=12, layers=10, text_dim=20, ffn_dim=40),
        wan_animate.transformer_calls,
    ),
    "transformer-animate-hd128": (
        "WanAnimate2Transformer3DModel, heads of 128, bfloat16",
        910,
        lambda f, s: wan_animate.build_transformer(f, s, torch.bfloat16, heads=2, head_dim=128, layers=2),
        lambda f, s: wan_animate.transformer_calls(f, s, ["prompt"]),
    ),
    "pipeline-animate": (
        "WanAnimate2Blocks: DPM-Solver++, one clip and two, heads of 128",
        950,
        wan_animate.save_pipeline,
        lambda f, _: wan_animate.pipeline_calls(f),
    ),
}


def main():
    arguments = sys.argv[1:]
    checking = "--check" in arguments
    inside = "--inside" in arguments
    names = [name for name in arguments if not name.startswith("--")] or list(TABLE)
    for name in names:
        description, seed, build, calls = TABLE[name]
        folder = GOLDENS / name
        if not checking:
            fresh_folder(folder)
            torch.manual_seed(seed)
            with exact():
                build(folder, seed)
                made = calls(folder, seed)
            write_golden(folder, description, seed, made if inside else without_inside(made))
            for path in folder.rglob("*.safetensors"):
                path.chmod(0o644)
        with exact():
            again = calls(folder, seed)
        worst = check_golden(folder, again if inside else without_inside(again))
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        print(f"{name}: {size / 1e6:.2f} MB, worst difference when read back {worst:.1e}")


if __name__ == "__main__":
    main()
