"""Adapters in whole pipelines, of Wan, FLUX.2 and Z-Image. For lora.py."""

import tempfile
from pathlib import Path

import torch
from diffusers import ZImagePipeline

import flux2_pipeline
import z_image as z_image_models
from lora_files import AdapterFile, kohya, shapes_of
from lora_joined import flux_pair
from lora_parts import EVERY, GOLDENS, OUT, PIPELINE, SEED, SOME, shapes
from pipeline import run_pipeline


def pipeline_files():
    first = AdapterFile(SEED + 70, shapes(PIPELINE), lambda m: f"transformer.{m}", torch.float16)
    for module in SOME:
        first.low_rank(module, ("lora_A.weight", "lora_B.weight"))
    first.save(OUT / "pipeline-diffusers.safetensors")
    second = AdapterFile(SEED + 71, shapes(PIPELINE), lambda m: f"lora_unet_{kohya(m)}", torch.float16)  # fmt: skip
    for module in EVERY:
        second.low_rank(module, rank=2, alpha=1)
    second.save(OUT / "pipeline-kohya.safetensors")


def both_files():
    """One file with factors of the text encoder and of the transformer."""
    table = shapes_of(GOLDENS / PIPELINE / "text_encoder", "model.safetensors")
    text = AdapterFile(SEED + 72, table, lambda m: f"lora_te_{m.replace('.', '_')}")
    for module in ("0.SelfAttention.q", "0.SelfAttention.v", "1.DenseReluDense.wo"):
        text.low_rank(f"encoder.block.1.layer.{module}", alpha=3)
    denoiser = AdapterFile(SEED + 73, shapes(PIPELINE), lambda m: f"lora_unet_{kohya(m)}")
    for module in SOME:
        denoiser.low_rank(module, rank=2, alpha=1)
    both = AdapterFile(0, {}, None)
    both.tensors = text.tensors | denoiser.tensors
    both.save(OUT / "pipeline-both.safetensors")
    return text, denoiser


def pipeline_call(name, adapters, reference, adapt):
    made = run_pipeline(GOLDENS / PIPELINE, name, "a red circle on the left", "blurry",
                        48, 32, 1, 42, 3, 3.5, 64, adapt=adapt)  # fmt: skip
    made.args |= {
        "base": PIPELINE,
        "adapters": [{"path": path, "strength": strength} for path, strength in adapters],
        "reference": reference,
    }
    return made


def pipeline_calls(text, denoiser):
    two = [("pipeline-diffusers.safetensors", 0.8), ("pipeline-kohya.safetensors", 0.5)]

    def load_two(pipe):
        for i, (path, _) in enumerate(two):
            pipe.load_lora_weights(str(OUT), weight_name=path, adapter_name=f"adapter{i}")
        pipe.set_adapters(["adapter0", "adapter1"], [strength for _, strength in two])

    def write_both(pipe):
        for file, model in ((text, pipe.text_encoder), (denoiser, pipe.transformer)):
            state = dict(model.named_parameters())
            for module in file.changes:
                parameter = state[f"{module}.weight"]
                parameter.copy_(file.new_weight(module, parameter, 0.7))

    both = [("pipeline-both.safetensors", 0.7)]
    return [
        pipeline_call("pipeline", two, "diffusers", load_two),
        pipeline_call("pipeline-both", both, "formula", write_both),
    ]


# FLUX.2 and Z-Image: joined projections


FLUX2 = "flux2/pipeline"
FLUX2_SHAPES = {
    "img_in": [32, 32], "single_stream_modulation.lin": [96, 32],
    "double_blocks.0.img_attn.qkv": [96, 32], "double_blocks.0.txt_attn.qkv": [96, 32],
    "double_blocks.0.img_attn.proj": [32, 32], "double_blocks.0.txt_attn.proj": [32, 32],
    "double_blocks.0.img_mlp.0": [192, 32], "double_blocks.0.txt_mlp.2": [32, 96],
    "single_blocks.1.linear1": [288, 32], "single_blocks.0.linear2": [32, 128],
}  # fmt: skip


