"""Writes the golden of guidance that is no plain sum: diffusers' guiders on drawn outputs.

    python3 guidance.py
"""

import json

import torch
from diffusers.guiders import ClassifierFreeZeroStarGuidance

import common
from common import exact, generator, normal

FILE = common.GOLDENS.parent / "guidance" / "zero_star.json"
STEPS = 4


def main():
    rng = generator(2100)
    shape = (1, 5, 12)
    positive = normal(rng, *shape, mean=0.2)
    negative = 0.7 * positive + 0.3 * normal(rng, *shape)
    guider = ClassifierFreeZeroStarGuidance(guidance_scale=5.0)
    steps = []
    with exact():
        for i in range(STEPS):
            guider.set_state(step=i, num_inference_steps=STEPS, timestep=torch.tensor(1000 - 250 * i))
            steps.append(guider.forward(positive, negative).pred.flatten().tolist())
    document = {
        "generator": f"diffusers {common.versions()['diffusers']}",
        "shape": shape,
        "scale": 5.0,
        "positive": positive.flatten().tolist(),
        "negative": negative.flatten().tolist(),
        "steps": [steps[0], steps[1]],
    }
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
