"""Makes the goldens of adapters, under tests/goldens/lora.

    python3 tools/reference/lora.py           # make all
    python3 tools/reference/lora.py --check   # read the stored files back and run them again

For every dialect an adapter file as its trainers write it, and what the reference gives with it.
Calls have the arguments `base` (a folder of tests/goldens), `adapters` (path, strength) and
`reference`: `diffusers` and `peft` loaded the file themselves; `formula` stands for dialects that
neither loads for this model: the changes of lora_files.py were written into the weights.

Every changed weight W [out, in * taps] has a tensor `change.<module>` = (W' - W) probe, with the
first elements of the call `probe`, so that each element counts; those of vectors are W' - W.
`bias.<module>` is what is added to a bias. Both from double precision.
"""

import functools
import json
import sys
import tempfile
from pathlib import Path

import diffusers.loaders.lora_conversion_utils as conversion
import torch
from diffusers import WanPipeline, WanTransformer3DModel, ZImagePipeline
from peft import LoHaConfig, LoKrConfig, LoraConfig, PeftModel, get_peft_model
from peft.tuners.tuners_utils import BaseTunerLayer
from safetensors.torch import load_file
from transformers import UMT5EncoderModel

import flux2_pipeline
import gguf_model
import z_image as z_image_models
from common import ROOT, Call, check_golden, exact, fresh_folder, generator, normal, write_golden
from lora_files import AdapterFile, diffusers_metadata, kohya, original, shapes_of
from pipeline import run_pipeline

GOLDENS = ROOT / "tests" / "goldens"
OUT = GOLDENS / "lora"
BASE = "wan/transformer-hd32"
QUANTISED = "lora/quantised"
PIPELINE = "wan/pipeline-t2v"
SEED = 900

ATTENTION = [f"{a}.{p}" for a in ("attn1", "attn2") for p in ("to_q", "to_k", "to_v", "to_out.0")]
BLOCK = ATTENTION + ["ffn.net.0.proj", "ffn.net.2"]
EVERY = [f"blocks.{i}.{name}" for i in range(2) for name in BLOCK]
SOME = ["blocks.0.attn1.to_q", "blocks.0.attn2.to_out.0", "blocks.0.ffn.net.0.proj",
        "blocks.1.attn2.to_k", "blocks.1.ffn.net.2"]  # fmt: skip
OUTER = ["condition_embedder.text_embedder.linear_1", "condition_embedder.time_proj", "proj_out"]

PROBE = normal(generator(SEED), 4096).double()


# Models and calls


def base_of(name):
    if name == QUANTISED:
        return gguf_model.load(GOLDENS / name)
    folder = GOLDENS / (f"{name}/transformer" if name == PIPELINE else name)
    return WanTransformer3DModel.from_pretrained(folder, dtype=torch.float32).eval()


def run(model):
    """One frame, 12 tokens; the same inputs for all calls."""
    rng = generator(SEED + 1)
    inputs = {
        "hidden_states": normal(rng, 1, model.config.in_channels, 1, 6, 8),
        "timestep": torch.tensor([613.0]),
        "context_rows": normal(rng, 1, 7, model.config.text_dim),
    }
    context = torch.zeros(1, 32, model.config.text_dim)
    context[:, :7] = inputs["context_rows"]
    sample = model(inputs["hidden_states"], inputs["timestep"], context).sample
    return inputs, {"sample": sample}


CONTEXT = {"context_length": 32, "context_real_rows": [7], "integer_timestep": False}


def probed(change):
    if change.ndim < 2:
        return change.float()
    matrix = change.flatten(1)
    return (matrix @ PROBE[: matrix.shape[1]]).float()


def call(name, description, base, adapters, reference, inputs, outputs, changes, biases, **args):
    inside = {f"change.{module}": probed(change) for module, change in changes.items()}
    inside |= {f"bias.{module}": bias.float() for module, bias in biases.items()}
    listed = [{"path": path, "strength": strength} for path, strength in adapters]
    return Call(
        name, description, {"base": base, "adapters": listed, "reference": reference} | args,
        inputs, outputs, inside,
    )  # fmt: skip


