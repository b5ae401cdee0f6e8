"""Procedural training data: scenes of coloured shapes, their captions, clips and edits.

Everything is drawn from one seeded `random.Random`, so a seed gives the same data everywhere. Prompts are
split by a hash of the *normalised* caption (synonyms, prefixes and suffixes removed): a held-out scene is
never seen in training under any paraphrase.
"""

import hashlib
import math
import random
from dataclasses import dataclass, field

import torch

from render import COLORS, EMOJI, PALETTE, PLAIN, SHAPES, Style, picture_of, render, rgb_of

CLIP_FRAMES = 9
EDIT_FRAMES = 5
HELD_OUT_SHARE = 20  # one scene in 20 is kept for evaluation
MIN_CONTRAST = 130  # 8-bit RGB distance between an object and a background that a caption names

POSITIONS = {
    "top left": (-0.5, -0.5),
    "top": (0.0, -0.5),
    "top right": (0.5, -0.5),
    "left": (-0.5, 0.0),
    "center": (0.0, 0.0),
    "right": (0.5, 0.0),
    "bottom left": (-0.5, 0.5),
    "bottom": (0.0, 0.5),
    "bottom right": (0.5, 0.5),
}
RELATIONS = {"left of": (-1, 0), "right of": (1, 0), "above": (0, -1), "below": (0, 1), "and": (-1, 0)}
MOVES = ["moves right", "moves left", "moves up", "moves down", "grows", "shrinks", "spins"]
EDITS = ["recolor", "background", "reshape", "restyle"]
THINGS = [*SHAPES, *(EMOJI.names if EMOJI else [])]
EMOJI_SHARE = 0.75 if EMOJI else 0.0  # of objects; the others are shapes
TINT_SHARE = 0.12  # of emoji in a colour that the caption names

SHAPE_WORDS = {
    "circle": ["circle"] * 4 + ["disc", "ball"],
    "square": ["square"] * 4 + ["box"],
    "diamond": ["diamond"] * 3 + ["rhombus"],
    "cross": ["cross"] * 3 + ["plus sign"],
    "ring": ["ring"] * 3 + ["donut"],
    "moon": ["moon"] * 2 + ["crescent", "crescent moon"],
}
COLOR_WORDS = {"gray": ["gray", "grey"], "purple": ["purple"] * 3 + ["violet"]}
POSITION_WORDS = {
    "top left": ["at the top left", "in the top left corner", "in the upper left"],
    "top": ["at the top"],
    "top right": ["at the top right", "in the top right corner", "in the upper right"],
    "left": ["on the left", "at the left"],
    "center": ["in the center", "in the middle", "centered"],
    "right": ["on the right", "at the right"],
    "bottom left": ["at the bottom left", "in the bottom left corner", "in the lower left"],
    "bottom": ["at the bottom"],
    "bottom right": ["at the bottom right", "in the bottom right corner", "in the lower right"],
}
RELATION_WORDS = {
    "left of": ["left of", "to the left of", "on the left of"],
    "right of": ["right of", "to the right of", "on the right of"],
    "above": ["above", "over", "on top of"],
    "below": ["below", "under", "beneath"],
    "and": ["and", "and", "and", "next to", "beside"],
}
MOVE_WORDS = {
    "moves right": ["moves right", "moves to the right", "moving right", "slides right", "goes right"],
    "moves left": ["moves left", "moves to the left", "moving left", "slides left", "goes left"],
    "moves up": ["moves up", "moving up", "rises", "goes up"],
    "moves down": ["moves down", "moving down", "falls", "goes down"],
    "grows": ["grows", "growing", "gets bigger"],
    "shrinks": ["shrinks", "shrinking", "gets smaller"],
    "spins": ["spins", "spinning", "rotates", "rotating"],
}
SIZE_WORDS = {"small": ["small", "tiny", "little"], "large": ["large", "big", "huge"]}
COUNT_WORDS = {2: ["two", "two", "two", "2"], 3: ["three", "three", "three", "3"], 4: ["four", "four", "four", "4"]}
COUNT_PLACES = {
    2: [(-0.48, 0.0), (0.48, 0.0)],
    3: [(0.0, -0.46), (-0.48, 0.42), (0.48, 0.42)],
    4: [(-0.48, -0.48), (0.48, -0.48), (-0.48, 0.48), (0.48, 0.48)],
}
BACKGROUND_WORDS = [" on {a} background", " on {a} background", " with {a} background", " against {a} background",
                    ", {c} background"]
