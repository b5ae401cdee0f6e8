"""Reads a scene back from its pixels, and compares it with what was asked for.

The reader segments an image against its border colour, names each object's colour by the nearest palette entry
and its shape by the best overlap with rendered templates. It knows nothing of the model. Scored on the renders
themselves it is right nearly always ("truth"), and on images that only went through the autoencoder it says
what the autoencoder alone loses ("bound").
"""

from dataclasses import dataclass

import numpy as np

import data
from render import COLORS, PLAIN, RGB, SHAPES, Style, mixed, render

PALETTE = RGB.numpy()
SEGMENT = 0.42  # distance from the background, in units of [-1, 1] RGB; named contrasts start at 0.9
TEMPLATE = 32
_templates: list[tuple[int, np.ndarray]] = []


@dataclass
class Found:
    """One object read from an image; position in [-1, 1], area as a share of the image.

    `filled` is the share of its silhouette that is painted, `chroma` the largest channel less the smallest, 0..1.
    """

    color: str
    shape: str
    overlap: float
    x: float
    y: float
    area: float
    filled: float
    chroma: float


def _normalised(mask: np.ndarray) -> np.ndarray:
    """The mask's bounding square, resampled to 32 x 32."""
    rows, columns = mask.nonzero()
    top, bottom, left, right = rows.min(), rows.max() + 1, columns.min(), columns.max() + 1
    side = max(bottom - top, right - left)
    line = (np.arange(TEMPLATE) + 0.5) / TEMPLATE - 0.5
    r = np.floor((top + bottom) / 2 + line * side).astype(int)
    c = np.floor((left + right) / 2 + line * side).astype(int)
    inside = (r >= 0)[:, None] & (r < mask.shape[0])[:, None] & (c >= 0) & (c < mask.shape[1])
    return inside & mask[np.ix_(r.clip(0, mask.shape[0] - 1), c.clip(0, mask.shape[1] - 1))]


def templates() -> list[tuple[int, np.ndarray]]:
    """Every shape at four sizes and three slight rotations, as normalised masks."""
    if not _templates:
        for index, shape in enumerate(SHAPES):
            for extent in (0.2, 0.3, 0.45, 0.7):
                for turn in (-0.08, 0.0, 0.08):
                    image = render([[(shape, "black", 0, 0, extent, turn)]], ["white"], 96)[0].numpy()
                    _templates.append((index, _normalised(image.mean(0) < 0)))
    return _templates


def _components(mask: np.ndarray, smallest: int) -> list[np.ndarray]:
    """Masks of the 4-connected parts of at least `smallest` pixels, largest first."""
    left, parts = mask.copy(), []
    height, width = mask.shape
    for start in zip(*mask.nonzero()):
        if not left[start]:
            continue
        part, stack = np.zeros_like(mask), [start]
        left[start] = False
        while stack:
            y, x = stack.pop()
            part[y, x] = True
            for q in ((y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)):
                if 0 <= q[0] < height and 0 <= q[1] < width and left[q]:
                    left[q] = False
                    stack.append(q)
        if part.sum() >= smallest:
            parts.append(part)
    return sorted(parts, key=lambda p: -p.sum())


def _silhouette(mask: np.ndarray) -> np.ndarray:
    """The mask with its holes filled: all that the outside does not reach."""
    outside = _components(~np.pad(mask, 1), 1)
    return ~next(part for part in outside if part[0, 0])[1:-1, 1:-1]


def color_name(rgb: np.ndarray, palette: np.ndarray = PALETTE) -> str:
    """The nearest colour of one pixel in [-1, 1]; `palette` may hold several rows of the twelve."""
    return COLORS[int(((palette - rgb) ** 2).sum(1).argmin()) % len(COLORS)]


def _eroded(mask: np.ndarray) -> np.ndarray:
    padded = np.pad(mask, 1)
    return mask & padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]


def read(image: np.ndarray, style: Style = PLAIN) -> tuple[str, list[Found]]:
    """Background colour and objects, largest first, of an image [H, W, 3] in [-1, 1].

    In an image in `style`, colours are compared with those of the style, and strokes count as the silhouettes that
    they surround, so that a ring reads as a circle.
    """
    paint = mixed(style.paint).numpy()
    paper = np.concatenate([mixed(style.paper).numpy(), PALETTE])
    least = SEGMENT * (1 - style.paint / 2)
    border = np.concatenate([image[:2].reshape(-1, 3), image[-2:].reshape(-1, 3),
                             image[:, :2].reshape(-1, 3), image[:, -2:].reshape(-1, 3)])
    background = np.median(border, 0)
    distance = np.sqrt(((image - background) ** 2).sum(-1))
    found, taken = [], np.zeros(distance.shape, bool)
    for part in _components(distance > least, max(6, int(0.004 * distance.size))):
        mask = part & (distance > 0.5 * np.quantile(distance[part], 0.75))
        silhouette = _silhouette(mask)
        if style.line and (silhouette & taken).any():
            continue
        taken |= silhouette
        inner = _eroded(mask)
        colors = image[inner if inner.sum() >= 4 else mask]
        whole = silhouette if style.line else mask
        square = _normalised(whole)
        overlap, index = max(((square & t).sum() / (square | t).sum(), i) for i, t in templates())
        rows, columns = whole.nonzero()
        found.append(Found(
            color_name(np.median(colors, 0), paint), SHAPES[index], float(overlap),
            (columns.mean() + 0.5) / mask.shape[1] * 2 - 1, (rows.mean() + 0.5) / mask.shape[0] * 2 - 1,
            whole.mean(), mask.sum() / silhouette.sum(), float(np.median(np.ptp(colors, 1)) / 2)))
    return color_name(background, paper), found


