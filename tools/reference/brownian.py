"""Golden noise of torchsde's Brownian tree, as k-diffusion takes it, for models/schedulers/brownian_test.ts.

Run: python3 tools/reference/brownian.py
Writes tests/goldens/noise/brownian.json. Needs torchsde 0.2.6, and SciPy for it.
"""

import json
import pathlib

import torch
import torchsde

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "goldens" / "noise"
RUNS = [
    [14.614647, 4.7965, 1.2741, 0.248, 0.029167, 0.0],
    [14.614647, 8.0, 7.99999, 0.03125, 0.0],
    [1.5, 1.0, 0.5],
]


def noise(seed, size, sigmas):
    sigmas = torch.tensor(sigmas)
    positive = sigmas[sigmas > 0]
    tree = torchsde.BrownianTree(positive.min(), torch.zeros(size), positive.max(), entropy=seed)
    # k-diffusion turns the direction round: its steps go down, the tree's intervals up.
    pairs = [(a, b) for a, b in zip(sigmas, sigmas[1:]) if b > 0]
    return [(-tree(b, a) / (a - b).sqrt()).tolist() for a, b in pairs]


def main():
    cases = [
        {"seed": str(seed), "sigmas": sigmas, "noise": noise(seed, size, sigmas)}
        for seed, size in [(0, 3), (7, 17), (2**32 - 1, 2), (2**40 + 5, 2)]
        for sigmas in RUNS
    ]
    (OUT / "brownian.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
