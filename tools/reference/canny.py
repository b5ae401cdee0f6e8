"""Golden edges of OpenCV's Canny, for media/canny_test.ts.

Run: python3 tools/reference/canny.py, with opencv-python-headless==4.12.0.88
Writes tests/goldens/media/canny.json: how many pixels are edges, and the SHA-256 of the map.
"""

import hashlib
import json
import pathlib

import cv2
import numpy

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "goldens" / "media"
SIZES = [(1, 1), (2, 5), (17, 16), (64, 64), (97, 61), (320, 200)]
THRESHOLDS = [(100, 200), (10, 30), (20.7, 20.7), (400, 150), (0, 0), (0, 2040)]
# Sides of the squares that pictures are made of; 1 is noise.
BLOCKS = [1, 5, 16]


def noise(width, height, channels):
    """As tools/reference/resize.py has it."""
    state = width * 65536 + height * 256 + channels
    out = bytearray()
    for _ in range(width * height * channels):
        state = (state * 1664525 + 1013904223) % 2**32
        out.append(state >> 24)
    return bytes(out)


def picture(width, height, block, is_smooth):
    """Squares of noise, plain or each pixel the mean of the 5 x 5 around it."""
    columns, rows = -(-width // block), -(-height // block)
    coarse = numpy.frombuffer(noise(columns, rows, 3), numpy.uint8).reshape(rows, columns, 3)
    large = coarse.repeat(block, 0).repeat(block, 1)[:height, :width]
    if not is_smooth:
        return large
    padded = numpy.pad(large.astype(int), ((2, 2), (2, 2), (0, 0)), mode="edge")
    parts = [padded[y : y + height, x : x + width] for y in range(5) for x in range(5)]
    return (sum(parts) // 25).astype(numpy.uint8)


def main():
    cases = []
    for size in SIZES:
        for block in BLOCKS:
            for is_smooth in (False, True):
                for low, high in THRESHOLDS:
                    grey = cv2.cvtColor(picture(*size, block, is_smooth), cv2.COLOR_RGB2GRAY)
                    edges = cv2.Canny(grey, low, high)
                    digest = hashlib.sha256(edges.tobytes()).hexdigest()[:16]
                    cases.append([*size, block, is_smooth, low, high, int((edges > 0).sum()), digest])
    lines = ",\n".join("  " + json.dumps(case) for case in cases)
    text = f'{{\n"opencv": "{cv2.__version__}",\n"cases": [\n{lines}\n]\n}}\n'
    (OUT / "canny.json").write_text(text)
    print(f"{len(cases)} cases, {len(text) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
