"""Emoji as objects of scenes: pictures with transparency in two styles, and the words that people have for them.

`python emoji.py FOLDER` makes `emoji.pt` of three npm packages that lie unpacked in FOLDER (see README.md): Fluent Emoji's
flat vectors and 3D pictures, and the names of emojibase.
"""

import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

SIDE = 128
STYLES = ["flat", "3d"]
FLAT, SOLID, NAMES = "fluent-emoji-flat", "fluent-emoji-3d", "emojibase-data"
SUBGROUPS = """face-smiling face-affection face-tongue face-hand face-neutral-skeptical face-sleepy face-unwell face-hat
face-glasses face-concerned face-negative face-costume cat-face monkey-face animal-mammal animal-bird animal-amphibian
animal-reptile animal-marine animal-bug plant-flower plant-other food-fruit food-vegetable food-prepared food-asian food-sweet
drink dishware place-geographic place-building place-other transport-ground transport-water transport-air sky-weather event
award-medal sport game arts-crafts clothing sound music musical-instrument phone computer light-video book-paper money mail
writing office lock tool science medical household""".split()
# Shapes that are drawn by themselves, signs, what looks like another one, and what should not be drawn.
LEFT_OUT = re.compile(
    r"^(star|ring|circle|square)$|oncoming|quarter moon|gibbous|waxing|waning|new moon|input|muted|volume|tickets?$|bell with"
    r"|station|lorry|railway car|light rail|elevator|syringe|drop of blood|dagger|pistol|bomb|swords|axe|kitchen knife|razor"
    r"|briefs|bikini|thong|woman’s|man’s|sari|hair pick|military|rescue|lab coat|joker|mahjong|flower playing|suit$|pawn"
    r"|middle|symbols|vomit|nauseated|sneezing|thermometer$|medical mask|pile of poo|hole|banknote|credit|receipt|chart"
    r"|inbox|outbox|package|mailbox|postbox|ballot|paperclips|dividers|calendar|card|cabinet|wastebasket|unlocked|locked with"
    r"|trackball|disk|diskette|cassette|pager|fax|abacus|plug|projector|film frames|bookmark tabs|page with|page facing"
    r"|rolled|reminder|tanabata|pine decoration|dolls|streamer|viewing|envelope|firecracker|brick|hut|derelict|love hotel"
    r"|department|convenience|post office|bank$|hotel|wedding|building construction|houses|foggy|sunset over|cityscape|night"
    r"|sunrise over|motorway|track$|fuel|stop$|construction|wheelchair|clutch|nail|gear$|clamp|balance|chains|toolbox|ladder"
    r"|alembic|dna|petri|crutch|x-ray|plunger|mouse trap|safety pin|placard|landslide|national park|wireless", re.IGNORECASE)
# Names that people would not say, and those that they would.
SAID = {"automobile": "car", "high voltage": "lightning bolt", "wrapped gift": "gift", "musical keyboard": "piano",
        "spiral shell": "sea shell"}


def slug(label: str) -> str:
    """A name as icon collections write it."""
    return re.sub(r"[^a-z0-9]+", "-", label.lower().replace("’", "")).strip("-")


def words_of(label: str) -> str:
    """A name as a prompt says it: lower case, letters and digits."""
    return re.sub(r"\s+", " ", re.sub(r"[^a-z0-9 ]+", " ", label.lower().replace("’", ""))).strip()


def chosen(folder: Path) -> list[dict]:
    """The emoji that are drawn: label, code, words, the usual ones first."""
    names = folder / NAMES
    subgroups = json.loads((names / "meta" / "groups.json").read_text())["subgroups"]
    entries = json.loads((names / "en" / "data.json").read_text())
    vectors = json.loads((folder / FLAT / "icons.json").read_text())["icons"]
    codes = [json.loads((names / "en" / "shortcodes" / f"{kind}.json").read_text()) for kind in ("emojibase", "github")]
    found = []
    for entry in entries:
        label = entry["label"]
        kind = subgroups.get(str(entry.get("subgroup")))
        pictures = [folder / SOLID / "assets" / f"{entry['hexcode'].lower()}{end}.webp" for end in ("", "-fe0f")]
        plain = entry["hexcode"].lower().replace("-fe0f", "")
        pictures.append(folder / SOLID / "assets" / f"{plain}.webp")
        picture = next((p for p in pictures if p.exists()), None)
        if kind not in SUBGROUPS or LEFT_OUT.search(label) or slug(label) not in vectors or picture is None:
            continue
        own = SAID.get(label, words_of(label))
        others = [code for table in codes for code in [table.get(entry["hexcode"], [])]]
        others = [words_of(c.replace("_", " ")) for code in others for c in ([code] if isinstance(code, str) else code)]
        found.append({"name": own, "words": [own, *dict.fromkeys(o for o in others if o != own)], "kind": kind,
                      "vector": vectors[slug(label)]["body"], "picture": picture})
    taken = {e["name"] for e in found}
    seen = set()
    for e in found:
        e["words"] = [w for i, w in enumerate(e["words"]) if i == 0 or (
            w not in taken and w not in seen and len(w) > 2 and len(w.split()) < 5)]
        seen |= set(e["words"][1:])
    return found