def tuned_call(name, description, adapters, reference, model):
    """Of a model into which the reference has loaded the adapters."""
    inputs, outputs = run(model)
    changes, biases = {}, {}
    for module_name, layer in model.double().named_modules():
        if not isinstance(layer, BaseTunerLayer):
            continue
        module = module_name.removeprefix("base_model.model.")
        before = layer.base_layer.weight.clone(), layer.base_layer.bias.clone()
        layer.merge()
        changes[module] = layer.base_layer.weight - before[0]
        if not torch.equal(layer.base_layer.bias, before[1]):
            biases[module] = layer.base_layer.bias - before[1]
    return call(name, description, BASE, adapters, reference, inputs, outputs, changes, biases, **CONTEXT)  # fmt: skip


def weight_name(state, module):
    """Tables are parameters of their own."""
    return f"{module}.weight" if f"{module}.weight" in state else module


def formula_call(name, description, files, base=BASE):
    """`files`: (path, AdapterFile, strength). The changes add up."""
    model = base_of(base)
    changes, biases = {}, {}
    state = dict(model.named_parameters())
    for _, file, strength in files:
        for module in file.changes:
            parameter = state[weight_name(state, module)]
            new = file.new_weight(module, parameter, strength)
            changes[module] = changes.get(module, 0) + new - parameter.double()
        for module, bias in file.biases.items():
            biases[module] = biases.get(module, 0) + strength * bias
    for module, change in changes.items():
        parameter = state[weight_name(state, module)]
        parameter.copy_(parameter.double() + change)
    for module, bias in biases.items():
        state[f"{module}.bias"].copy_(state[f"{module}.bias"].double() + bias)
    inputs, outputs = run(model)
    adapters = [(path, strength) for path, _, strength in files]
    return call(name, description, base, adapters, "formula", inputs, outputs, changes, biases, **CONTEXT)  # fmt: skip


def diffusers_call(name, description, adapters):
    model = base_of(BASE)
    for i, (path, _) in enumerate(adapters):
        target = OUT / path
        folder, file = (target, "pytorch_lora_weights.safetensors") if target.is_dir() else (target.parent, target.name)  # fmt: skip
        state, metadata = WanPipeline.lora_state_dict(
            str(folder), weight_name=file, return_lora_metadata=True, local_files_only=True
        )
        WanPipeline.load_lora_into_transformer(state, model, f"adapter{i}", metadata=metadata)
    model.set_adapters([f"adapter{i}" for i in range(len(adapters))], [s for _, s in adapters])
    return tuned_call(name, description, adapters, "diffusers", model)


# Files


@functools.cache
def shapes(base=BASE):
    if base == QUANTISED:
        model = gguf_model.load(GOLDENS / base)
        return {n.removesuffix(".weight"): list(p.shape) for n, p in model.named_parameters()}
    folder = GOLDENS / (f"{base}/transformer" if base == PIPELINE else base)
    return shapes_of(folder)


def save_peft(name, seed, kind=LoraConfig, targets=SOME + OUTER[2:], **settings):
    """As PEFT's trainers save: the folder of `save_pretrained`."""
    start = "init_lora_weights" if kind is LoraConfig else "init_weights"
    config = kind(target_modules=targets, **{start: False}, **settings)
    torch.manual_seed(seed)
    model = get_peft_model(base_of(BASE), config)
    rng = generator(seed)
    for parameter_name, parameter in model.named_parameters():
        if "lora_magnitude" in parameter_name:
            parameter.mul_(1 + normal(rng, *parameter.shape, std=0.2))
        elif "lora_B" in parameter_name and parameter.ndim == 1:
            parameter.copy_(normal(rng, *parameter.shape, std=0.1))
        elif "lora_" in parameter_name:
            gain = 0.5 if "lora_B" in parameter_name else 1.0
            std = gain * parameter.shape[1] ** -0.5
            parameter.copy_(normal(rng, *parameter.shape, std=std))
        elif "hada_" in parameter_name or "lokr_" in parameter_name:
            parameter.copy_(normal(rng, *parameter.shape, std=0.3))
    model.save_pretrained(OUT / name)
    (OUT / name / "README.md").unlink(missing_ok=True)
    path = OUT / name / "adapter_config.json"
    written = json.loads(path.read_text())
    written["base_model_name_or_path"] = None
    written["target_modules"] = sorted(written["target_modules"])
    path.write_text(json.dumps(written, indent=2) + "\n")
    (OUT / name / "adapter_model.safetensors").chmod(0o644)


