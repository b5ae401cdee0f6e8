"""Golden values of quantised weights, for runtime/quantization/formats_test.ts.

Run: python3 tools/reference/quantization.py
Writes tests/goldens/quantization: per format the blocks as files hold them (FORMAT.blocks) and the
float32 values they decode to (FORMAT.values). Those of ggml are decoded by gguf, which follows
ggml without fused operations; fp8 by torch.
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
    "q4_1": (gguf.GGMLQuantizationType.Q4_1, 48, [0, 2]),
    "q5_1": (gguf.GGMLQuantizationType.Q5_1, 48, [0, 2]),
    "q2_k": (gguf.GGMLQuantizationType.Q2_K, 12, [80, 82]),
    "q3_k": (gguf.GGMLQuantizationType.Q3_K, 12, [108]),
    "iq4_nl": (gguf.GGMLQuantizationType.IQ4_NL, 48, [0]),
    "iq4_xs": (gguf.GGMLQuantizationType.IQ4_XS, 12, [0]),
    "mxfp4": (gguf.GGMLQuantizationType.MXFP4, 48, []),
    "iq1_s": (gguf.GGMLQuantizationType.IQ1_S, 6, [0]),
    "iq1_m": (gguf.GGMLQuantizationType.IQ1_M, 6, []),
    "iq2_xxs": (gguf.GGMLQuantizationType.IQ2_XXS, 6, [0]),
    "iq2_xs": (gguf.GGMLQuantizationType.IQ2_XS, 6, [0]),
    "iq2_s": (gguf.GGMLQuantizationType.IQ2_S, 6, [0]),
    "iq3_xxs": (gguf.GGMLQuantizationType.IQ3_XXS, 6, [0]),
    "iq3_s": (gguf.GGMLQuantizationType.IQ3_S, 6, [0]),
    "tq1_0": (gguf.GGMLQuantizationType.TQ1_0, 6, [52]),
    "tq2_0": (gguf.GGMLQuantizationType.TQ2_0, 6, [64]),
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
    if kind == gguf.GGMLQuantizationType.MXFP4:
        # Exponents from the least to the largest whose numbers all are finite.
        blocks[:, 0] = numpy.linspace(0, 252, count).astype(numpy.uint8)
    if kind == gguf.GGMLQuantizationType.IQ1_M:
        # The scale's highest bit but the sign: finite.
        blocks[:, 55] &= 0xBF
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
    for name, kind in (("f8_e4m3", torch.float8_e4m3fn), ("f8_e5m2", torch.float8_e5m2)):
        codes = torch.arange(256, dtype=torch.uint8)
        finite = codes.view(kind).to(torch.float32).isfinite()
        codes = torch.cat([codes[finite], torch.zeros(256 - int(finite.sum()), dtype=torch.uint8)])
        values = codes.view(kind).to(torch.float32).numpy()
        index.append(write(name, codes.numpy().reshape(-1, 4), values))
    document = {
        "generator": f"gguf 0.19.0, torch {torch.__version__}, numpy {numpy.__version__}",
        "formats": index,
    }
    (OUT / "quantization.json").write_text(json.dumps(document, indent=2) + "\n")
    print(sum(entry["elements"] for entry in index), "elements")


if __name__ == "__main__":
    main()