EDIT_WORDS = {
    "recolor": ["make the {o} {c}", "make the {o} {c}", "turn the {o} {c}", "change the color of the {o} to {c}",
                "change the {o} to {c}", "paint the {o} {c}", "recolor the {o} {c}", "the {o} should be {c}"],
    "background": ["change the background to {c}", "make the background {c}", "turn the background {c}",
                   "set the background to {c}", "change the background color to {c}", "put it on {ac} background"],
    "reshape": ["turn the {o} into {as}", "replace the {o} with {as}", "change the {o} into {as}",
                "change the {o} to {as}"],
    "restyle": ["make it {s}", "make the {o} {s}", "in {s} style", "change the style to {s}"],
}
STYLE_WORDS = {"3d": ["3d"] * 3 + ["3d style"], "flat": ["flat"]}
STYLE_TAILS = [", 3d style", ", 3d style", ", 3d", " in 3d", " in 3d style", ", 3d render"]
PREFIXES = ["a picture of ", "a photo of ", "an image of ", "a drawing of ", "an illustration of ", "draw ",
            "please draw ", "generate ", "a painting of ", "show me ", "create an image of ", "photo of "]
CLIP_PREFIXES = ["a video of ", "an animation of ", "a clip of ", "animate "]
SUFFIXES = [", high quality", ", 4k", ", detailed", ", best quality", ", flat design", ", simple", ".", "!",
            ", masterpiece", ", minimalist", ", vector art", ", beautiful"]
ADJECTIVES = ["cute", "beautiful", "nice", "shiny", "simple", "flat", "bright", "pretty"]
FILLERS = ["blurry", "low quality", "bad", "ugly", "noise", "text", "watermark", "artifacts", "worst quality",
           "distorted", "cat", "dog", "person", "tree", "a", "the", "of", "dark", "bright", "jpeg artifacts",
           "deformed", "overexposed", "static", "mountain", "sky", "city", "thing", "something", "shape", "object"]


@dataclass
class Scene:
    """One sample. `objects` are (shape, color, x, y, half extent, rotation); `end` is a clip's last placement."""

    kind: str
    objects: list[tuple]
    background: str
    background_named: bool = False
    caption: str = ""
    position: str | None = None
    relation: str | None = None
    size: str | None = None
    count: int | None = None
    move: str | None = None
    end: tuple | None = None
    edit: str | None = None
    edited: "Scene | None" = field(default=None, repr=False)
    edit_target: int | None = None

    def key(self) -> str:
        """The normalised caption: what the scene says, in one fixed wording."""
        parts = [self.kind, *(f"{o[1]} {o[0]}" for o in self.objects[: 2 if self.kind == "pair" else 1]),
                 f"on {self.background}" if self.background_named or self.kind == "edit" else "",
                 *(str(v) for v in (self.position, self.relation, self.size, self.count, self.move, self.edit) if v)]
        if self.edited is not None:
            parts += [f"{o[1]} {o[0]}" for o in self.objects[1:]]
            parts += ["to", *(f"{o[1]} {o[0]}" for o in self.edited.objects), self.edited.background]
        return "|".join(parts)


def is_held_out(scene: Scene) -> bool:
    """Whether the scene belongs to the evaluation split. An emoji alone is no composition: no name is held out."""
    first = scene.objects[0]
    if scene.kind == "single" and picture_of(first[0]) and not (first[1] or scene.background_named or scene.size):
        return False
    return hashlib.sha1(scene.key().encode()).digest()[0] % HELD_OUT_SHARE == 0


def article(words: str) -> str:
    """The words with their indefinite article."""
    return ("an " if words[0] in "aeiou" else "a ") + words


def plural(word: str) -> str:
    """The plural of a name, by its last letters."""
    if word.endswith(("s", "x", "ch", "sh")):
        return word if word.endswith("s") and " " in word else word + "es"
    if word.endswith("y") and word[-2:-1] not in tuple("aeiou"):
        return word[:-1] + "ies"
    return word + "s"


def default_background(things: list[str], colors: list[str | None]) -> str:
    """The background of a scene whose caption names none: white, or the first other one that shows the objects."""
    for background in ("white", "gray", "black"):
        if all(math.dist(PALETTE[background], rgb_of(t, c)) > (45 if c is None else 100) for t, c in zip(things, colors)):
            return background
    return "cyan"