def peft_call(name, description):
    model = PeftModel.from_pretrained(base_of(BASE), OUT / name, local_files_only=True).eval()
    inner = model.base_model.model
    return tuned_call(name, description, [(name, 1.0)], "peft", inner)


PEFT = {
    "peft": ("PEFT folder; patterns of rank and alpha",
             dict(r=4, lora_alpha=6, rank_pattern={"attn2.to_k": 2, "ffn.net.2": 3},
                  alpha_pattern={"attn2.to_k": 5, "blocks.0.attn1.to_q": 1})),
    "peft-rslora": ("PEFT folder; alpha / sqrt(rank)", dict(r=4, lora_alpha=3, use_rslora=True)),
    "peft-dora": ("PEFT folder; lora_magnitude_vector", dict(r=4, lora_alpha=6, use_dora=True)),
    "peft-bias": ("PEFT folder; lora_B has a bias", dict(r=2, lora_alpha=3, lora_bias=True)),
    "peft-conv": ("PEFT folder; a convolution, with lora_magnitude_vector [1, out, 1, 1, 1]",
                  dict(r=2, lora_alpha=3, use_dora=True, targets=["patch_embedding", SOME[0]])),
    "peft-loha": ("PEFT folder; LoHa",
                  dict(kind=LoHaConfig, r=2, alpha=3, alpha_pattern={"ffn.net.2": 5})),
    "peft-lokr": ("PEFT folder; LoKr, of whole factors scaled too",
                  dict(kind=LoKrConfig, r=3, alpha=2, decompose_both=True, decompose_factor=8,
                       rank_pattern={"attn2.to_k": 12, "proj_out": 12})),
}  # fmt: skip


def diffusers_file():
    file = AdapterFile(SEED + 20, shapes(), lambda m: f"transformer.{m}", torch.float16)
    for module in SOME + OUTER[:1]:
        file.low_rank(module, ("lora_A.weight", "lora_B.weight"), scale=6 / 4)
    file.save(OUT / "diffusers/pytorch_lora_weights.safetensors",
              diffusers_metadata(4, 6, sorted(SOME + OUTER[:1])))  # fmt: skip
    return file


def kohya_file():
    file = AdapterFile(SEED + 21, shapes(), lambda m: f"lora_unet_{kohya(m)}", torch.bfloat16)
    for i, module in enumerate(EVERY):
        file.low_rank(module, rank=2, alpha=1 + i % 3)
    file.save(OUT / "kohya.safetensors", {"ss_network_module": "networks.lora_wan", "ss_network_dim": "2"})  # fmt: skip
    return file


def comfyui_file():
    file = AdapterFile(SEED + 22, shapes(), lambda m: f"diffusion_model.{original(m)}")
    for module in SOME + OUTER:
        file.low_rank(module, ("lora_A.weight", "lora_B.weight"))
    file.save(OUT / "comfyui.safetensors")
    return file


def comfyui_alpha_file():
    file = AdapterFile(SEED + 23, shapes(), lambda m: f"diffusion_model.{original(m)}", torch.float16)  # fmt: skip
    for i, module in enumerate(SOME):
        file.low_rank(module, alpha=0.5 + i)
    file.save(OUT / "comfyui-alpha.safetensors")
    return file


def old_diffusers_file():
    file = AdapterFile(SEED + 24, shapes(), lambda m: f"transformer.{m}")
    for module in SOME:
        file.low_rank(module, ("lora.down.weight", "lora.up.weight"))
    file.save(OUT / "old-diffusers.safetensors")
    return file


def lightx2v_file():
    file = AdapterFile(SEED + 25, shapes(), lambda m: f"diffusion_model.{original(m)}", torch.bfloat16)  # fmt: skip
    for module in SOME:
        file.low_rank(module)
        file.diff_b(module)
    for module in ("blocks.0.attn1.norm_q", "blocks.1.attn2.norm_k", "blocks.0.norm2", "proj_out", "patch_embedding"):  # fmt: skip
        file.diff(module)
    for module in ("blocks.0.norm2", "proj_out", "patch_embedding"):
        file.diff_b(module)
    file.diff_m("blocks.1.scale_shift_table")
    file.save(OUT / "lightx2v.safetensors")
    return file


