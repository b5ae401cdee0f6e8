"""What the goldens of adapters have in common: models, names of modules, calls. For lora.py."""

import functools

import torch
from diffusers import WanTransformer3DModel

import gguf_model
from common import ROOT, Call, generator, normal
from lora_files import shapes_of
from seeded import with_weights

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


def base_of(name):
    if name == QUANTISED:
        return gguf_model.load(GOLDENS / name)
    folder = GOLDENS / (f"{name}/transformer" if name == PIPELINE else name)
    return WanTransformer3DModel.from_pretrained(with_weights(folder), dtype=torch.float32).eval()


@functools.cache
def shapes(base=BASE):
    if base == QUANTISED:
        model = gguf_model.load(GOLDENS / base)
        return {n.removesuffix(".weight"): list(p.shape) for n, p in model.named_parameters()}
    folder = GOLDENS / (f"{base}/transformer" if base == PIPELINE else base)
    return shapes_of(folder)


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
