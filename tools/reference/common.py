"""Shared by the reference generators: seeding, rounding of weights, and the golden file format.

A golden is a model folder as `save_pretrained` writes it, plus two files beside the weights:

- golden.safetensors: tensors named "<call>.<tensor>";
- golden.json: what was called, with which arguments, and which tensors are inputs, outputs and
  intermediates of each call.

Outputs are always computed in float32, on the CPU, with the plain softmax(q k^T) v attention, from
the weights as they were read back from disk, so a test that reads the same file sees the same
numbers.
"""

import dataclasses
import json
import pathlib
import platform
import shutil
import sys

import accelerate
import diffusers
import numpy
import safetensors
import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.nn.attention import SDPBackend, sdpa_kernel

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests" / "goldens" / "wan"


@dataclasses.dataclass
class Call:
    """One call of the reference: arguments that are not tensors, and tensors by role."""

    name: str
    description: str
    args: dict = dataclasses.field(default_factory=dict)
    inputs: dict = dataclasses.field(default_factory=dict)
    outputs: dict = dataclasses.field(default_factory=dict)
    intermediates: dict = dataclasses.field(default_factory=dict)

    def tensors(self):
        """Every tensor as it is stored."""
        for key, value in self.inputs.items():
            yield f"{self.name}.{key}", value
        for key, value in [*self.outputs.items(), *self.intermediates.items()]:
            yield f"{self.name}.{key}", pixels16(value)

    def index(self):
        return {
            "name": self.name,
            "description": self.description,
            "args": self.args,
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "intermediates": list(self.intermediates),
        }


def pixels16(tensor):
    """Pixels from 0 to 1 as 16-bit fractions, which is 107 dB; any other tensor as it is."""
    is_float = tensor.dtype == torch.float32 and tensor.numel() > 0
    if not (is_float and tensor.ndim >= 3 and (tensor.shape[-1] in (3, 4) or tensor.shape[-3] == 3)):
        return tensor
    if tensor.min() < 0 or tensor.max() > 1:
        return tensor
    return (tensor.double() * 65535).round().to(torch.uint16)


def versions():
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "diffusers": diffusers.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
        "safetensors": safetensors.__version__,
        "accelerate": accelerate.__version__,
        "numpy": numpy.__version__,
    }


def exact():
    """Context for every reference call: no gradients, math attention."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    stack = torch.no_grad()

    class Exact:
        def __enter__(self):
            stack.__enter__()
            self.kernel = sdpa_kernel(SDPBackend.MATH)
            self.kernel.__enter__()

        def __exit__(self, *error):
            self.kernel.__exit__(*error)
            stack.__exit__(*error)

    return Exact()


def generator(seed):
    return torch.Generator("cpu").manual_seed(seed)


def normal(rng, *shape, mean=0.0, std=1.0):
    return torch.randn(shape, generator=rng) * std + mean


@torch.no_grad()
def randomise(module, seed, gain=1.0):
    """Fills every parameter: a rule by shape and name, so that nothing stays at zero or one.

    Matrices and kernels: normal with variance gain^2 / fan_in. Vectors that scale: 1 + 0.3 n.
    Vectors that shift: 0.2 n. Modulation tables: 0.3 n. Every parameter's rule is kept for `seeded.py`.
    """
    rng = generator(seed)
    for name, parameter in module.named_parameters():
        mean, std = 0.0, gain * parameter[0].numel() ** -0.5
        if "scale_shift_table" in name:
            std = 0.3
        elif name.endswith("gamma") or (parameter.ndim == 1 and name.endswith("weight")):
            mean, std = 1.0, 0.3
        elif parameter.ndim == 1:
            std = 0.2
        elif "relative_attention_bias" in name or "shared" in name:
            std = 1.0
        parameter.copy_(normal(rng, *parameter.shape, mean=mean, std=std))
        parameter.rule = {"mean": mean, "std": std}
    return module.eval()


@torch.no_grad()
def multiply(parameter, factor):
    """Multiplies a parameter that `randomise` filled, once."""
    assert "times" not in parameter.rule
    parameter.mul_(factor)
    parameter.rule["times"] = factor


def rescale(layer, factor):
    """Multiplies a linear or convolution layer's output."""
    multiply(layer.weight, factor)
    multiply(layer.bias, factor)