def loha_file():
    file = AdapterFile(SEED + 26, shapes(), lambda m: f"lora_unet_{kohya(m)}", torch.float16)
    for module in SOME:
        file.loha(module)
    file.loha("patch_embedding", core=True)
    file.save(OUT / "loha.safetensors", {"ss_network_module": "lycoris.kohya"})
    return file


def lokr_file():
    file = AdapterFile(SEED + 27, shapes(), lambda m: "lycoris_" + m.replace(".", "_"))
    file.lokr(SOME[0], True, True, split=(4, 4))
    file.lokr(SOME[1], True, False, split=(4, 8))
    file.lokr(SOME[2], False, True, split=(8, 8))
    file.lokr(SOME[3], False, False, split=(8, 8))
    file.lokr("patch_embedding", True, False, split=(4, 4), core=True)
    file.save(OUT / "lokr.safetensors")
    return file


def dora_file(columns):
    seed = SEED + 28 + columns
    file = AdapterFile(seed, shapes(), lambda m: f"lora_unet_{kohya(m)}")
    weights = dict(base_of(BASE).named_parameters())
    for module in SOME[:4]:
        file.low_rank(module, alpha=3)
        file.dora_scale(module, weights[f"{module}.weight"].detach(), columns)
    file.save(OUT / f"dora-{'columns' if columns else 'rows'}.safetensors")
    return file


def conv_file():
    file = AdapterFile(SEED + 30, shapes(), lambda m: f"lora_unet_{kohya(m)}")
    file.low_rank("patch_embedding", alpha=2)
    file.low_rank(SOME[0], alpha=2)
    file.save(OUT / "conv.safetensors")
    tucker = AdapterFile(SEED + 31, shapes(), lambda m: f"lora_unet_{kohya(m)}")
    tucker.tucker("patch_embedding")
    tucker.save(OUT / "conv-core.safetensors")
    return file, tucker


def quantised_files():
    modules = [f"blocks.0.{name}" for name in BLOCK] + OUTER
    low = AdapterFile(SEED + 40, shapes(QUANTISED), lambda m: f"diffusion_model.{original(m)}", torch.bfloat16)  # fmt: skip
    for module in modules:
        low.low_rank(module, rank=3, alpha=2)
    low.save(OUT / "quantised-low-rank.safetensors")
    other = AdapterFile(SEED + 41, shapes(QUANTISED), lambda m: f"lora_unet_{kohya(m)}", torch.float16)  # fmt: skip
    weights = dict(base_of(QUANTISED).named_parameters())
    for module in modules[:2] + modules[8:9]:
        other.low_rank(module, rank=2, alpha=3)
        other.dora_scale(module, weights[f"{module}.weight"].detach())
    other.lokr(modules[2], True, False, split=(8, 8))
    other.loha(modules[6])
    other.save(OUT / "quantised-others.safetensors")
    return low, other


def text_file(prefix, name, underscores):
    table = shapes_of(GOLDENS / PIPELINE / "text_encoder", "model.safetensors")
    key = (lambda m: prefix + m.replace(".", "_")) if underscores else (lambda m: prefix + m)
    file = AdapterFile(SEED + 50 + underscores, table, key)
    names = ("lora_down.weight", "lora_up.weight") if underscores else ("lora_A.weight", "lora_B.weight")  # fmt: skip
    for i in range(2):
        for module in ("0.SelfAttention.q", "0.SelfAttention.o", "1.DenseReluDense.wi_1", "1.DenseReluDense.wo"):  # fmt: skip
            file.low_rank(f"encoder.block.{i}.layer.{module}", names, alpha=3 if underscores else None)  # fmt: skip
    file.save(OUT / name)
    return file


def text_call(name, description, file):
    model = UMT5EncoderModel.from_pretrained(
        GOLDENS / PIPELINE / "text_encoder", dtype=torch.float32
    ).eval()
    state = dict(model.named_parameters())
    for module, change in file.changes.items():
        parameter = state[f"{module}.weight"]
        parameter.copy_(parameter.double() + change)
    ids = torch.randint(3, 448, (1, 12), generator=generator(SEED + 2))
    mask = torch.ones_like(ids)
    inputs = {"input_ids": ids.int(), "attention_mask": mask.int()}
    outputs = {"last_hidden_state": model(ids, mask).last_hidden_state}
    return call(name, description, f"{PIPELINE}/text_encoder", [(f"{name}.safetensors", 1.0)],
                "formula", inputs, outputs, file.changes, {}, lengths=[12], padded=12, rows=12)  # fmt: skip


