"""Muon: momentum whose matrix is replaced by the nearest orthogonal one, for the matrices of hidden layers."""

import torch


class Muon:
    """Steps all matrices of one shape at once. The orthogonal factor comes from five Newton-Schulz iterations
    in bf16, with the quintic coefficients of Keller Jordan's published method."""

    COEFFICIENTS = (3.4445, -4.7750, 2.0315)

    def __init__(self, matrices: list[torch.Tensor], lr: float, momentum: float = 0.95, decay: float = 0.02):
        self.lr, self.beta, self.decay = lr, momentum, decay
        self.groups: dict[tuple, list[torch.Tensor]] = {}
        for matrix in matrices:
            self.groups.setdefault(tuple(matrix.shape), []).append(matrix)
        self.momentum = {shape: torch.zeros(len(group), *shape) for shape, group in self.groups.items()}

    @torch.no_grad()
    def step(self, factor: float):
        """One update at `factor` times the learning rate."""
        lr = self.lr * factor
        for shape, group in self.groups.items():
            gradient = torch.stack([p.grad for p in group])
            momentum = self.momentum[shape].lerp_(gradient, 1 - self.beta)
            update = self._orthogonal(gradient.lerp(momentum, self.beta)) * max(1, shape[0] / shape[1]) ** 0.5
            torch._foreach_mul_(group, 1 - lr * self.decay)
            torch._foreach_add_(group, list(update.unbind(0)), alpha=-lr)

    def _orthogonal(self, stack: torch.Tensor) -> torch.Tensor:
        tall = stack.shape[1] > stack.shape[2]
        x = (stack.mT if tall else stack).to(torch.bfloat16)
        x = x / (x.float().flatten(1).norm(dim=1)[:, None, None].to(torch.bfloat16) + 1e-7)
        a, b, c = self.COEFFICIENTS
        for _ in range(5):
            gram = x @ x.mT
            x = a * x + (b * gram + c * gram @ gram) @ x
        return (x.mT if tall else x).float()