class Sampler:
    """Draws scenes of one split. `plain` leaves out made-up words, decorations and captions without a colour."""

    def __init__(self, seed: int, held_out: bool = False, plain: bool = False):
        self.random = random.Random(seed)
        self.held_out = held_out
        self.plain = plain

    def image(self, kind: str | None = None) -> Scene:
        """A still scene: "single", "position", "pair" or "count"."""
        return self._split(lambda: self._still(kind or self._kind()))

    def clip(self) -> Scene:
        """A scene with one object that moves, grows, shrinks or spins."""
        return self._split(self._motion)

    def edit(self, kind: str | None = None) -> Scene:
        """A scene and, in `edited`, the scene that the instruction asks for."""
        return self._split(lambda: self._instruction(kind))

    def filler(self) -> str:
        """A caption that says nothing of shapes: negative prompts look like this."""
        r = self.random
        return (", " if r.random() < 0.7 else " ").join(r.choice(FILLERS) for _ in range(r.randint(1, 7)))

    def _split(self, draw) -> Scene:
        while True:
            scene = draw()
            if is_held_out(scene) == self.held_out:
                return scene

    def _kind(self) -> str:
        shares = [0.40, 0.15, 0.30, 0.15] if EMOJI else [0.20, 0.15, 0.50, 0.15]
        return self.random.choices(["single", "position", "pair", "count"], shares)[0]

    def _jitter(self, amount: float) -> float:
        return self.random.uniform(-amount, amount)

    def _shape_word(self, shape: str) -> str:
        if picture_of(shape):
            words = EMOJI.words[shape.removeprefix("3d ")]
            return words[0] if self.plain or self.random.random() < 0.7 else self.random.choice(words)
        return self.random.choice(SHAPE_WORDS.get(shape, [shape]))

    def _things(self, count: int) -> list[str]:
        """Shapes or emoji, the latter in one of two styles."""
        r = self.random
        if r.random() >= EMOJI_SHARE:
            return [r.choice(SHAPES) for _ in range(count)]
        solid = "3d " if r.random() < 0.4 else ""
        return [solid + r.choice(EMOJI.names) for _ in range(count)]

    def _color_word(self, color: str) -> str:
        return self.random.choice(COLOR_WORDS.get(color, [color]))

    def _noun(self, shape: str, color: str, size: str | None = None) -> str:
        r = self.random
        words = [r.choice(SIZE_WORDS[size])] if size else []
        if not self.plain and r.random() < 0.06:
            words.insert(0, r.choice(ADJECTIVES))
        if color is not None and (self.plain or r.random() > 0.03 or picture_of(shape)):
            words.append(self._color_word(color))
        words.append(self._shape_word(shape))
        is_many = picture_of(shape) and words[-1].endswith("s") and not words[-1].endswith(("ss", "us"))
        return " ".join(words) if is_many else article(" ".join(words))

    def _colors(self, things: list[str]) -> tuple[list[str | None], str, bool]:
        """Object colours, background and whether the caption names it; objects always show."""
        r = self.random
        while True:
            colors = [r.choice(COLORS) if not picture_of(t) or r.random() < TINT_SHARE else None for t in things]
            if len(things) == 2 and colors[0] and colors[0] == colors[1] and r.random() < 0.8:
                continue
            named = r.random() < 0.45
            background = r.choice(COLORS) if named else default_background(things, colors)
            contrast = MIN_CONTRAST if named else 100
            if all(math.dist(PALETTE[background], rgb_of(t, c)) > (contrast if c else 45)
                   for t, c in zip(things, colors)):
                return colors, background, named

    def _style_words(self, things: list[str]) -> str:
        """What the caption says of the style; flat is the usual one."""
        return self.random.choice(STYLE_TAILS) if things[0].startswith("3d ") else ""

    def _background_words(self, scene: Scene) -> str:
        if not scene.background_named:
            return ""
        color = self._color_word(scene.background)
        return self.random.choice(BACKGROUND_WORDS).format(a=article(color), c=color)

    def _place(self, kind: str, shapes: list[str], colors: list[str], background: str, named: bool) -> Scene:
        r, jitter = self.random, self._jitter
        scene = Scene(kind, [], background, named)
        if kind == "single":
            scene.size = r.choices(["small", "large", None], [0.25, 0.25, 0.5])[0]
            low, high = {"small": (0.28, 0.34), "large": (0.72, 0.82), None: (0.46, 0.58)}[scene.size]
            if picture_of(shapes[0]):
                low, high = {"small": (0.34, 0.4), "large": (0.82, 0.9), None: (0.58, 0.7)}[scene.size]
            places, turn = [(jitter(0.06), jitter(0.06))], 0.08
        elif kind == "position":
            scene.position = r.choice(list(POSITIONS))
            scene.size = "small" if r.random() < 0.2 else None
            low, high = (0.27, 0.31) if scene.size else (0.34, 0.42)
            x, y = POSITIONS[scene.position]
            places, turn = [(x + jitter(0.05), y + jitter(0.05))], 0.08
        elif kind == "pair":
            scene.relation = r.choice(list(RELATIONS))
            dx, dy = RELATIONS[scene.relation]
            apart, (low, high), turn = r.uniform(0.45, 0.5), (0.34, 0.41), 0.08
            places = [(s * dx * apart + jitter(0.04), s * dy * apart + jitter(0.04)) for s in (1, -1)]
        else:
            scene.count = len(shapes)
            low, high = (0.33, 0.39)
            low = high = r.uniform(low, high)
            places = [(x + jitter(0.02), y + jitter(0.02)) for x, y in COUNT_PLACES[scene.count]]
            turn = 0.05
        scene.objects = [(s, c, x, y, r.uniform(low, high), jitter(turn))
                         for s, c, (x, y) in zip(shapes, colors, places)]
        return scene

    def _still(self, kind: str) -> Scene:
        r = self.random
        if kind == "pair":
            things = self._things(2)
            colors, background, named = self._colors(things)
            scene = self._place(kind, things, colors, background, named)
            first, second = (self._noun(o[0], o[1]) for o in scene.objects)
            caption = f"{first} {r.choice(RELATION_WORDS[scene.relation])} {second}" + self._background_words(scene)
        elif kind == "count":
            count, (shape,) = r.choice([2, 3, 4]), self._things(1)
            colors, background, named = self._colors([shape])
            scene = self._place(kind, [shape] * count, colors * count, background, named)
            words = [r.choice(COUNT_WORDS[count]), *([self._color_word(colors[0])] if colors[0] else []),
                     plural(self._shape_word(shape))]
            caption = " ".join(words) + self._background_words(scene)
        else:
            things = self._things(1)
            colors, background, named = self._colors(things)
            scene = self._place(kind, things, colors, background, named)
            shape, color = scene.objects[0][:2]
            caption = self._noun(shape, color, scene.size)
            tail = self._background_words(scene)
            if scene.position:
                place = " " + r.choice(POSITION_WORDS[scene.position])
                tail = place + tail if r.random() < 0.6 else tail + place
            caption += tail
        scene.caption = self._decorate(caption + self._style_words([o[0] for o in scene.objects]), PREFIXES)
        return scene

    def _motion(self) -> Scene:
        r, jitter = self.random, self._jitter
        move = r.choice(MOVES)
        (shape,) = self._things(1)
        while move == "spins" and shape in ("circle", "ring"):
            (shape,) = self._things(1)
        (color,), background, named = self._colors([shape])
        size = r.uniform(0.34, 0.44)
        x0 = x1 = jitter(0.06)
        y0 = y1 = jitter(0.06)
        size0 = size1 = size
        turn0 = turn1 = jitter(0.08)
        reach = r.uniform(0.42, 0.52)
        if move in ("moves right", "moves left"):
            x0, x1 = (-reach, reach) if move == "moves right" else (reach, -reach)
        elif move in ("moves down", "moves up"):
            y0, y1 = (-reach, reach) if move == "moves down" else (reach, -reach)
        elif move == "spins":
            size0 = size1 = r.uniform(0.46, 0.58)
            turn1 = turn0 + torch.pi / 2
        else:
            small, big = r.uniform(0.27, 0.32), r.uniform(0.64, 0.76)
            size0, size1 = (small, big) if move == "grows" else (big, small)
        scene = Scene("motion", [(shape, color, x0, y0, size0, turn0)], background, named, move=move)
        scene.end = (x1, y1, size1, turn1)
        caption = f"{self._noun(shape, color)} {r.choice(MOVE_WORDS[move])}{self._background_words(scene)}"
        caption += self._style_words([shape])
        scene.caption = self._decorate(caption, CLIP_PREFIXES)
        return scene

    def _instruction(self, kind: str | None) -> Scene:
        r = self.random
        kind = kind or r.choices(EDITS, [0.3, 0.3, 0.3, 0.1] if EMOJI else [0.4, 0.4, 0.2, 0])[0]
        layout = r.choices(["single", "position", "pair"], [0.5, 0.2, 0.3])[0]
        count = 2 if layout == "pair" else 1
        shapes = self._things(count)
        while len(set(shapes)) < count or kind == "restyle" and shapes[0] in SHAPES:
            shapes = self._things(count)
        colors, background, _ = self._colors(shapes)
        source = self._place(layout, shapes, colors, background, False)
        target = r.randrange(len(colors))
        shape, color, *placement = source.objects[target]
        name = self._shape_word(shape)
        if color is not None and r.random() > 0.6:
            name = f"{self._color_word(color)} {name}"
        fields = {"o": name}
        objects, after = list(source.objects), background
        if kind == "recolor":
            new = self._other(rgb_of(shape, color), [PALETTE[background]])
            objects[target] = (shape, new, *placement)
            fields["c"] = self._color_word(new)
        elif kind == "background":
            after = self._other(PALETTE[background], [rgb_of(s, c) for s, c in zip(shapes, colors)])
            fields["c"] = self._color_word(after)
            fields["ac"] = article(fields["c"])
        elif kind == "restyle":
            turn = (lambda s: s.removeprefix("3d ")) if shape.startswith("3d ") else (lambda s: f"3d {s}")
            objects = [(turn(s), *rest) for s, *rest in objects]
            fields["s"] = r.choice(STYLE_WORDS["flat" if shape.startswith("3d ") else "3d"])
        else:
            new = self._like(shape)
            while new in shapes:
                new = self._like(shape)
            objects[target] = (new, color, *placement)
            fields["as"] = article(self._shape_word(new))
        caption = r.choice(EDIT_WORDS[kind]).format(**fields)
        if not self.plain and r.random() < 0.1:
            caption += r.choice([".", "!", ", please"])
        return Scene("edit", source.objects, background, caption=caption, relation=source.relation, edit=kind,
                     edited=Scene("edited", objects, after), edit_target=target)

    def _like(self, thing: str) -> str:
        """Another shape for a shape; for an emoji one of its style, half the time of its kind."""
        r = self.random
        if not picture_of(thing):
            return r.choice(SHAPES)
        name = thing.removeprefix("3d ")
        same = [n for n in EMOJI.names if EMOJI.kinds[n] == EMOJI.kinds[name]]
        return ("3d " if thing.startswith("3d ") else "") + r.choice(same if r.random() < 0.5 else EMOJI.names)

    def _other(self, old: tuple, against: list[tuple]) -> str:
        """A palette colour that differs from `old` and shows against all of `against`."""
        choices = [c for c in COLORS if math.dist(PALETTE[c], old) > 100]
        apart = [c for c in choices if all(math.dist(PALETTE[c], a) > 115 for a in against)]
        return self.random.choice(apart or choices)

    def _decorate(self, caption: str, prefixes: list[str]) -> str:
        r = self.random
        if self.plain:
            return caption
        if r.random() < 0.12:
            caption = r.choice(prefixes) + caption
        if r.random() < 0.12:
            caption += r.choice(SUFFIXES)
        if r.random() < 0.05:
            words = caption.split(" ")
            words.insert(r.randint(0, len(words)), self._made_up())
            caption = " ".join(words)
        return caption

    def _made_up(self) -> str:
        r = self.random
        return "".join(r.choice("bcdfghjklmnprstvw") + r.choice("aeiou") + r.choice(["", "", "l", "n", "r", "s"])
                       for _ in range(r.randint(1, 3)))