def flux2_files():
    original_names = AdapterFile(SEED + 80, FLUX2_SHAPES, lambda m: f"diffusion_model.{m}")
    for module in FLUX2_SHAPES:
        original_names.low_rank(module, ("lora_A.weight", "lora_B.weight"))
    original_names.save(OUT / "flux2-original.safetensors")
    flat = AdapterFile(SEED + 81, FLUX2_SHAPES, lambda m: f"lora_unet_{m.replace('.', '_')}")
    for module in list(FLUX2_SHAPES)[2:]:
        flat.low_rank(module, alpha=3)
    flat.save(OUT / "flux2-kohya.safetensors")
    lokr = AdapterFile(SEED + 82, FLUX2_SHAPES, lambda m: f"diffusion_model.{m}")
    # Of 4 blocks, which do not end where those of q, k and v do.
    for module in ("double_blocks.0.img_attn.qkv", "double_blocks.0.txt_attn.qkv"):
        lokr.lokr(module, True, False, split=(4, 4))
    lokr.lokr("single_blocks.1.linear1", True, True, split=(4, 4))
    lokr.save(OUT / "flux2-lokr.safetensors")


def flux2_call(name, adapters):
    def load_all(pipe):
        for i, (path, _) in enumerate(adapters):
            pipe.load_lora_weights(str(OUT), weight_name=path, adapter_name=f"adapter{i}")
        pipe.set_adapters([f"adapter{i}" for i in range(len(adapters))], [s for _, s in adapters])

    made = flux2_pipeline.run(GOLDENS / FLUX2, name, "a red circle", 48, 32, 5, 2, 1.0, 64, adapt=load_all)  # fmt: skip
    listed = [{"path": path, "strength": strength} for path, strength in adapters]
    made.args |= {"base": FLUX2, "adapters": listed, "reference": "diffusers"}
    return made


def flux2_calls():
    return [
        flux2_call("pipeline-flux2", [("flux2-original.safetensors", 0.8), ("flux2-kohya.safetensors", 0.5)]),
        flux2_call("pipeline-flux2-lokr", [("flux2-lokr.safetensors", 0.7)]),
    ]  # fmt: skip


def z_image_pipeline_call():
    names = ("lora.down.weight", "lora.up.weight")
    with tempfile.TemporaryDirectory() as folder:
        pipe = ZImagePipeline(**z_image_models.components(Path(folder), 47))
    pipe.set_progress_bar_config(disable=True)
    state = {n: list(p.shape) for n, p in pipe.transformer.named_parameters()}
    file = AdapterFile(SEED + 83, {}, None, torch.float16)
    for block in ("layers.0", "context_refiner.0"):
        width, columns = state[f"{block}.attention.to_q.weight"]
        prefix = f"diffusion_model.{block}"
        flux_pair(file, f"{prefix}.attention.qkv", 3 * width, columns, 4, 2, names)
        flux_pair(file, f"{prefix}.attention.out", columns, width, 4, 2, names)
        flux_pair(file, f"{prefix}.feed_forward.w1", *state[f"{block}.feed_forward.w1.weight"], 4, 2, names)
    file.save(OUT / "z-image-pipeline.safetensors")
    pipe.load_lora_weights(str(OUT), weight_name="z-image-pipeline.safetensors", adapter_name="one")
    pipe.set_adapters("one", 0.6)
    made = z_image_models.picture_call(
        pipe, "pipeline-z-image", 7, prompt="a red cat", num_inference_steps=2, guidance_scale=0.0,
        height=24, width=32,
    )  # fmt: skip
    made.args |= {
        "base": "z_image/pipeline",
        "adapters": [{"path": "z-image-pipeline.safetensors", "strength": 0.6}],
        "reference": "diffusers",
    }
    return made