def score_still(image: np.ndarray, scene: data.Scene, style: Style = PLAIN) -> dict[str, float]:
    """What is right in a still image, as shares, and what shows its style; the keys depend on the kind of scene."""
    background, found = read(image, style)
    wanted = scene.objects
    result = {"background": background == scene.background}
    if found:
        result["style: silhouette painted"] = sum(f.filled for f in found) / len(found)
        result["style: chroma"] = sum(f.chroma for f in found) / len(found)
    if scene.kind in ("single", "position"):
        one = found[0] if found else None
        result["color"] = one is not None and one.color == wanted[0][1]
        result["shape"] = one is not None and one.shape == wanted[0][0]
        if scene.position:
            x, y = data.POSITIONS[scene.position]
            result["position"] = one is not None and abs(one.x - x) < 0.25 and abs(one.y - y) < 0.25
    elif scene.kind == "count":
        result["count"] = len(found) == scene.count
        result["count color"] = bool(found) and all(f.color == wanted[0][1] for f in found)
        result["count shapes, each"] = sum(f.shape == wanted[0][0] for f in found[: scene.count]) / scene.count
    else:
        dx, dy = data.RELATIONS[scene.relation]
        two = sorted(found[:2], key=lambda f: -(f.x * dx + f.y * dy))
        result["pair: two objects"] = len(found) == 2
        right = [(f.color == w[1], f.shape == w[0]) for f, w in zip(two, wanted)] if len(found) > 1 else []
        result["pair: both colors"] = bool(right) and all(c for c, _ in right)
        result["pair: both shapes"] = bool(right) and all(s for _, s in right)
        result["pair: all right"] = result["pair: two objects"] and bool(right) and all(c and s for c, s in right)
        if scene.relation != "and":
            apart = abs((two[0].x - two[1].x) * dx + (two[0].y - two[1].y) * dy) if right else 0
            result["pair: right axis"] = apart > 0.5
    return result


def moved(first: Found, last: Found, move: str) -> bool:
    """Whether the object went where the caption says. For a spin: it stays in place and keeps its size."""
    dx, dy, growth = last.x - first.x, last.y - first.y, last.area / first.area
    return {
        "moves right": dx > 0.4 and abs(dy) < 0.25, "moves left": dx < -0.4 and abs(dy) < 0.25,
        "moves up": dy < -0.4 and abs(dx) < 0.25, "moves down": dy > 0.4 and abs(dx) < 0.25,
        "grows": growth > 2, "shrinks": growth < 0.5,
        "spins": abs(dx) < 0.2 and abs(dy) < 0.2 and 0.6 < growth < 1.6,
    }[move]


def score_clip(frames: np.ndarray, scene: data.Scene, prefix: str) -> dict[str, bool]:
    """What is right in a clip [F, H, W, 3]: colour in both end frames, shape in the first, motion between."""
    first, last = read(frames[0])[1], read(frames[-1])[1]
    middle = read(frames[len(frames) // 2])[1]
    shape, color = scene.objects[0][:2]
    seen = bool(first) and bool(last)
    result = {
        f"{prefix}: color": seen and first[0].color == color and last[0].color == color,
        f"{prefix}: shape": bool(first) and first[0].shape == shape,
        f"{prefix}: one object throughout": len(first) == len(middle) == len(last) == 1,
        f"{prefix}: motion": seen and moved(first[0], last[0], scene.move),
    }
    if scene.move != "spins":  # templates are upright
        result[f"{prefix}: shape in the last frame"] = bool(last) and last[0].shape == shape
    return result


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    """PSNR in dB of pixels in [-1, 1]."""
    return float(10 * np.log10(4 / max(1e-8, ((a - b) ** 2).mean())))


def kept_area(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Pixels that the edit must not touch, two pixels away from those that it must."""
    same = np.abs(source - target).max(-1) < 0.02
    return _eroded(_eroded(same))


def score_edit(image: np.ndarray, scene: data.Scene, source: np.ndarray, target: np.ndarray) -> dict:
    """Whether the asked change was made, whether the rest was kept, and by how many dB."""
    background, found = read(image)
    wanted = scene.edited
    shape, color, x, y = wanted.objects[scene.edit_target][:4]
    nearest = min(found, key=lambda f: (f.x - x) ** 2 + (f.y - y) ** 2, default=None)
    if scene.edit == "background":
        done = background == wanted.background
    elif nearest is None or (nearest.x - x) ** 2 + (nearest.y - y) ** 2 > 0.06:
        done = False
    else:
        done = nearest.color == color if scene.edit == "recolor" else nearest.shape == shape
    area = kept_area(source, target)
    decibels = psnr(image[area], source[area]) if area.any() else 99.0
    kept = decibels >= 28 and len(found) == len(wanted.objects)
    return {f"edit {scene.edit}: changed": done, f"edit {scene.edit}: changed, rest kept": done and kept,
            "edit: changed": done, "edit: changed, rest kept": done and kept, "edit: rest, dB": decibels}


def summarise(results: list[dict]) -> dict[str, tuple[float, int]]:
    """Mean and number of samples of every key."""
    collected: dict[str, list[float]] = {}
    for result in results:
        for key, value in result.items():
            collected.setdefault(key, []).append(float(value))
    return {k: (sum(v) / len(v), len(v)) for k, v in collected.items()}