def _pixels(image) -> np.ndarray:
    """RGBA [4, SIDE, SIDE] of a picture, fitted into the square, with colours multiplied by the alpha."""
    from PIL import Image
    image = image.convert("RGBA")
    box = image.getchannel("A").point(lambda v: 255 if v > 8 else 0).getbbox() or (0, 0, *image.size)
    image = image.crop(box)
    scale = SIDE / max(image.size)
    small = image.convert("RGBa").resize([max(1, round(s * scale)) for s in image.size], Image.LANCZOS)
    square = Image.new("RGBa", (SIDE, SIDE))
    square.paste(small, ((SIDE - small.width) // 2, (SIDE - small.height) // 2))
    return np.asarray(square).transpose(2, 0, 1)


def make(folder: Path, out: Path):
    """Draws all emoji in both styles, and keeps them with their words."""
    import resvg_py
    from PIL import Image
    entries, pictures = chosen(folder), []
    for e in entries:
        svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" width="256" height="256">{e["vector"]}</svg>'
        flat = Image.open(io.BytesIO(bytes(resvg_py.svg_to_bytes(svg_string=svg))))
        pictures.append(np.stack([_pixels(flat), _pixels(Image.open(e["picture"]))]))
    torch.save({"names": [e["name"] for e in entries], "words": {e["name"]: e["words"] for e in entries},
                "kinds": {e["name"]: e["kind"] for e in entries},
                "pictures": torch.from_numpy(np.stack(pictures))}, out)
    print(f"{len(entries)} emoji in {out}")


class Emoji:
    """The drawn emoji: `names`, `words` by name, and pictures as textures."""

    def __init__(self, path: Path):
        table = torch.load(path, weights_only=False)
        self.names, self.words, self.kinds = table["names"], table["words"], table["kinds"]
        self.index = {n: i for i, n in enumerate(self.names)}
        self.pictures = table["pictures"]
        rgba = self.pictures.float() / 255
        alpha = rgba[:, :, 3:]
        inner = -F.max_pool2d(-alpha.flatten(0, 1), 9, 1, 4).view_as(alpha)
        rim = (alpha - inner).clamp(0, 1)
        mean = (rgba[:, :, :3] * rim).sum((3, 4)) / (alpha * rim).sum((3, 4)).clamp(min=1)
        # Colour of the rim, which must differ from the background: [names, styles, RGB in 0..255].
        self.rim = (255 * mean).clamp(0, 255)
        self._levels = {SIDE: self.pictures}

    def level(self, side: int) -> torch.Tensor:
        """All pictures at a power of two at or above `side` pixels, as bytes."""
        size = SIDE
        while size // 2 >= max(16, side):
            size //= 2
        if size not in self._levels:
            n, s = self.pictures.shape[:2]
            parts = [F.avg_pool2d(p.flatten(0, 1).float(), SIDE // size) for p in self.pictures.split(64)]
            self._levels[size] = torch.cat(parts).round().byte().view(n, s, 4, size, size)
        return self._levels[size]

    def paint(self, images: torch.Tensor, rows: list[int], which: list[tuple[int, int]], placements: torch.Tensor,
              tints: list[tuple | None]):
        """Draws pictures (index, style) over `images` [N, 3, size, size] in [-1, 1] at placements [M, 4], in place.

        A tint is an RGB colour in [-1, 1] that takes the place of the picture's own colours and leaves light and shade.
        """
        size = images.shape[-1]
        groups: dict[int, list[int]] = {}
        for m, extent in enumerate(placements[:, 2].tolist()):
            side = int(extent * size)
            level = SIDE
            while level // 2 >= max(16, side):
                level //= 2
            groups.setdefault(level, []).append(m)
        line = (torch.arange(size) + 0.5) / size * 2 - 1
        y, x = torch.meshgrid(line, line, indexing="ij")
        for level, members in groups.items():
            table = self.level(level)
            rgba = torch.stack([table[which[m]] for m in members]).float() / 255
            px, py, extent, turn = (placements[members][:, i, None, None] for i in range(4))
            dx, dy = (x - px) / extent, (y - py) / extent
            grid = torch.stack([torch.cos(turn) * dx + torch.sin(turn) * dy, torch.cos(turn) * dy - torch.sin(turn) * dx], -1)
            drawn = F.grid_sample(rgba, grid, align_corners=False)
            color, alpha = drawn[:, :3], drawn[:, 3:]
            for i, m in enumerate(members):
                if tints[m] is not None:
                    color[i] = tinted(color[i], alpha[i], tints[m])
            target = [rows[m] for m in members]
            images[target] = images[target] * (1 - alpha) + (2 * color - alpha)


def tinted(color: torch.Tensor, alpha: torch.Tensor, tint: tuple) -> torch.Tensor:
    """Colours [3, H, W] (multiplied by their alpha [1, H, W]) in another hue; what is dark or nearly white stays so."""
    own = color / alpha.clamp(min=1e-3)
    high, low = own.amax(0, keepdim=True), own.amin(0, keepdim=True)
    light = (high + low) / 2
    chroma = (high - low).clamp(0, 1)
    paint = torch.tensor(tint).view(3, 1, 1) / 2 + 0.5
    # Around its mean lightness the picture has the tint; darker and lighter parts go to black and white.
    middle = (light * alpha * (chroma + 0.05)).sum() / (alpha * (chroma + 0.05)).sum().clamp(min=1)
    darker = paint * (light / middle).clamp(0, 1)
    lighter = paint + (1 - paint) * ((light - middle) / (1 - middle).clamp(min=0.05)).clamp(0, 1)
    new = torch.where(light < middle, darker, lighter)
    share = (chroma * 4).clamp(0, 1)
    return (new * share + own * (1 - share)) * alpha


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]))
