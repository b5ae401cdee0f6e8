"""Adapter files in every dialect, with random factors, and what each adds to the weights by its
published formula. For lora.py."""

import json

import torch
from safetensors.torch import load_file, save_file

from common import generator, normal
from seeded import with_weights

# The names of the Wan team, which most trainers keep, for those of diffusers.
ORIGINAL = [
    ("attn1.to_out.0", "self_attn.o"),
    ("attn2.to_out.0", "cross_attn.o"),
    ("attn1.to_", "self_attn."),
    ("attn2.to_", "cross_attn."),
    ("attn1.norm_", "self_attn.norm_"),
    ("attn2.norm_", "cross_attn.norm_"),
    ("ffn.net.0.proj", "ffn.0"),
    ("ffn.net.2", "ffn.2"),
    (".norm2", ".norm3"),
    ("condition_embedder.text_embedder.linear_1", "text_embedding.0"),
    ("condition_embedder.text_embedder.linear_2", "text_embedding.2"),
    ("condition_embedder.time_embedder.linear_1", "time_embedding.0"),
    ("condition_embedder.time_proj", "time_projection.1"),
    ("proj_out", "head.head"),
]


def original(module):
    for ours, theirs in ORIGINAL:
        module = module.replace(ours, theirs)
    return module


def kohya(module):
    return original(module).replace(".", "_")


