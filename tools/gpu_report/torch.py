"""Times the ops and models of `denoise report` in PyTorch on the same card.

    python tools/gpu_report/torch.py --out torch.json
    denoise report --torch torch.json

CUDA, ROCm, MPS or the CPU; bfloat16, `scaled_dot_product_attention`, convolutions with channels last,
the median of some runs. Weights are random and nothing is downloaded. The models are written down here
as far as time depends on it: their layers in their order, without schedulers and tokenizers.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

# This file has the name of the package that it imports.
sys.path = [path for path in sys.path if pathlib.Path(path or ".").resolve() != pathlib.Path(__file__).resolve().parent]

import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

# Those of report/sections/ops.ts, without the format of the weights.
OPS = [
    "linear:4160x10240x3840",
    "attention:4160x30x128",
    "conv2d:512x512x256x256",
    "linear:4160x3840x10240",
    "linear:4160x11520x3840",
    "linear:4160x3840x3840",
    "attention:32760x12x128",
    "linear:32760x8960x1536",
    "linear:32760x1536x8960",
    "linear:32760x4608x1536",
    "cross_attention:32760x512x12x128",
    "conv3d:4x480x832x96x96",
    "conv2d:1024x1024x128x128",
    "linear:20x9728x2560",
    "linear:512x9728x2560",
    "matmul:4096x4096x4096",
    "rms_norm:4160x3840",
    "layer_norm:32760x1536",
    "group_norm:262144x256",
]

BYTES = 2
"""Of an element."""


class Clock:
    """Times work on one device."""

    def __init__(self, device, end):
        self.device = device
        self.end = end

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()
        elif self.device == "mps":
            torch.mps.synchronize()

    def milliseconds(self, work):
        """The median of up to 20 runs, in half a second; several calls in a run where one is short."""
        work()
        self.wait()
        start = time.perf_counter()
        work()
        self.wait()
        first = time.perf_counter() - start
        calls = max(1, round(0.005 / max(first, 1e-6)))
        times = []
        while not times or (len(times) < 20 and sum(times) < 0.5 and time.monotonic() < self.end):
            start = time.perf_counter()
            for _ in range(calls):
                work()
            self.wait()
            times.append(time.perf_counter() - start)
        return statistics.median(times) / calls * 1000


def attend(q, k, v, causal=False):
    """[batch, tokens, heads, size] each."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    grouped = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped).transpose(1, 2)


def op(spec, make):
    """An op as a function, with its arithmetic operations and the bytes that move at least."""
    name, sizes = spec.split(":")
    sizes = [int(size) for size in sizes.split("x")]
    if name in ("linear", "matmul"):
        m, n, k = sizes
        x, w = make(m, k), make(n, k) if name == "linear" else make(k, n)
        work = (lambda: F.linear(x, w)) if name == "linear" else (lambda: x @ w)
        return work, 2 * m * n * k, BYTES * (m * k + n * k + m * n)
    if name in ("attention", "cross_attention"):
        tokens, *rest = sizes
        keys = rest.pop(0) if name == "cross_attention" else tokens
        heads, size = rest
        q, k, v = make(1, tokens, heads, size), make(1, keys, heads, size), make(1, keys, heads, size)
        return lambda: attend(q, k, v), 4 * heads * tokens * keys * size, BYTES * 2 * (tokens + keys) * heads * size
    if name == "conv2d":
        height, width, inner, outer = sizes
        x = make(1, inner, height, width).contiguous(memory_format=torch.channels_last)
        w = make(outer, inner, 3, 3).contiguous(memory_format=torch.channels_last)
        flops = 2 * height * width * outer * 9 * inner
        return lambda: F.conv2d(x, w, padding=1), flops, BYTES * (height * width * (inner + outer) + 9 * inner * outer)
    if name == "conv3d":
        frames, height, width, inner, outer = sizes
        x = make(1, inner, frames, height, width).contiguous(memory_format=torch.channels_last_3d)
        w = make(outer, inner, 3, 3, 3).contiguous(memory_format=torch.channels_last_3d)
        taps = 9 * (1 if frames == 1 else 3 * frames - 3)
        flops = 2 * height * width * outer * taps * inner
        moved = BYTES * (frames * height * width * (inner + outer) + 27 * inner * outer)
        return lambda: F.conv3d(F.pad(x, (1, 1, 1, 1, 2, 0)), w), flops, moved
    rows, columns = sizes
    x = make(rows, columns)
    if name == "rms_norm":
        work = lambda: F.rms_norm(x, (columns,), eps=1e-6)  # noqa: E731
    elif name == "layer_norm":
        work = lambda: F.layer_norm(x, (columns,), eps=1e-6)  # noqa: E731
    else:
        image = x.T.reshape(1, columns, rows, 1).contiguous(memory_format=torch.channels_last)
        work = lambda: F.group_norm(image, 32, eps=1e-6)  # noqa: E731
    return work, 8 * rows * columns, BYTES * 2 * rows * columns


