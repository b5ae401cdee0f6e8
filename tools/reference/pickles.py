"""Makes files of torch.save under tests/goldens/pickles, and what torch reads from them.

    python3 tools/reference/pickles.py

`values.safetensors` holds the tensors of every file, named `<file>.<tensor>`.
"""

import collections
import pickle
import shutil

import numpy
import torch
from safetensors.torch import save_file

import common
from common import generator, normal

FOLDER = common.GOLDENS.parent / "pickles"


def tensors(seed):
    rng = generator(seed)
    plain = normal(rng, 3, 4)
    return collections.OrderedDict(
        plain=plain,
        half=normal(rng, 5).half(),
        brain=normal(rng, 2, 3).bfloat16(),
        double=normal(rng, 2).double(),
        counts=torch.arange(4),
        tied=plain,
        row=plain[1],
        transposed=normal(rng, 3, 5).T,
        channels_last=normal(rng, 2, 3, 2, 2).to(memory_format=torch.channels_last),
        empty=torch.zeros(0, 3),
        scalar=torch.tensor(1.5),
        parameter=torch.nn.Parameter(normal(rng, 2, 2)),
        fp8=normal(rng, 4).to(torch.float8_e4m3fn),
    )


def trained(state):
    """What PyTorch Lightning saves beside the weights."""
    rng = generator(9)
    momentum = {"exp_avg": normal(rng, 2), "step": 3}
    return {
        "epoch": 2,
        "global_step": 470,
        "note": "trained",
        "state_dict": state,
        "optimizer_states": [{"state": {0: momentum}, "param_groups": [{"lr": 1e-4, "betas": (0.9, 0.999)}]}],
        "score": numpy.float64(0.25),
        "large": 2**70,
    }


def upscaler(seed):
    """The names of a compact Real-ESRGAN that doubles the sides."""
    rng = generator(seed)
    shapes = {0: (4, 3, 3, 3), 1: (4,), 2: (4, 4, 3, 3), 3: (4,), 4: (12, 4, 3, 3)}
    return {f"body.{i}.weight": normal(rng, *shape) for i, shape in shapes.items()}


class Payload:
    def __reduce__(self):
        import os

        return os.system, ("echo harm",)


def save(name, content, **options):
    torch.save(content, FOLDER / name, **options)


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    state = tensors(1)
    save("plain.pt", state)
    save("legacy.pt", collections.OrderedDict((k, v) for k, v in state.items() if k != "fp8"), _use_new_zipfile_serialization=False)
    save("trained.ckpt", trained(tensors(2)))
    save("protocol4.pt", tensors(3), pickle_protocol=4)
    save("averaged.pth", {"params": upscaler(4), "params_ema": upscaler(5)})
    rng = generator(6)
    factors = {f"transformer.blocks.0.attn1.to_q.lora_{name}.weight": normal(rng, *shape)
               for name, shape in {"A": (2, 8), "B": (8, 2)}.items()}  # fmt: skip
    save("lora.pt", factors)
    save("parameters.pt", {"string_to_param": torch.nn.ParameterDict({"*": torch.nn.Parameter(torch.full((2, 3), 0.5))}),
                           "string_to_token": {"*": 265}, "name": "style"})  # fmt: skip
    save("harmful.pt", {"weight": torch.ones(1), "state": Payload()})
    (FOLDER / "no_torch.pkl").write_bytes(pickle.dumps({"weight": [1.0, 2.0]}, protocol=2))
    values = {}
    for name in ("plain.pt", "legacy.pt", "trained.ckpt", "protocol4.pt", "lora.pt"):
        read = torch.load(FOLDER / name, weights_only=False)
        for key, tensor in read.get("state_dict", read).items():
            values[f"{name}.{key}"] = tensor.detach().contiguous().clone()
    save_file(values, FOLDER / "values.safetensors")
    print(f"{sum(file.stat().st_size for file in FOLDER.iterdir()) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