# Joined projections, of models that have no golden here: only the changes


FLUX_WIDTH = 24


def flux_call(name, description, path, converted):
    """`converted`: diffusers' names -> factors."""
    changes = {}
    for key in converted:
        if key.endswith("lora_A.weight"):
            module = key.removesuffix(".lora_A.weight")
            up = converted[f"{module}.lora_B.weight"].double()
            changes[module.removeprefix("transformer.")] = up @ converted[key].double()
    return call(name, description, None, [(path, 1.0)], "diffusers", {}, {}, changes, {})


def flux_pair(file, key, out, columns=FLUX_WIDTH, rank=3, alpha=None, names=("lora_down.weight", "lora_up.weight"), blocks=None):  # fmt: skip
    """Factors of any module; with `blocks`, each output part has a rank of its own."""
    file.key = lambda module: module
    file.put(key, names[0], rank, columns, std=columns**-0.5)
    up = file.put(key, names[1], out, rank, std=0.5)
    if blocks:
        rows, ranks = out // blocks, rank // blocks
        mask = torch.block_diag(*[torch.ones(rows, ranks)] * blocks)
        file.tensors[f"{key}.{names[1]}"] = (up * mask).to(file.dtype)
    if alpha is not None:
        file.alpha(key, alpha)


def flux_kohya():
    file, width = AdapterFile(SEED + 60, {}, None), FLUX_WIDTH
    block = "lora_unet_double_blocks_0_"
    flux_pair(file, f"{block}img_attn_qkv", 3 * width, alpha=2, rank=4)
    flux_pair(file, f"{block}txt_attn_qkv", 3 * width, alpha=4, rank=6, blocks=3)
    flux_pair(file, f"{block}img_attn_proj", width, alpha=2)
    flux_pair(file, f"{block}img_mlp_0", 4 * width, alpha=2)
    flux_pair(file, f"{block}txt_mod_lin", 6 * width, alpha=2)
    flux_pair(file, "lora_unet_single_blocks_7_linear2", width, 5 * width, alpha=2)
    file.save(OUT / "flux-kohya.safetensors", {"ss_network_module": "networks.lora_flux"})


def flux_xlabs():
    file, width = AdapterFile(SEED + 61, {}, None), FLUX_WIDTH
    names = ("down.weight", "up.weight")
    for i in (1, 2):
        flux_pair(file, f"double_blocks.0.processor.qkv_lora{i}", 3 * width, names=names)
        flux_pair(file, f"double_blocks.0.processor.proj_lora{i}", width, names=names)
    flux_pair(file, "single_blocks.7.processor.qkv_lora", 3 * width, names=names)
    flux_pair(file, "single_blocks.7.processor.proj_lora", width, 5 * width, names=names)
    file.save(OUT / "flux-xlabs.safetensors")


def z_image():
    file, width = AdapterFile(SEED + 62, {}, None), FLUX_WIDTH
    names = ("lora.down.weight", "lora.up.weight")
    prefix = "diffusion_model.layers.3.attention."
    flux_pair(file, f"{prefix}qkv", 3 * width, names=names, alpha=2, rank=4)
    flux_pair(file, f"{prefix}out", width, names=names, alpha=2)
    file.save(OUT / "z-image-joined.safetensors")


def flux_calls():
    def stored(name):
        return load_file(OUT / f"{name}.safetensors")

    return [
        flux_call("flux-kohya", "FLUX.1 by kohya: joined q, k, v, also block-diagonal",
                  "flux-kohya.safetensors",
                  conversion._convert_kohya_flux_lora_to_diffusers(stored("flux-kohya"))),
        flux_call("flux-xlabs", "FLUX.1 by XLabs: names of processors", "flux-xlabs.safetensors",
                  conversion._convert_xlabs_flux_lora_to_diffusers(stored("flux-xlabs"))),
        flux_call("z-image-joined", "Z-Image, joined q, k, v", "z-image-joined.safetensors",
                  conversion._convert_non_diffusers_z_image_lora_to_diffusers(
                      stored("z-image-joined"))),
    ]  # fmt: skip


# A pipeline with two adapters


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


