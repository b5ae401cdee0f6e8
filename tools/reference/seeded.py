"""Weights that need no storing: a golden keeps the seed and the rules, the tests draw them again.

`seeded.json` stands in the place of a component's weights. It lists, in the order in which they are drawn
from one generator, every tensor's name, shape, mean and standard deviation; then, where they are needed, a
factor (`times`), a divisor (`over`) and a type of its own (`dtype`). Values are rounded to the type last. Running
statistics are not drawn: they are listed (`values`).
`file` is the name of the file; where an index lies beside it, the index says what goes into which file.
"""

import atexit
import json
import pathlib
import shutil
import tempfile

import torch
from safetensors.torch import load_file, save_file

from common import generator

NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
DTYPES = {name: dtype for dtype, name in NAMES.items()}
FILES = ("diffusion_pytorch_model.safetensors", "model.safetensors")


def rules_of(module, overrides=None):
    """(name, shape, mean, std) of every parameter, by how many dimensions it has; tables that need others are `overrides`."""
    for name, parameter in module.named_parameters():
        if overrides and name in overrides:
            mean, std = overrides[name]
        elif parameter.ndim == 1 and name.endswith("weight"):
            mean, std = 1.0, 0.3
        elif parameter.ndim == 1 or "pad_token" in name:
            mean, std = 0.0, 0.2
        else:
            mean, std = 0.0, parameter[0].numel() ** -0.5
        yield name, list(parameter.shape), mean, std


def write_rules(folder, seed, dtype, rules, file=None):
    folder = pathlib.Path(folder)
    config = json.loads((folder / "config.json").read_text()) if (folder / "config.json").exists() else None
    file = file or (FILES[0] if config is None or "_class_name" in config else FILES[1])
    document = {"seed": seed, "dtype": NAMES[dtype], "file": file, "tensors": rules}
    text = json.dumps(document, separators=(",", ":")).replace("],[", "],\n[").replace("]],", "]],\n")
    (folder / "seeded.json").write_text(text + "\n")


@torch.no_grad()
def seed_weights(folder, module, seed, dtype=torch.bfloat16, buffers=(), overrides=None):
    """Fills the module, rounded to `dtype` but computed in float32, and writes the rules beside its config.

    `buffers`: (name, mean, std) of running statistics to draw after the parameters.
    """
    own = dict(module.named_parameters())
    stored = dict(module.named_buffers())
    rules = list(rules_of(module, overrides))
    rules += [(name, list(stored[name].shape), mean, std) for name, mean, std in buffers]
    rng = generator(seed)
    for name, shape, mean, std in rules:
        value = torch.randn(shape, generator=rng) * std + mean
        (own.get(name) if name in own else stored[name]).copy_(value.to(dtype).float())
    write_rules(folder, seed, dtype, rules)
    return module.eval()


def keep_seed(folder, module, seed, prefix=""):
    """Replaces the weights beside a config by the rules that `randomise` filled the module by.

    Fails unless the rules give the very tensors that were stored."""
    folder = pathlib.Path(folder)
    files = [path for path in folder.glob("*.safetensors") if path.name.startswith(("model", "diffusion"))]
    stored = {name: tensor for path in files for name, tensor in load_file(path).items()}
    dtypes = [tensor.dtype for tensor in stored.values()]
    usual = max(set(dtypes), key=dtypes.count)
    rules = []
    for name, parameter in module.named_parameters():
        rule = dict(parameter.rule)
        dtype = stored[prefix + name].dtype
        others = {key: rule[key] for key in ("times", "over") if key in rule}
        others |= {} if dtype == usual else {"dtype": NAMES[dtype]}
        row = [prefix + name, list(parameter.shape), rule["mean"], rule["std"]]
        rules.append([*row, others] if others else row)
    for name, buffer in module.named_buffers():
        if (name := prefix + name) in stored:
            # Counts of batches, which nothing but training reads, get the type of the others.
            stored[name] = stored[name].to(usual)
            rules.append([name, list(buffer.shape), 0, 0, {"values": stored[name].flatten().tolist()}])
    write_rules(folder, seed, usual, rules)
    drawn = draw(folder)
    assert drawn.keys() == stored.keys(), drawn.keys() ^ stored.keys()
    for name, tensor in stored.items():
        assert drawn[name].dtype == tensor.dtype and torch.equal(drawn[name], tensor), name
    for path in files:
        path.unlink()


def draw(folder):
    """The tensors of a `seeded.json`, by name."""
    document = json.loads((pathlib.Path(folder) / "seeded.json").read_text())
    rng = generator(document["seed"])
    tensors = {}
    for name, shape, mean, std, *rest in document["tensors"]:
        others = rest[0] if rest else {}
        if "values" in others:
            tensors[name] = torch.tensor(others["values"]).reshape(shape).to(DTYPES[document["dtype"]])
            continue
        value = torch.randn(shape, generator=rng) * std + mean
        value = value * others.get("times", 1) / others.get("over", 1)
        tensors[name] = value.to(DTYPES[others.get("dtype", document["dtype"])])
    return tensors


def with_weights(folder):
    """A copy, as long as the program runs, of a folder whose weights are drawn; its components' too."""
    copy = pathlib.Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    shutil.copytree(folder, copy, dirs_exist_ok=True)
    for path in copy.rglob("seeded.json"):
        tensors = draw(path.parent)
        file = json.loads(path.read_text())["file"]
        index = path.with_name(f"{file}.index.json")
        files = json.loads(index.read_text())["weight_map"] if index.exists() else {}
        for target in {files.get(name, file) for name in tensors}:
            own = {name: tensor for name, tensor in tensors.items() if files.get(name, file) == target}
            save_file(own, path.with_name(target), {"format": "pt"})
    return copy
