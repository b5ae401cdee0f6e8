"""Golden values of quantised weights, for runtime/quantization/formats_test.ts.

Run: python3 tools/reference/quantization.py
Writes tests/goldens/quantization: per format the blocks as files hold them (FORMAT.blocks) and the
float32 values they decode to (FORMAT.values). The q formats are decoded by gguf, which follows
ggml without fused operations; f8_e4m3 by torch.
"""

import hashlib
import json
import pathlib

import gguf
import numpy
import torch

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "goldens" / "quantization"

# Blocks per format, and where the float16 scales lie in one.
FORMATS = {
    "q8_0": (gguf.GGMLQuantizationType.Q8_0, 48, [0]),
    "q4_0": (gguf.GGMLQuantizationType.Q4_0, 48, [0]),
    "q4_k": (gguf.GGMLQuantizationType.Q4_K, 12, [0, 2]),
    "q5_k": (gguf.GGMLQuantizationType.Q5_K, 12, [0, 2]),
    "q6_k": (gguf.GGMLQuantizationType.Q6_K, 12, [208]),
    "q5_0": (gguf.GGMLQuantizationType.Q5_0, 48, [0]),
}


def scales(rng, count):
    """Scales of all sizes and signs, the first of them zero, the least and the largest."""
    values = rng.normal(size=count) * 10.0 ** rng.uniform(-7, 1, size=count)
    values[:4] = [0.0, 2.0**-24, -(2.0**-15), 65504.0]
    return values.astype("<f2")


def blocks_of(kind, count, offsets, rng):
    size = gguf.GGML_QUANT_SIZES[kind][1]
    blocks = rng.integers(0, 256, size=(count, size), dtype=numpy.uint8)
    for offset in offsets:
        blocks[:, offset : offset + 2] = scales(rng, count).view(numpy.uint8).reshape(count, 2)
    return blocks


def write(name, blocks, values):
    assert values.dtype == numpy.float32 and numpy.isfinite(values).all(), name
    (OUT / f"{name}.blocks").write_bytes(blocks.tobytes())
    (OUT / f"{name}.values").write_bytes(values.astype("<f4").tobytes())
    return {
        "format": name,
        "blocks": len(blocks),
        "elements": values.size,
        "sha256": hashlib.sha256(values.astype("<f4").tobytes()).hexdigest(),
    }


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    rng = numpy.random.default_rng(20)
    index = []
    for name, (kind, count, offsets) in FORMATS.items():
        blocks = blocks_of(kind, count, offsets, rng)
        index.append(write(name, blocks, gguf.quants.dequantize(blocks, kind)))
    codes = numpy.array([b for b in range(256) if b & 0x7F != 0x7F] + [0, 0], dtype=numpy.uint8)
    values = torch.from_numpy(codes).view(torch.float8_e4m3fn).to(torch.float32).numpy()
    index.append(write("f8_e4m3", codes.reshape(-1, 4), values))
    document = {
        "generator": f"gguf 0.19.0, torch {torch.__version__}, numpy {numpy.__version__}",
        "formats": index,
    }
    (OUT / "quantization.json").write_text(json.dumps(document, indent=2) + "\n")
    print(sum(entry["elements"] for entry in index), "elements")


if __name__ == "__main__":
    main()
