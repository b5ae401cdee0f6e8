"""Golden results of Pillow's Image.resize, for media/resize_test.ts.

Run: python3 tools/reference/resize.py
Writes tests/goldens/media/resize.json: small results whole, large ones as SHA-256.
"""

import base64
import hashlib
import json
import pathlib
import zlib

import PIL
from PIL import Image

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "goldens" / "media"
FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
STORED = [
    ((1, 1), (4, 3)),
    ((5, 1), (1, 9)),
    ((3, 5), (17, 11)),
    ((16, 16), (16, 7)),
    ((16, 16), (5, 16)),
    ((64, 64), (23, 31)),
    ((333, 257), (29, 20)),
    ((9, 40), (12, 13)),
    ((30, 61), (20, 40)),
    ((30, 60), (20, 40)),
]
HASHED = [
    ((512, 512), (224, 224)),
    ((333, 777), (640, 512)),
    ((333, 257), (1024, 768)),
    ((640, 480), (641, 479)),
]


def noise(width, height, channels):
    """The top bytes of a linear congruential generator; the test makes the same input."""
    state = width * 65536 + height * 256 + channels
    out = bytearray()
    for _ in range(width * height * channels):
        state = (state * 1664525 + 1013904223) % 2**32
        out.append(state >> 24)
    return bytes(out)


def main():
    cases = []
    for sizes, stored in ((STORED, True), (HASHED, False)):
        for source, target in sizes:
            for channels in (3, 4):
                data = noise(*source, channels)
                image = Image.frombytes("RGBA" if channels == 4 else "RGB", source, data)
                for name, resample in FILTERS.items():
                    result = image.resize(target, resample).tobytes()
                    case = {"filter": name, "channels": channels, "from": source, "to": target}
                    if stored:
                        case["data"] = base64.b64encode(zlib.compress(result, 9)).decode()
                    else:
                        case["sha256"] = hashlib.sha256(result).hexdigest()
                    cases.append(case)
    OUT.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join("  " + json.dumps(case) for case in cases)
    text = f'{{\n"pillow": "{PIL.__version__}",\n"cases": [\n{lines}\n]\n}}\n'
    (OUT / "resize.json").write_text(text)


if __name__ == "__main__":
    main()
