"""Golden values of torch.randn on the CPU generator, for models/schedulers/noise_test.ts.

Run: python3 tools/reference/noise.py
Writes tests/goldens/noise/noise.json and noise.f32. Needs an x86-64 processor with AVX2, because
PyTorch picks its kernel by processor and the values differ in the last bit elsewhere.
"""

import hashlib
import json
import pathlib

import torch

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "goldens" / "noise"
SEEDS = [0, 1, 42, 2**32 - 1, 2**32 + 42, 2**53 - 1, 2**63 + 12345, 2**64 - 1, -7]
SEQUENCES = [
    [3, 5, 16, 1, 17, 40, 2, 7, 100, 1, 1],
    [16, 1, 16, 1, 31, 2],
    [1, 65, 1, 1, 999],
    [0, 4, 0, 33],
]
HASHED = [1000, 4096, 65535, 65536, 1000003]


def draw(seed, sizes):
    generator = torch.Generator("cpu").manual_seed(seed)
    return [torch.randn(n, generator=generator) for n in sizes]


def main():
    assert torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512"), "needs AVX2"
    OUT.mkdir(parents=True, exist_ok=True)
    blob = bytearray()
    stored, hashed = [], []
    for seed in SEEDS:
        plans = [[n] for n in range(1, 41)] if seed in (0, 42, 2**53 - 1) else [[7], [16], [37]]
        for sizes in plans + SEQUENCES:
            stored.append({"seed": str(seed), "sizes": sizes, "offset": len(blob) // 4})
            blob += b"".join(t.numpy().tobytes() for t in draw(seed, sizes))
        for n in HASHED:
            (values,) = draw(seed, [n])
            digest = hashlib.sha256(values.numpy().tobytes()).hexdigest()
            hashed.append({"seed": str(seed), "size": n, "sha256": digest})
    (OUT / "noise.f32").write_bytes(blob)
    index = {
        "generator": f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}",
        "stored": stored,
        "hashed": hashed,
    }
    (OUT / "noise.json").write_text(json.dumps(index, separators=(",", ":")) + "\n")
    print(f"{len(stored)} stored cases, {len(hashed)} hashed, {len(blob)} bytes")


if __name__ == "__main__":
    main()