class Recorder:
    """Collects module outputs by forward hooks, in call order."""

    def __init__(self):
        self.seen = {}
        self.handles = []

    def watch(self, name, module, pick=lambda args, output: output):
        def hook(_module, args, output):
            self.seen.setdefault(name, []).append(pick(args, output).detach().clone())

        self.handles.append(module.register_forward_hook(hook))

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        for handle in self.handles:
            handle.remove()

    def first(self):
        return {name: values[0] for name, values in self.seen.items()}

    def joined(self, dim):
        return {name: torch.cat(values, dim=dim) for name, values in self.seen.items()}


def fresh_folder(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def without_inside(calls):
    """The calls without what is inside: tests compare results, and the files stay small."""
    return [dataclasses.replace(call, intermediates={}) for call in calls]


def write_golden(folder, description, seed, calls, keep=False):
    """Writes golden.safetensors and golden.json; `keep` keeps calls of other names in the folder."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors, index = {}, []
    names = {call.name for call in calls}
    if keep and (folder / "golden.json").exists():
        old = json.loads((folder / "golden.json").read_text())
        index = [entry for entry in old["calls"] if entry["name"] not in names]
        kept = tuple(f"{entry['name']}." for entry in index)
        stored = load_file(folder / "golden.safetensors")
        tensors = {name: t for name, t in stored.items() if name.startswith(kept)} if kept else {}
    for call in calls:
        index.append(call.index())
        for name, tensor in call.tensors():
            assert name not in tensors, name
            assert not tensor.is_floating_point() or torch.isfinite(tensor).all(), name
            tensors[name] = tensor.contiguous().clone()
    save_file(tensors, folder / "golden.safetensors")
    document = {
        "description": description,
        "seed": seed,
        "compute": "float32, CPU, math attention, weights as stored",
        "versions": versions(),
        "calls": index,
    }
    (folder / "golden.json").write_text(text_of(document))


def text_of(document):
    """JSON with a line for each call."""
    lines = [json.dumps(call, ensure_ascii=False) for call in document["calls"]]
    head = json.dumps({key: value for key, value in document.items() if key != "calls"}, ensure_ascii=False)
    return head[:-1] + ', "calls": [\n' + ",\n".join(lines) + "\n]}\n"


def check_golden(folder, calls, tolerance=1e-5):
    """Compares fresh calls with the stored tensors; returns the worst difference, relative to each
    tensor's largest magnitude. Pixels of 16 bits may be a step apart: another CPU rounds what lies between two otherwise."""
    stored = load_file(pathlib.Path(folder) / "golden.safetensors")
    fresh = {name: tensor for call in calls for name, tensor in call.tensors()}
    assert stored.keys() == fresh.keys(), stored.keys() ^ fresh.keys()
    worst = 0.0
    for name, want in stored.items():
        got = fresh[name]
        assert want.shape == got.shape and want.dtype == got.dtype, (name, want.shape, got.shape)
        difference = (want.double() - got.double()).abs().max().item()
        if want.dtype == torch.uint16:
            difference = max(0, difference - 1)
        relative = difference / max(want.double().abs().max().item(), 1e-9)
        assert relative <= tolerance, (name, relative)
        worst = max(worst, relative)
    return worst


def make_goldens(parent, goldens):
    """Writes the goldens of a table below `parent`: all, or those named on the command line; `--check` compares.

    `goldens` has by name (description, seed, build, calls). `build(folder, seed)` writes the model, and is None where
    `calls(folder, seed)`, which gives the calls, needs no files.
    """
    arguments = sys.argv[1:]
    for name in [name for name in arguments if name != "--check"] or goldens:
        description, seed, build, calls = goldens[name]
        folder = parent / name
        with exact():
            if "--check" in arguments:
                print(f"{name}: {check_golden(folder, calls(folder, seed)):.1e}")
                continue
            fresh_folder(folder)
            if build:
                build(folder, seed)
            write_golden(folder, description, seed, calls(folder, seed))
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        print(f"{name}: {size / 1e3:.0f} kB")
