"""Renders scenes of flat shapes and of emoji as antialiased images, at any resolution.

The canvas is [-1, 1] x [-1, 1] with y pointing down. A shape is a distance-like function over its own
unit square, negative inside; the coverage of a pixel is read off that distance, so edges are smooth.
"""

import math
import os
from dataclasses import dataclass
from pathlib import Path

import torch

from emoji import STYLES as PICTURE_STYLES
from emoji import Emoji

SHAPES = ["circle", "square", "triangle", "star", "heart", "diamond", "cross", "ring", "moon", "flower"]

PALETTE = {
    "red": (220, 40, 40),
    "green": (40, 160, 60),
    "blue": (45, 80, 220),
    "yellow": (245, 215, 50),
    "orange": (245, 140, 30),
    "purple": (135, 50, 175),
    "pink": (250, 150, 190),
    "cyan": (50, 200, 215),
    "brown": (130, 80, 45),
    "black": (20, 20, 20),
    "white": (248, 248, 248),
    "gray": (135, 135, 135),
}
COLORS = list(PALETTE)
RGB = torch.tensor([PALETTE[name] for name in COLORS], dtype=torch.float32) / 127.5 - 1


# Where `emoji.pt` lies; without it, scenes hold shapes alone.
EMOJI = Emoji(Path(os.environ["EMOJI"])) if "EMOJI" in os.environ else None


def picture_of(thing: str) -> tuple[int, int] | None:
    """Index and style of an emoji such as `fox` or `3d fox`; None for a shape."""
    solid = thing.startswith("3d ")
    index = EMOJI.index.get(thing.removeprefix("3d ")) if EMOJI and thing not in SHAPES else None
    return None if index is None else (index, PICTURE_STYLES.index("3d" if solid else "flat"))


def rgb_of(thing: str, color: str | None) -> tuple[float, ...]:
    """The 8-bit colour at the rim of an object; `color` is None for an emoji in its own colours."""
    picture = picture_of(thing)
    return PALETTE[color] if picture is None or color else tuple(EMOJI.rim[picture].tolist())


def color_distance(a: str, b: str) -> float:
    """Euclidean distance of two palette colours in 8-bit RGB units."""
    return math.dist(PALETTE[a], PALETTE[b])


def _length(u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.sqrt(u * u + v * v + 1e-9)


def _circle(u, v):
    return _length(u, v) - 0.95


def _square(u, v):
    return torch.maximum(u.abs(), v.abs()) - 0.82


def _triangle(u, v):
    # Apex at (0, -0.95), base at v = 0.75; the slanted sides are one line thanks to the mirror symmetry.
    nx, ny = 1.75, 0.95
    side = (nx * u.abs() - ny * (v + 0.95)) / math.hypot(nx, ny)
    return torch.maximum(v - 0.75, side)


def _star(u, v):
    # Fold the plane into half of one of five sectors; there the outline is the segment tip -> notch.
    sector = 2 * math.pi / 5
    angle = torch.atan2(u, -v)
    folded = (torch.remainder(angle + sector / 2, sector) - sector / 2).abs()
    radius = _length(u, v)
    px, py = radius * torch.cos(folded), radius * torch.sin(folded)
    tip = (1.05, 0.0)
    notch = (0.45 * math.cos(sector / 2), 0.45 * math.sin(sector / 2))
    ex, ey = notch[0] - tip[0], notch[1] - tip[1]
    return (py - tip[1]) * -ex / math.hypot(ex, ey) + (px - tip[0]) * ey / math.hypot(ex, ey)


def _heart(u, v):
    # A square standing on its corner, with a disc on each of its two upper sides.
    w = v - 0.1
    side = 0.8
    body = (u.abs() + w.abs() - side) / math.sqrt(2)
    lobe = _length(u.abs() - side / 2, w + side / 2) - side / math.sqrt(2)
    return torch.minimum(body, lobe)


def _diamond(u, v):
    return (1.25 * u.abs() + v.abs() - 1) / 1.6


def _cross(u, v):
    upright = torch.maximum(u.abs() - 0.3, v.abs() - 0.95)
    lying = torch.maximum(v.abs() - 0.3, u.abs() - 0.95)
    return torch.minimum(upright, lying)


def _ring(u, v):
    return (_length(u, v) - 0.7).abs() - 0.25


def _moon(u, v):
    return torch.maximum(_length(u, v) - 0.95, 0.8 - _length(u - 0.42, v + 0.1))


def _flower(u, v):
    petals = 0.68 + 0.27 * torch.cos(5 * torch.atan2(u, -v))
    return 0.7 * (_length(u, v) - petals)


_OUTLINES = [_circle, _square, _triangle, _star, _heart, _diamond, _cross, _ring, _moon, _flower]
_grids: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}


