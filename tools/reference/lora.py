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

import json
import sys

import torch
from diffusers import WanPipeline
from peft import LoHaConfig, LoKrConfig, LoraConfig, PeftModel, get_peft_model
from peft.tuners.tuners_utils import BaseTunerLayer
from transformers import UMT5EncoderModel

import gguf_model
from common import Call, check_golden, exact, fresh_folder, generator, normal, write_golden
from lora_files import AdapterFile, diffusers_metadata, kohya, original, shapes_of
from lora_joined import flux_calls, flux_kohya, flux_xlabs, z_image
from lora_parts import (
    BASE,
    BLOCK,
    EVERY,
    GOLDENS,
    OUT,
    OUTER,
    PIPELINE,
    PROBE,
    QUANTISED,
    SEED,
    SOME,
    base_of,
    call,
    shapes,
)
from lora_pipelines import (
    both_files,
    flux2_calls,
    flux2_files,
    pipeline_calls,
    pipeline_files,
    z_image_pipeline_call,
)
from seeded import with_weights


# Models and calls


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
        with_weights(GOLDENS / PIPELINE / "text_encoder"), dtype=torch.float32
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