# FLUX.2: joined projections, through its pipeline


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


def build():
    """Writes the adapter files; returns those whose changes the calls need."""
    fresh_folder(OUT)
    gguf_model.build(GOLDENS / QUANTISED, SEED + 5)
    for i, (name, (_, settings)) in enumerate(PEFT.items()):
        save_peft(name, SEED + 10 + i, **settings)
    flux_kohya(), flux_xlabs(), z_image(), pipeline_files(), flux2_files()
    return files()


def files():
    conv, core = conv_file()
    low, others = quantised_files()
    return {
        "diffusers": diffusers_file(), "kohya": kohya_file(), "comfyui": comfyui_file(),
        "comfyui-alpha": comfyui_alpha_file(), "old-diffusers": old_diffusers_file(),
        "lightx2v": lightx2v_file(), "loha": loha_file(), "lokr": lokr_file(),
        "dora-rows": dora_file(False), "dora-columns": dora_file(True), "conv": conv,
        "conv-core": core, "quantised-low-rank": low, "quantised-others": others,
        "text-encoder": text_file("text_encoder.", "text-encoder.safetensors", False),
        "text-encoder-kohya": text_file("lora_te_", "text-encoder-kohya.safetensors", True),
        "pipeline-both": both_files(),
    }  # fmt: skip


def calls(made):
    def formula(name, description, base=BASE):
        return formula_call(name, description, [(f"{name}.safetensors", made[name], 1.0)], base)

    def quantised(name, description, *used):
        return formula_call(name, description, [(f"{n}.safetensors", made[n], s) for n, s in used], QUANTISED)  # fmt: skip

    probe = Call("probe", "vector that changes are multiplied with", {}, {"vector": PROBE.float()})
    return [
        probe,
        formula_call("base", "no adapter", []),
        *[peft_call(name, description) for name, (description, _) in PEFT.items()],
        diffusers_call("diffusers", "folder with alpha in the header's metadata", [("diffusers", 1.0)]),
        diffusers_call("old-diffusers", "lora.down and lora.up", [("old-diffusers.safetensors", 1.0)]),
        diffusers_call("kohya", "every block, names with underscores", [("kohya.safetensors", 1.0)]),
        diffusers_call("comfyui", "original names, no alpha", [("comfyui.safetensors", 1.0)]),
        diffusers_call("comfyui-alpha", "original names, alphas", [("comfyui-alpha.safetensors", 1.0)]),
        diffusers_call("two", "two adapters", [("diffusers", 0.8), ("kohya.safetensors", 0.5)]),
        formula("lightx2v", "factors, diff, diff_b, norms"),
        formula("loha", "LyCORIS LoHa; the convolution with cores"),
        formula("lokr", "LyCORIS LoKr: each kind of factors; names of diffusers with underscores"),
        formula("dora-rows", "dora_scale [out, 1]"),
        formula("dora-columns", "dora_scale [1, in]"),
        formula("conv", "factors of the patch embedding, 5-D"),
        formula("conv-core", "LoCon with lora_mid"),
        quantised("quantised-base", "no adapter"),
        quantised("quantised-low-rank", "over Q4_K and Q8_0", ("quantised-low-rank", 1.0)),
        quantised("quantised-others", "DoRA, LoKr and LoHa over Q4_K and Q8_0", ("quantised-others", 1.0)),
        quantised("quantised-two", "low-rank at two strengths", ("quantised-low-rank", 0.8), ("quantised-low-rank", -0.3)),
        text_call("text-encoder", "UMT5, names of diffusers", made["text-encoder"]),
        text_call("text-encoder-kohya", "UMT5, names with underscores", made["text-encoder-kohya"]),
        *flux_calls(),
        *pipeline_calls(*made["pipeline-both"]),
        *flux2_calls(),
        z_image_pipeline_call(),
    ]  # fmt: skip


def main():
    with exact():
        if "--check" not in sys.argv[1:]:
            made = build()
            write_golden(OUT, "Adapters of every dialect", SEED, calls(made))
        worst = check_golden(OUT, calls(files()))
    size = sum(path.stat().st_size for path in OUT.rglob("*") if path.is_file())
    print(f"lora: {size / 1e6:.2f} MB, worst difference when read back {worst:.1e}")


if __name__ == "__main__":
    main()
