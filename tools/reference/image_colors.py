"""Small image files with colour profiles and the sRGB pixels that LittleCMS makes of them, for media/color/colors_test.ts.

Run: python tools/reference/image_colors.py
Writes tests/goldens/media/colors.json. The profiles are made here; relative colorimetric intent, 8 bits.
Needs Pillow and NumPy.
"""

import base64
import io
import json
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageCms

OUT = Path(__file__).parents[2] / "tests/goldens/media/colors.json"
SRGB = ImageCms.createProfile("sRGB")


def s15(value):
    return struct.pack(">i", round(value * 65536))


def xyz(values):
    return b"XYZ \0\0\0\0" + b"".join(s15(value) for value in values)


def gamma(value):
    return b"curv\0\0\0\0" + struct.pack(">IH", 1, round(value * 256))


def table(function, count):
    entries = [round(65535 * function(i / (count - 1))) for i in range(count)]
    return b"curv\0\0\0\0" + struct.pack(f">I{count}H", count, *entries)


def parametric(kind, *values):
    return b"para\0\0\0\0" + struct.pack(">HH", kind, 0) + b"".join(s15(value) for value in values)


def profile(space, tags):
    tags = {"wtpt": xyz((0.9642, 1, 0.8249)), **tags}
    directory, body = struct.pack(">I", len(tags)), b""
    offset = 128 + 4 + 12 * len(tags)
    for name, data in tags.items():
        data += b"\0" * (-len(data) % 4)
        directory += name.encode() + struct.pack(">II", offset + len(body), len(data))
        body += data
    size = 128 + len(directory) + len(body)
    head = struct.pack(">III", size, 0, 0x02400000) + b"mntr" + space + b"XYZ "
    head += struct.pack(">6H", 2026, 1, 1, 0, 0, 0) + b"acsp" + b"\0" * 28 + s15(0.9642) + s15(1) + s15(0.8249)
    return head.ljust(128, b"\0") + directory + body


def rgb_profile(columns, curve):
    return profile(
        b"RGB ",
        {f"{name}XYZ": xyz(column) for name, column in zip("rgb", columns)} | {f"{name}TRC": curve for name in "rgb"},
    )


P3 = ((0.51512, 0.24120, -0.00105), (0.29198, 0.69225, 0.04189), (0.15710, 0.06657, 0.78407))
ADOBE = ((0.60974, 0.31111, 0.01947), (0.20528, 0.62567, 0.06087), (0.14919, 0.06322, 0.74457))
OWN = ((0.43607, 0.22249, 0.01392), (0.38515, 0.71687, 0.09708), (0.14307, 0.06061, 0.71410))
SRGB_CURVE = parametric(3, 2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)


def srgb(value):
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


PROFILES = {
    "p3": rgb_profile(P3, SRGB_CURVE),
    "adobe": rgb_profile(ADOBE, gamma(2.19921875)),
    "linear": rgb_profile(OWN, b"curv\0\0\0\0" + struct.pack(">I", 0)),
    "table": rgb_profile(ADOBE, table(lambda value: value**1.8, 1024)),
    "power": rgb_profile(P3, parametric(0, 1.8)),
    "offset": rgb_profile(P3, parametric(4, 2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045, 0.01, 0.005)),
    "srgb": rgb_profile(OWN, SRGB_CURVE),
    "srgb-table": rgb_profile(OWN, table(srgb, 1024)),
}
GREY = profile(b"GRAY", {"kTRC": gamma(1.8)})


def seen(image, icc, mode="RGB"):
    return ImageCms.profileToProfile(
        image, ImageCms.ImageCmsProfile(io.BytesIO(icc)), SRGB, renderingIntent=1, outputMode=mode
    )


def case(name, image, file_format, icc, **options):
    file = io.BytesIO()
    image.save(file, file_format, icc_profile=icc, **options)
    stored = Image.open(io.BytesIO(file.getvalue()))
    # Pillow's converter leaves alpha out.
    pixels = np.asarray(seen(stored.convert("L" if stored.mode == "L" else "RGB"), icc))
    return {
        "name": name,
        "width": image.width,
        "height": image.height,
        "file": base64.b64encode(file.getvalue()).decode(),
        "pixels": base64.b64encode(zlib.compress(pixels.tobytes(), 9)).decode(),
    }


def main():
    random = np.random.default_rng(7)
    noise = random.integers(0, 256, (24, 24, 3), dtype=np.uint8)
    rgb, grey = Image.fromarray(noise), Image.fromarray(noise[..., 0])
    alpha = Image.fromarray(np.concatenate([noise, noise[..., :1]], axis=-1))
    cases = [case(f"png-{name}", rgb, "PNG", icc) for name, icc in PROFILES.items()]
    cases += [
        case("jpeg-p3", rgb, "JPEG", PROFILES["p3"], quality=95, subsampling=0),
        case("webp-adobe", rgb, "WEBP", PROFILES["adobe"], lossless=True),
        case("webp-alpha-p3", alpha, "WEBP", PROFILES["p3"], lossless=True, exact=True),
        case("png-alpha-p3", alpha, "PNG", PROFILES["p3"]),
        case("png-grey", grey, "PNG", GREY),
        case("jpeg-grey", grey, "JPEG", GREY, quality=95),
    ]
    OUT.write_text(json.dumps({"cases": cases}, indent=0) + "\n")


if __name__ == "__main__":
    main()