def rotate(x, cos, sin):
    """Neighbours as pairs."""
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2).to(x.dtype)


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(dim))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, 1e-6)


class Tables(nn.Module):
    """Rotary positions: random angles take as long as true ones."""

    def __init__(self, tokens, size):
        super().__init__()
        angles = torch.rand(tokens, 1, size // 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())


class ZImageBlock(nn.Module):
    def __init__(self, dim=3840, heads=30, hidden=10240):
        super().__init__()
        self.heads = heads
        self.qkv = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.out = nn.Linear(dim, dim, bias=False)
        self.norm_q, self.norm_k = RMSNorm(dim // heads), RMSNorm(dim // heads)
        self.norms = nn.ModuleList(RMSNorm(dim) for _ in range(4))
        self.w1, self.w3 = (nn.Linear(dim, hidden, bias=False) for _ in range(2))
        self.w2 = nn.Linear(hidden, dim, bias=False)

    def forward(self, x, tables, modulation):
        scale, gate, scale2, gate2 = modulation
        h = self.norms[0](x) * scale
        q, k, v = (layer(h).unflatten(-1, (self.heads, -1)) for layer in self.qkv)
        q, k = (rotate(y, tables.cos, tables.sin) for y in (self.norm_q(q), self.norm_k(k)))
        x = x + gate.tanh() * self.norms[1](self.out(attend(q, k, v).flatten(-2)))
        h = self.norms[2](x) * scale2
        return x + gate2.tanh() * self.norms[3](self.w2(F.silu(self.w1(h)) * self.w3(h)))


class ZImage(nn.Module):
    def __init__(self, width, height, text=64):
        super().__init__()
        tokens = width * height // 256
        self.embed, self.final = nn.Linear(64, 3840), nn.Linear(3840, 64)
        self.refiners = nn.ModuleList(ZImageBlock() for _ in range(2))
        self.layers = nn.ModuleList(ZImageBlock() for _ in range(30))
        self.own, self.joint = Tables(tokens, 128), Tables(tokens + text, 128)
        self.tokens = tokens
        self.inputs = ((1, tokens, 64), (1, text, 3840), (4, 1, 1, 3840))

    def forward(self, sample, text, modulation):
        x = self.embed(sample)
        for block in self.refiners:
            x = block(x, self.own, modulation)
        x = torch.cat((x, text), 1)
        for block in self.layers:
            x = block(x, self.joint, modulation)
        return self.final(F.layer_norm(x[:, : self.tokens], (3840,)) * modulation[0])


class Klein(nn.Module):
    """FLUX.2 klein 4B: five layers with two streams, twenty with one."""

    def __init__(self, width, height, text=512, dim=3072, heads=24):
        super().__init__()
        tokens = width * height // 256
        self.text, self.heads, self.dim = text, heads, dim
        self.embed, self.final = nn.Linear(128, dim, bias=False), nn.Linear(dim, 128, bias=False)

        def stream():
            return nn.ModuleDict({
                "qkv": nn.Linear(dim, 3 * dim, bias=False),
                "out": nn.Linear(dim, dim, bias=False),
                "up": nn.Linear(dim, 6 * dim, bias=False),
                "down": nn.Linear(3 * dim, dim, bias=False),
                "q": RMSNorm(dim // heads),
                "k": RMSNorm(dim // heads),
            })

        def single():
            return nn.ModuleDict({
                "in": nn.Linear(dim, 9 * dim, bias=False),
                "out": nn.Linear(4 * dim, dim, bias=False),
                "q": RMSNorm(dim // heads),
                "k": RMSNorm(dim // heads),
            })

        self.doubles = nn.ModuleList(nn.ModuleList((stream(), stream())) for _ in range(5))
        self.singles = nn.ModuleList(single() for _ in range(20))
        self.tables = Tables(tokens + text, dim // heads)
        self.inputs = ((1, tokens, 128), (1, text, dim), (6, 1, 1, dim))

    def norm(self, x, shift, scale):
        return F.layer_norm(x, (self.dim,), eps=1e-6) * (1 + scale) + shift

    def split(self, block, qkv):
        q, k, v = (part.unflatten(-1, (self.heads, -1)) for part in qkv.chunk(3, -1))
        return block["q"](q), block["k"](k), v

    def attended(self, q, k, v):
        q, k = (rotate(x, self.tables.cos, self.tables.sin) for x in (q, k))
        return attend(q, k, v).flatten(-2)

    def forward(self, sample, text, modulation):
        shift, scale, gate, shift2, scale2, gate2 = modulation
        image = self.embed(sample)
        for other, own in self.doubles:
            parts = [
                self.split(block, block["qkv"](self.norm(x, shift, scale)))
                for block, x in ((other, text), (own, image))
            ]
            attended = self.attended(*(torch.cat(pair, 1) for pair in zip(*parts)))
            results = []
            for block, x, part in (
                (other, text, attended[:, : self.text]),
                (own, image, attended[:, self.text :]),
            ):
                x = x + gate * block["out"](part)
                a, b = block["up"](self.norm(x, shift2, scale2)).chunk(2, -1)
                results.append(x + gate2 * block["down"](F.silu(a) * b))
            text, image = results
        x = torch.cat((text, image), 1)
        for block in self.singles:
            joined = block["in"](self.norm(x, shift, scale))
            a, b = joined[..., 3 * self.dim :].chunk(2, -1)
            attended = self.attended(*self.split(block, joined[..., : 3 * self.dim]))
            x = x + gate * block["out"](torch.cat((attended, F.silu(a) * b), -1))
        return self.final(self.norm(x[:, self.text :], shift, scale))


class Wan(nn.Module):
    """Wan 2.1 1.3B, both prompts in one pass; their keys and values are computed before the steps."""

    def __init__(self, width, height, frames=9, dim=1536, heads=12, ffn=8960):
        super().__init__()
        tokens = frames * width * height // 256
        self.heads, self.dim = heads, dim
        self.embed, self.final = nn.Linear(64, dim), nn.Linear(dim, 64)
        self.blocks = nn.ModuleList(
            nn.ModuleDict({
                "qkv": nn.Linear(dim, 3 * dim),
                "out": nn.Linear(dim, dim),
                "cross_q": nn.Linear(dim, dim),
                "cross_out": nn.Linear(dim, dim),
                "norm_q": RMSNorm(dim),
                "norm_k": RMSNorm(dim),
                "norm_cross": RMSNorm(dim),
                "norm2": nn.LayerNorm(dim),
                "up": nn.Linear(dim, ffn),
                "down": nn.Linear(ffn, dim),
            })
            for _ in range(30)
        )
        self.tables = Tables(tokens, dim // heads)
        self.inputs = ((2, tokens, 64), (2, 512, dim), (6, 1, 1, dim))

    def norm(self, x, shift, scale):
        return F.layer_norm(x.float(), (self.dim,), eps=1e-6).to(x.dtype) * (1 + scale) + shift

    def heads_of(self, x):
        return x.unflatten(-1, (self.heads, -1))

    def forward(self, sample, text, modulation):
        shift, scale, gate, shift2, scale2, gate2 = modulation
        x, context = self.embed(sample), self.heads_of(text)
        for block in self.blocks:
            q, k, v = block["qkv"](self.norm(x, shift, scale)).chunk(3, -1)
            q, k = (
                rotate(self.heads_of(y), self.tables.cos, self.tables.sin)
                for y in (block["norm_q"](q), block["norm_k"](k))
            )
            x = x + gate * block["out"](attend(q, k, self.heads_of(v)).flatten(-2))
            query = self.heads_of(block["norm_cross"](block["cross_q"](block["norm2"](x))))
            x = x + block["cross_out"](attend(query, context, context).flatten(-2))
            h = F.gelu(block["up"](self.norm(x, shift2, scale2)), approximate="tanh")
            x = x + gate2 * block["down"](h)
        return self.final(self.norm(x, shift, scale))


class Qwen3(nn.Module):
    def __init__(self, _width, _height, tokens=64, dim=2560, heads=32, shared=8, size=128, hidden=9728):
        super().__init__()
        self.size = size
        self.layers = nn.ModuleList(
            nn.ModuleDict({
                "q": nn.Linear(dim, heads * size, bias=False),
                "k": nn.Linear(dim, shared * size, bias=False),
                "v": nn.Linear(dim, shared * size, bias=False),
                "out": nn.Linear(heads * size, dim, bias=False),
                "norm_q": RMSNorm(size),
                "norm_k": RMSNorm(size),
                "norm1": RMSNorm(dim),
                "norm2": RMSNorm(dim),
                "gate": nn.Linear(dim, hidden, bias=False),
                "up": nn.Linear(dim, hidden, bias=False),
                "down": nn.Linear(hidden, dim, bias=False),
            })
            for _ in range(36)
        )
        self.tables = Tables(tokens, size)
        self.inputs = ((1, tokens, dim),)

    def forward(self, x):
        for layer in self.layers:
            h = layer["norm1"](x)
            q, k, v = (layer[name](h).unflatten(-1, (-1, self.size)) for name in "qkv")
            q, k = (
                rotate(y, self.tables.cos, self.tables.sin)
                for y in (layer["norm_q"](q), layer["norm_k"](k))
            )
            x = x + layer["out"](attend(q, k, v, causal=True).flatten(-2))
            h = layer["norm2"](x)
            x = x + layer["down"](F.silu(layer["gate"](h)) * layer["up"](h))
        return x


class ResidualBlock(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, inner), nn.GroupNorm(32, outer)
        self.conv1, self.conv2 = nn.Conv2d(inner, outer, 3, padding=1), nn.Conv2d(outer, outer, 3, padding=1)
        self.shortcut = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x):
        h = self.conv1(F.silu(self.norm1(x)))
        return self.shortcut(x) + self.conv2(F.silu(self.norm2(h)))


class MidAttention(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(32, channels)
        self.qkv, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)

    def forward(self, x):
        h = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = self.qkv(h).unsqueeze(2).chunk(3, -1)
        return x + self.out(attend(q, k, v).squeeze(2)).transpose(1, 2).reshape(x.shape)


def middle(channels):
    return [ResidualBlock(channels, channels), MidAttention(channels), ResidualBlock(channels, channels)]


class KlDecoder(nn.Sequential):
    def __init__(self, width, height):
        layers = [nn.Conv2d(16, 512, 3, padding=1), *middle(512)]
        before = 512
        for level, channels in enumerate((512, 512, 256, 128)):
            layers += [ResidualBlock(before if i == 0 else channels, channels) for i in range(3)]
            if level < 3:
                layers += [nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(channels, channels, 3, padding=1)]
            before = channels
        super().__init__(*layers, nn.GroupNorm(32, 128), nn.SiLU(), nn.Conv2d(128, 3, 3, padding=1))
        self.inputs = ((1, 16, height // 8, width // 8),)


class KlEncoder(nn.Sequential):
    def __init__(self, width, height):
        layers = [nn.Conv2d(3, 128, 3, padding=1)]
        before = 128
        for level, channels in enumerate((128, 256, 512, 512)):
            layers += [ResidualBlock(before if i == 0 else channels, channels) for i in range(2)]
            if level < 3:
                layers += [nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(channels, channels, 3, stride=2)]
            before = channels
        layers += [*middle(512), nn.GroupNorm(32, 512), nn.SiLU(), nn.Conv2d(512, 32, 3, padding=1)]
        super().__init__(*layers)
        self.inputs = ((1, 3, height, width),)


# Those of report/sections/parts.ts.
PARTS = [
    ("Z-Image-Turbo, a step", ZImage, 1024, 1024),
    ("FLUX.2 klein 4B, a step", Klein, 1024, 1024),
    ("Wan 2.1 1.3B, a guided step of 33 frames", Wan, 832, 480),
    ("Z-Image's decoder", KlDecoder, 1024, 1024),
    ("Z-Image's encoder", KlEncoder, 1024, 1024),
    ("Qwen3-4B, a prompt of 64 tokens", Qwen3, 0, 0),
]


def load(kind, width, height, device):
    """A model with random weights on a device; nothing of it is anywhere else before."""
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            model = kind(width, height).eval()
    finally:
        torch.set_default_dtype(torch.float32)
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            weight.data.normal_(0, (weight.numel() / weight.shape[0]) ** -0.5)
        else:
            weight.data.fill_(0 if name.endswith("bias") else 1)
    if isinstance(model, nn.Sequential):
        model = model.to(memory_format=torch.channels_last)
    inputs = [torch.randn(shape, device=device, dtype=torch.bfloat16) * 0.5 for shape in model.inputs]
    if len(inputs[0].shape) == 4:
        inputs[0] = inputs[0].contiguous(memory_format=torch.channels_last)
    return model, inputs


def default_device():
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default="torch.json")
    parser.add_argument("--device", default=default_device(), choices=["cuda", "mps", "cpu"])
    parser.add_argument("--minutes", type=float, default=5)
    args = parser.parse_args()
    end = time.monotonic() + 60 * args.minutes
    clock = Clock(args.device, end)
    ops, parts = [], []
    names = {"cuda": lambda: torch.cuda.get_device_name(), "mps": lambda: "Apple GPU", "cpu": lambda: "the CPU"}
    report = {
        "device": names[args.device](),
        "torch": torch.__version__,
        "dtype": "bf16",
        "ops": ops,
        "parts": parts,
    }

    def make(*shape):
        return torch.randn(shape, device=args.device, dtype=torch.bfloat16)

    def keep():
        with open(args.out, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)

    jobs = [(spec, None) for spec in OPS] + [(part[0], part) for part in PARTS]
    with torch.no_grad():
        for name, part in jobs:
            if time.monotonic() > end:
                print(f"no time was left for {name} and what comes after it", file=sys.stderr)
                break
            try:
                if part is None:
                    work, flops, moved = op(name, make)
                    ms = clock.milliseconds(work)
                    ops.append({"spec": name, "ms": ms, "flops": flops, "bytes": moved})
                    print(f"{name}: {ms:.3f} ms, {flops / ms / 1e9:.2f} TFLOP/s", file=sys.stderr)
                else:
                    title, kind, width, height = part
                    model, inputs = load(kind, width, height, args.device)
                    ms = clock.milliseconds(lambda: model(*inputs))
                    parts.append({"title": title, "width": width, "height": height, "ms": ms})
                    print(f"{title}: {ms:.1f} ms", file=sys.stderr)
            except (RuntimeError, TypeError, NotImplementedError) as error:
                # Out of memory, or not there on this device: what is left is worth having.
                print(f"{name}: {str(error).splitlines()[0]}", file=sys.stderr)
            work = model = inputs = None
            if args.device == "cuda":
                torch.cuda.empty_cache()
            keep()
    keep()
    print(args.out)


if __name__ == "__main__":
    main()