def _grid(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    if size not in _grids:
        line = (torch.arange(size) + 0.5) / size * 2 - 1
        _grids[size] = torch.meshgrid(line, line, indexing="ij")
    return _grids[size]


@dataclass(frozen=True)
class Style:
    """How scenes look. `line` is the width in canvas units of the strokes that replace filled shapes; `paint` and
    `paper` say how far the colours of objects and of the background are mixed with white, 0..1. A background with a
    white object on it stays as it is, or the object would be lost."""

    line: float | None = None
    paint: float = 0.0
    paper: float = 0.0


PLAIN = Style()
# Far from the palette, the autoencoder can show small areas of a colour, and large ones only if they are nearly white.
STYLES = {"outline": Style(line=0.085), "pastel": Style(paint=0.5, paper=0.85)}


def combined(styles: list[Style]) -> Style:
    """All at once; of what several say, the most."""
    styles = [PLAIN, *styles]
    lines = [s.line for s in styles if s.line is not None]
    return Style(max(lines, default=None), max(s.paint for s in styles), max(s.paper for s in styles))


def mixed(white: float) -> torch.Tensor:
    """The palette [12, 3] in [-1, 1], mixed with its white."""
    return RGB.lerp(RGB[COLORS.index("white")], white)


def coverage(shape: int, placements: torch.Tensor, size: int, line: float | None = None) -> torch.Tensor:
    """Coverage [N, size, size] in 0..1 of one shape index at N placements (x, y, half extent, rotation).

    With `line`, only a stroke of that width along the edge is covered, most of it inside: outside of sharp corners
    the distances are not true ones.
    """
    rows, columns = _grid(size)
    x, y, extent, rotation = (placements[:, i, None, None] for i in range(4))
    dx, dy = (columns - x) / extent, (rows - y) / extent
    cos, sin = torch.cos(rotation), torch.sin(rotation)
    distance = _OUTLINES[shape](cos * dx + sin * dy, cos * dy - sin * dx) * extent
    if line is not None:
        distance = (distance + 0.2 * line).abs() - line / 2
    return (0.5 - distance * (size / 2)).clamp(0, 1)


def render(layers: list[list[tuple]], backgrounds: list[str], size: int, style: Style = PLAIN) -> torch.Tensor:
    """Renders N scenes to [N, 3, size, size] in [-1, 1].

    A layer list holds tuples (shape or emoji, color, x, y, half extent, rotation), painted in order; an emoji without a
    color has its own.
    """
    papers = [RGB if any(o[1] == "white" for o in objects) else mixed(style.paper) for objects in layers]
    images = torch.stack([paper[COLORS.index(b)] for paper, b in zip(papers, backgrounds)])
    images = images[:, :, None, None].repeat(1, 1, size, size)
    for slot in range(max(len(objects) for objects in layers)):
        for index, shape in enumerate(SHAPES):
            rows = [i for i, objects in enumerate(layers) if len(objects) > slot and objects[slot][0] == shape]
            if not rows:
                continue
            placements = torch.tensor([layers[i][slot][2:6] for i in rows], dtype=torch.float32)
            paint = mixed(style.paint)[[COLORS.index(layers[i][slot][1]) for i in rows]][:, :, None, None]
            alpha = coverage(index, placements, size, style.line)[:, None]
            images[rows] = images[rows] * (1 - alpha) + alpha * paint
        drawn = [(i, objects[slot]) for i, objects in enumerate(layers) if len(objects) > slot]
        drawn = [(i, o, picture) for i, o in drawn if (picture := picture_of(o[0]))]
        if drawn:
            placements = torch.tensor([o[2:6] for _, o, _ in drawn], dtype=torch.float32)
            tints = [tuple(RGB[COLORS.index(o[1])].tolist()) if o[1] else None for _, o, _ in drawn]
            EMOJI.paint(images, [i for i, _, _ in drawn], [p for _, _, p in drawn], placements, tints)
    return images
