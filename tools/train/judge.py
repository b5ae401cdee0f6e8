"""A small classifier of emoji, trained on the true pictures: it says whether a generated one is what was asked for.

    python train.py judge --minutes 15

It has never seen what the model draws.
"""

from pathlib import Path

import torch
import torch.nn.functional as F

import loop
from render import COLORS, EMOJI, PALETTE, rgb_of, render
from data import Sampler

SIDE = 64


class Judge(torch.nn.Module):
    """Scores [N, names] of images [N, 3, H, W] in [-1, 1]."""

    def __init__(self):
        super().__init__()
        widths, layers = [3, 32, 64, 128, 256], []
        for below, above in zip(widths, widths[1:]):
            layers += [torch.nn.Conv2d(below, above, 3, 2, 1), torch.nn.BatchNorm2d(above), torch.nn.ReLU(),
                       torch.nn.Conv2d(above, above, 3, 1, 1, groups=1 if above < 128 else 4),
                       torch.nn.BatchNorm2d(above), torch.nn.ReLU()]
        self.body = torch.nn.Sequential(*layers)
        self.head = torch.nn.Linear(256, len(EMOJI.names))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = F.interpolate(images, (SIDE, SIDE), mode="bilinear", antialias=True)
        return self.head(self.body(x).amax((2, 3)))


def draw(sampler: Sampler, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Single emoji on any background, a little blurred and noisy as an autoencoder leaves them."""
    r, layers, papers, names = sampler.random, [], [], []
    while len(layers) < count:
        index = r.randrange(len(EMOJI.names))
        thing = ("3d " if r.random() < 0.5 else "") + EMOJI.names[index]
        paper = r.choice(["white", "gray", "black", *COLORS])
        rim = rgb_of(thing, None)
        if sum((a - b) ** 2 for a, b in zip(PALETTE[paper], rim)) < 45**2:
            continue
        layers.append([(thing, None, r.uniform(-0.1, 0.1), r.uniform(-0.1, 0.1), r.uniform(0.45, 0.8), r.uniform(-0.1, 0.1))])
        papers.append(paper)
        names.append(index)
    images = render(layers, papers, 96)
    side = r.choice([96, 72, 56, 48])
    images = F.interpolate(F.interpolate(images, (side, side), mode="bilinear", antialias=True), (96, 96), mode="bilinear")
    return images + 0.04 * torch.randn_like(images), torch.tensor(names)


def train(args, work: Path):
    """Trains the judge and writes it to `judge.pt`; a repeated command goes on."""
    log, path = loop.Log(work / "judge.log"), work / "judge.pt"
    model, sampler = Judge(), Sampler(500 + args.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)
    step, spent = 0, 0.0
    if state := loop.load_checkpoint(path):
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step, spent = state["step"], state["spent"]
        sampler = Sampler(500 + args.seed + step)
    budget = loop.Budget(args.minutes, args.pause_file, spent)
    saving, reporting, right = loop.Every(60, spent), loop.Every(45, spent), []

    def save():
        loop.save_checkpoint(path, {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step,
                                    "spent": budget.spent})

    while budget.tick():
        images, names = draw(sampler, 64)
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * loop.warmup_cosine(step, budget.fraction)
        with loop.autocast("cpu"):
            scores = model(images)
        loss = F.cross_entropy(scores.float(), names)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        step += 1
        right.append((scores.argmax(1) == names).float().mean().item())
        if reporting(budget.spent):
            log(stage="judge", minute=budget.spent / 60, step=step, loss=loss.item(), right=sum(right) / len(right))
            right = []
        if saving(budget.spent):
            save()
    save()
    budget.end_if_stopped()


def load(work: Path) -> Judge:
    """The finished judge."""
    model = Judge()
    model.load_state_dict(torch.load(work / "judge.pt", weights_only=False)["model"])
    return model.eval()