class AdapterFile:
    """Collects tensors under a naming, and the changes they mean, in double precision.

    `key(module)` gives what stands before the suffix. `changes`: module -> matrix
    [out, in * taps], or the vector that is added to a norm's weight. `magnitudes`: module ->
    (lengths, dimension they run over).
    """

    def __init__(self, seed, shapes, key, dtype=torch.float32):
        self.rng = generator(seed)
        self.shapes, self.key, self.dtype = shapes, key, dtype
        self.tensors, self.changes, self.biases, self.magnitudes = {}, {}, {}, {}

    def put(self, module, suffix, *shape, std=1.0, mean=0.0):
        tensor = normal(self.rng, *shape, std=std, mean=mean).to(self.dtype)
        self.tensors[f"{self.key(module)}.{suffix}"] = tensor
        return tensor.double()

    def alpha(self, module, alpha):
        self.tensors[f"{self.key(module)}.alpha"] = torch.tensor(float(alpha))

    def size(self, module):
        out, *rest = self.shapes[module]
        return out, torch.Size(rest).numel(), rest

    def low_rank(self, module, names=("lora_down.weight", "lora_up.weight"), rank=4, alpha=None, scale=None):  # fmt: skip
        out, _, rest = self.size(module)
        ones = [1] * (len(rest) - 1)
        down = self.put(module, names[0], rank, *rest, std=self.size(module)[1] ** -0.5)
        up = self.put(module, names[1], out, rank, *ones, std=0.5 * rank**-0.5)
        if alpha is not None:
            self.alpha(module, alpha)
        scale = scale or (1.0 if alpha is None else alpha / rank)
        self.changes[module] = scale * up.flatten(1) @ down.flatten(1)

    def tucker(self, module, rank=4, alpha=3):
        """LoCon of a convolution with a core: down and up see single taps."""
        out, _, (channels, *taps) = self.size(module)
        ones = [1] * len(taps)
        down = self.put(module, "lora_down.weight", rank, channels, *ones, std=channels**-0.5)
        core = self.put(module, "lora_mid.weight", rank, rank, *taps, std=0.4)
        up = self.put(module, "lora_up.weight", out, rank, *ones, std=0.5)
        self.alpha(module, alpha)
        delta = torch.einsum("oi,ij...,jc->oc...", up.flatten(1), core, down.flatten(1))
        self.changes[module] = alpha / rank * delta.flatten(1)

    def loha(self, module, rank=4, alpha=3, core=False):
        out, columns, (channels, *taps) = self.size(module)
        products = []
        for i in (1, 2):
            if core:
                t = self.put(module, f"hada_t{i}", rank, rank, *taps, std=0.7)
                a = self.put(module, f"hada_w{i}_a", rank, out, std=0.5)
                b = self.put(module, f"hada_w{i}_b", rank, channels, std=0.5)
                products.append(torch.einsum("ij...,jc,io->oc...", t, b, a).flatten(1))
            else:
                a = self.put(module, f"hada_w{i}_a", out, rank, std=0.5)
                b = self.put(module, f"hada_w{i}_b", rank, columns, std=0.4)
                products.append(a @ b)
        self.alpha(module, alpha)
        self.changes[module] = alpha / rank * products[0] * products[1]

    def lokr(self, module, first, second, rank=2, alpha=3, split=(4, 4), core=False):
        """`first`, `second`: whether that factor is whole."""
        out, _, (channels, *taps) = self.size(module)
        rows, columns = split
        if first:
            w1 = self.put(module, "lokr_w1", rows, columns, std=0.3)
        else:
            w1 = self.put(module, "lokr_w1_a", rows, rank, std=0.5) @ self.put(
                module, "lokr_w1_b", rank, columns, std=0.5
            )
        out, channels = out // rows, channels // columns
        if second:
            w2 = self.put(module, "lokr_w2", out, channels, *taps, std=0.2)
        elif core:
            t = self.put(module, "lokr_t2", rank, rank, *taps, std=0.7)
            a = self.put(module, "lokr_w2_a", rank, out, std=0.5)
            b = self.put(module, "lokr_w2_b", rank, channels, std=0.5)
            w2 = torch.einsum("ij...,jc,io->oc...", t, b, a)
        else:
            a = self.put(module, "lokr_w2_a", out, rank, std=0.5)
            w2 = a @ self.put(module, "lokr_w2_b", rank, channels, std=0.3)
        self.alpha(module, alpha)
        scale = 1.0 if first and second else alpha / rank
        self.changes[module] = scale * torch.kron(w1, w2.flatten(1).contiguous())

    def diff(self, module):
        shape = self.shapes[module]
        delta = self.put(module, "diff", *shape, std=0.2 * torch.Size(shape[1:]).numel() ** -0.5)
        self.changes[module] = delta.flatten(1) if delta.ndim > 1 else delta

    def diff_m(self, table):
        """Of a block's `scale_shift_table`, which the Wan team calls `modulation`."""
        block = table.removesuffix(".scale_shift_table")
        shape = self.shapes[table]
        delta = normal(self.rng, *shape, std=0.05).to(self.dtype)
        self.tensors[f"{self.key(block)}.diff_m"] = delta
        self.changes[table] = delta.double().flatten(1)

    def diff_b(self, module):
        self.biases[module] = self.put(module, "diff_b", self.shapes[module][0], std=0.1)

    def dora_scale(self, module, weight, columns=False):
        """LyCORIS: `weight` is that of the base, near whose lengths the magnitudes lie."""
        matrix = weight.flatten(1)
        lengths = matrix.norm(dim=0 if columns else 1)
        shape = [1, -1] if columns else [-1] + [1] * (weight.ndim - 1)
        noise = 1 + normal(self.rng, lengths.numel(), std=0.2)
        tensor = (lengths * noise).reshape(shape).to(self.dtype)
        self.tensors[f"{self.key(module)}.dora_scale"] = tensor
        self.magnitudes[module] = (tensor.double().flatten(), 0 if columns else 1)

    def save(self, path, metadata=None):
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({k: v.contiguous() for k, v in self.tensors.items()}, path, metadata=metadata)
        path.chmod(0o644)

    def new_weight(self, module, weight, strength=1.0):
        """W' in double precision, of the shape of W."""
        change = self.changes.get(module)
        if change is None:
            return weight.double()
        changed = weight.double() + strength * change.reshape(weight.shape)
        if module in self.magnitudes:
            lengths, dim = self.magnitudes[module]
            matrix = changed.flatten(1)
            factor = lengths / matrix.norm(dim=dim)
            changed = (matrix * (factor[:, None] if dim == 1 else factor)).reshape(weight.shape)
        return changed


def shapes_of(folder, name="diffusion_pytorch_model.safetensors"):
    stored = load_file(with_weights(folder) / name)
    return {k.removesuffix(".weight"): list(v.shape) for k, v in stored.items() if not k.endswith(".bias")}  # fmt: skip


def diffusers_metadata(rank, alpha, modules):
    """What diffusers' trainers put into the header."""
    config = {"r": rank, "lora_alpha": alpha, "target_modules": modules}
    flat = {f"transformer.{key}": value for key, value in config.items()}
    return {"format": "pt", "lora_adapter_metadata": json.dumps(flat, sort_keys=True)}