def draw_images(scenes: list[Scene], size: int, style: Style = PLAIN) -> torch.Tensor:
    """Renders still scenes to [N, 3, 1, size, size] in [-1, 1]."""
    return render([s.objects for s in scenes], [s.background for s in scenes], size, style)[:, :, None]


def draw_clips(scenes: list[Scene], size: int, style: Style = PLAIN, frames: int = CLIP_FRAMES) -> torch.Tensor:
    """Renders moving scenes to [N, 3, frames, size, size]; placements change linearly from start to end."""
    layers = []
    for scene in scenes:
        shape, color, *start = scene.objects[0]
        for f in range(frames):
            t = f / (frames - 1)
            layers.append([(shape, color, *(a + (b - a) * t for a, b in zip(start, scene.end)))])
    backgrounds = [s.background for s in scenes for _ in range(frames)]
    images = render(layers, backgrounds, size, style).view(len(scenes), frames, 3, size, size)
    return images.transpose(1, 2).contiguous()


def draw_edits(scenes: list[Scene], size: int, style: Style = PLAIN) -> torch.Tensor:
    """Renders edits to [N, 3, 5, size, size]: the source once, then the target four times."""
    before = draw_images(scenes, size, style)
    after = draw_images([s.edited for s in scenes], size, style)
    return torch.cat([before, after.expand(-1, -1, EDIT_FRAMES - 1, -1, -1)], 2)
