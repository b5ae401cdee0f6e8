"""Small image files of every kind with the pixels in them, for media/decode_test.ts.

Run: python3 tools/reference/images.py
Writes tests/goldens/media/images.json. JPEG, WebP, GIF and BMP are written and read by Pillow. PNG
files are written here, because Pillow writes few of the kinds that exist; the pixels follow from
the samples, and where Pillow reads a kind it must agree.
"""

import base64
import io
import itertools
import json
import pathlib
import struct
import zlib

import numpy as np
import PIL
from PIL import Image, ImageOps

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "goldens" / "media"
SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
DEPTHS = {0: [1, 2, 4, 8, 16], 2: [8, 16], 3: [1, 2, 4, 8], 4: [8, 16], 6: [8, 16]}
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2)]
ADAM7 += [(0, 1, 1, 2)]


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed_row(samples, depth):
    """One row of samples as bytes, most significant bit first."""
    bits = "".join(format(int(v), f"0{depth}b") for v in samples.ravel())
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))


def paeth(a, b, c):
    p = a + b - c
    return min((a, b, c), key=lambda v: abs(p - v))


def filtered(kind, row, above, step):
    out = bytearray([kind])
    for i, value in enumerate(row):
        a = row[i - step] if i >= step else 0
        c = above[i - step] if i >= step else 0
        b = above[i]
        guess = [0, a, b, (a + b) // 2, paeth(a, b, c)][kind]
        out.append((value - guess) % 256)
    return bytes(out)


def png(samples, color, depth, interlaced, palette=None, transparency=None):
    """A PNG file of samples[height, width, channels], its rows cycling through the five filters."""
    height, width, _ = samples.shape
    step = max(1, SAMPLES[color] * depth // 8)
    stream = b""
    for x, y, dx, dy in ADAM7 if interlaced else [(0, 0, 1, 1)]:
        part = samples[y::dy, x::dx]
        if part.shape[0] == 0 or part.shape[1] == 0:
            continue
        above = None
        for i, line in enumerate(part):
            row = packed_row(line, depth)
            stream += filtered(i % 5, row, above or bytes(len(row)), step)
            above = row
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, int(interlaced))
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    if palette is not None:
        out += chunk(b"PLTE", palette.astype("uint8").tobytes())
    if transparency is not None:
        out += chunk(b"tRNS", transparency)
    data = zlib.compress(stream)
    half = len(data) // 2
    return out + chunk(b"IDAT", data[:half]) + chunk(b"IDAT", data[half:]) + chunk(b"IEND", b"")


def png_cases(rng):
    kinds = [(c, d, i) for c in SAMPLES for d in DEPTHS[c] for i in (False, True)]
    for (color, depth, interlaced), keyed in itertools.product(kinds, (False, True)):
        if keyed and color >= 4:
            continue
        samples = rng.integers(0, 2**depth, (11, 13, SAMPLES[color]))
        palette = transparency = None
        if color == 3:
            palette = rng.integers(0, 256, (2**depth, 3))
            rgb = palette[samples[..., 0]]
            alpha = np.full(samples.shape[:2], 255)
            if keyed:
                opacity = rng.integers(0, 256, 2**depth - 1)
                transparency = opacity.astype("uint8").tobytes()
                alpha = np.append(opacity, 255)[samples[..., 0]]
        else:
            scaled = samples >> 8 if depth == 16 else samples * 255 // (2**depth - 1)
            grey = color in (0, 4)
            rgb = np.repeat(scaled[..., :1], 3, axis=2) if grey else scaled[..., :3]
            alpha = scaled[..., -1] if color >= 4 else np.full(samples.shape[:2], 255)
            if keyed:
                key = samples[4, 6].copy()
                samples[7, 2] = key
                rgb[7, 2] = rgb[4, 6]
                transparency = struct.pack(f">{len(key)}H", *key)
                alpha = np.where((samples == key).all(axis=2), 0, 255)
        pixels = rgb
        if keyed or color >= 4:
            pixels = np.concatenate([rgb, alpha[..., None]], axis=2)
        data = png(samples, color, depth, interlaced, palette, transparency)
        image = Image.open(io.BytesIO(data))
        # Pillow does not scale the transparent colour of grey with few bits.
        unscaled = keyed and color == 0 and depth < 8
        if depth < 16 and not unscaled:
            seen = np.array(image.convert("RGBA" if pixels.shape[2] == 4 else "RGB"))
            assert (seen == pixels).all(), (color, depth, interlaced, keyed)
        elif not keyed and color == 2:
            assert (np.array(image) == pixels).all()
        name = f"png-{color}-{depth}{'-adam7' if interlaced else ''}{'-trns' if keyed else ''}"
        yield name, data, pixels.astype("uint8")


def smooth(width, height, mode):
    """A picture with slopes and an edge, so that lossy files are not all noise."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [x * 255 // width, y * 255 // height, (x * 5 + y * 9) % 256, 255 - x * y % 200]
    planes[0] = np.where(x > y, planes[0], 255 - planes[0])
    return Image.fromarray(np.stack(planes[: len(mode)], -1).astype("uint8"), mode)


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def photo_cases():
    rgb, rgba = smooth(37, 29, "RGB"), smooth(37, 29, "RGBA")
    files = {
        "jpeg-444": saved(rgb, "JPEG", quality=90, subsampling=0),
        "jpeg-420": saved(rgb, "JPEG", quality=75, subsampling=2),
        "jpeg-progressive": saved(rgb, "JPEG", quality=85, progressive=True),
        "jpeg-grey": saved(rgb.convert("L"), "JPEG", quality=85),
        "jpeg-restart": saved(rgb, "JPEG", quality=85, restart_marker_blocks=2),
        "webp-lossy": saved(rgb, "WEBP", quality=80),
        "webp-lossy-alpha": saved(rgba, "WEBP", quality=80),
        "webp-lossless": saved(rgb, "WEBP", lossless=True),
        "webp-lossless-alpha": saved(rgba, "WEBP", lossless=True),
        "jpeg-cmyk": saved(rgb.convert("CMYK"), "JPEG", quality=90),
        "gif": saved(rgb.quantize(16), "GIF"),
        "bmp": saved(rgb, "BMP"),
    }
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        files[f"jpeg-exif-{orientation}"] = saved(rgb.crop((0, 0, 13, 7)), "JPEG", exif=exif)
    exif = Image.Exif()
    exif[0x0112] = 6
    files["webp-exif-6"] = saved(rgb, "WEBP", lossless=True, exif=exif)
    files["png-exif-6"] = saved(rgb, "PNG", exif=exif)
    frames = [rgb.crop((0, 0, 16, 16)), rgb.crop((9, 9, 25, 25))]
    files["webp-animated"] = saved(
        frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True
    )
    files["gif-animated"] = saved(
        frames[0].quantize(8), "GIF", save_all=True, append_images=[frames[1].quantize(8)]
    )
    for name, data in files.items():
        image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
        mode = "RGBA" if "alpha" in name else "RGB"
        yield name, data, np.array(image.convert(mode))


def main():
    cases = []
    for name, data, pixels in [*png_cases(np.random.default_rng(7)), *photo_cases()]:
        height, width, channels = pixels.shape
        case = {"name": name, "width": width, "height": height, "channels": channels}
        case["file"] = base64.b64encode(data).decode()
        case["pixels"] = base64.b64encode(zlib.compress(pixels.tobytes(), 9)).decode()
        cases.append(case)
    OUT.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join("  " + json.dumps(case) for case in cases)
    text = f'{{\n"pillow": "{PIL.__version__}",\n"cases": [\n{lines}\n]\n}}\n'
    (OUT / "images.json").write_text(text)


if __name__ == "__main__":
    main()
