"""Makes the goldens of the bundled model, under tests/goldens/bundled.

    python3 tools/reference/bundled.py

An image, a video from a text, and a video between a first and a last frame.
"""

import sys

from common import ROOT, without_inside, write_golden
from pipeline import run_pipeline

sys.path.append(str(ROOT / "tools" / "train"))
from data import Sampler, draw_clips  # noqa: E402

MODEL = ROOT / "models" / "bundled"
SIZE = 48
FRAMES = 5


def moving_scene():
    """The first clip of the held-out split that moves right."""
    sampler = Sampler(12345, held_out=True, plain=True)
    while True:
        scene = sampler.clip()
        if scene.move == "moves right":
            return scene


def main():
    scene = moving_scene()
    clip = ((draw_clips([scene], SIZE, frames=FRAMES)[0].permute(1, 2, 3, 0) + 1) * 127.5).round().byte().numpy()
    calls = [
        run_pipeline(MODEL, "picture", "a green star to the left of a purple circle", width=96, height=96, seed=7, steps=20),
        run_pipeline(MODEL, "clip", "a blue heart moves right", num_frames=FRAMES, seed=8),
        run_pipeline(MODEL, "ends", scene.caption, width=SIZE, height=SIZE, num_frames=FRAMES, seed=9, image=clip[0],
                     last_image=clip[-1]),
    ]  # fmt: skip
    write_golden(ROOT / "tests" / "goldens" / "bundled", "The bundled model", 7, without_inside(calls))


if __name__ == "__main__":
    main()
