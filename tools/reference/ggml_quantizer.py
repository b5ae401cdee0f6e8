"""Golden blocks as ggml's own quantiser writes them, for runtime/quantization/encode/mod_test.ts.

Run: python3 tools/reference/ggml_quantizer.py
ggml's ggml-quants.c comes from the source package of stable-diffusion-cpp-python and is compiled alone, without
fused operations. Writes tests/goldens/quantization/encode: 16 blocks of 256 numbers (values.bf16), what each type
makes of them (TYPE.blocks), and the SHA-256 of what each makes of 2^17 normal numbers of a seed (encode.json).
fp8 is rounded by torch.
"""

import ctypes
import hashlib
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import gguf
import numpy
import torch

from common import generator

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "goldens" / "quantization" / "encode"
PACKAGE = "stable-diffusion-cpp-python==0.4.7"
SEED = 7
COUNT = 2**17

# The function of each type; those of the iq types take rows and no importance matrix.
TYPES = {
    "q8_0": "quantize_row_q8_0_ref",
    "q5_1": "quantize_row_q5_1_ref",
    "q5_0": "quantize_row_q5_0_ref",
    "q4_1": "quantize_row_q4_1_ref",
    "q4_0": "quantize_row_q4_0_ref",
    "q6_k": "quantize_row_q6_K_ref",
    "q5_k": "quantize_row_q5_K_ref",
    "q4_k": "quantize_row_q4_K_ref",
    "q3_k": "quantize_row_q3_K_ref",
    "q2_k": "quantize_row_q2_K_ref",
    "iq4_nl": "quantize_iq4_nl",
    "iq4_xs": "quantize_iq4_xs",
    "mxfp4": "quantize_row_mxfp4_ref",
}
FP8 = {"f8_e4m3": torch.float8_e4m3fn, "f8_e5m2": torch.float8_e5m2}

# What ggml-quants.c needs of the rest of ggml, and what none of the functions above calls.
STUBS = """
#include <stdlib.h>
void ggml_abort(const char * file, int line, const char * fmt, ...) { abort(); }
size_t ggml_row_size(int type, long long n) { abort(); }
size_t ggml_type_size(int type) { abort(); }
const char * ggml_type_name(int type) { abort(); }
"""


def build(folder):
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "-d", folder, PACKAGE],
        check=True,
    )
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    (source,) = folder.glob("*/vendor/stable-diffusion.cpp/ggml/src/ggml-quants.c")
    (folder / "stubs.c").write_text(STUBS)
    library = folder / "libquants.so"
    includes = [f"-I{path}" for path in (source.parents[1] / "include", source.parent, source.parent / "ggml-cpu")]
    flags = ["-O2", "-ffp-contract=off", "-shared", "-fPIC", "-w"]
    subprocess.run(["cc", *flags, *includes, source, folder / "stubs.c", "-o", library, "-lm"], check=True)
    return ctypes.CDLL(library)


def quantise(library, name, values):
    values = numpy.ascontiguousarray(values, dtype=numpy.float32)
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name.upper()]]
    out = numpy.zeros(values.size // elements * size, dtype=numpy.uint8)
    function = getattr(library, TYPES[name])
    pointers = (values.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p))
    if TYPES[name].endswith("_ref"):
        function(*pointers, ctypes.c_int64(values.size))
    else:
        function(*pointers, ctypes.c_int64(1), ctypes.c_int64(values.size), None)
    return out


def blocks():
    """Ordinary blocks and those at the ends of what there is, rounded to bf16."""
    rng = numpy.random.default_rng(3)
    rows = [rng.normal(size=256) * size for size in (1, 0.02, 1e-3, 3e-6, 300)]
    rows.append(rng.standard_t(2, size=256) * 0.05)
    rows.append(numpy.abs(rng.normal(size=256)))
    rows.append(-numpy.abs(rng.normal(size=256)) - 1)
    rows.append(numpy.zeros(256))
    rows.append(numpy.full(256, 0.3))
    rows.append(numpy.where(numpy.arange(256) == 77, 5.0, 0.0))
    rows.append(numpy.linspace(-1, 1, 256))
    rows.append(numpy.repeat(rng.normal(size=8), 32))
    rows.append(rng.integers(-3, 4, size=256) * 0.125)
    rows.append(rng.normal(size=256) * 10.0 ** numpy.repeat(rng.uniform(-9, 2, size=16), 16))
    rows.append(rng.normal(size=256) + numpy.where(numpy.arange(256) % 64 == 0, 40, 0))
    return torch.from_numpy(numpy.concatenate(rows)).to(torch.bfloat16)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    values = blocks()
    (OUT / "values.bf16").write_bytes(values.view(torch.uint8).numpy().tobytes())
    drawn = torch.randn(COUNT, generator=generator(SEED)) * 0.05
    index = {}
    with tempfile.TemporaryDirectory() as folder:
        library = build(pathlib.Path(folder))
        for name in TYPES:
            (OUT / f"{name}.blocks").write_bytes(quantise(library, name, values.float().numpy()).tobytes())
            index[name] = hashlib.sha256(quantise(library, name, drawn.numpy()).tobytes()).hexdigest()
    for name, kind in FP8.items():
        index[name] = hashlib.sha256(drawn.to(kind).view(torch.uint8).numpy().tobytes()).hexdigest()
    document = {"package": PACKAGE, "seed": SEED, "count": COUNT, "std": 0.05, "sha256": index}
    (OUT / "encode.json").write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
