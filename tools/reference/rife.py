"""Makes the goldens of RIFE under tests/goldens/rife.

    python3 tools/reference/rife.py                 # make all
    python3 tools/reference/rife.py NAME ...        # make some
    python3 tools/reference/rife.py --check [NAME]  # read the stored ones back and run them again

No class of diffusers makes frames between others. The module below follows the description of RIFE's network from 4.15
on (https://github.com/hzwer/Practical-RIFE), and has the names of its files.
"""

import torch
import torch.nn.functional as F

import common
from common import Call, generator, make_goldens
from seeded import seed_weights

FOLDER = common.GOLDENS.parent / "rife"


def moved(images, flow):
    """Every position takes what lies `flow` pixels away; the edge goes on."""
    _, _, height, width = images.shape
    rows, columns = torch.meshgrid(torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij")
    right = columns + flow[:, 0] / ((width - 1) / 2)
    down = rows + flow[:, 1] / ((height - 1) / 2)
    grid = torch.stack([right, down], -1)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=True)


def resized(x, factor):
    return F.interpolate(x, scale_factor=factor, mode="bilinear", align_corners=False)


def leaky(inputs, outputs, stride):
    return torch.nn.Sequential(torch.nn.Conv2d(inputs, outputs, 3, stride, 1), torch.nn.LeakyReLU(0.2))


class Residual(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = torch.nn.Conv2d(channels, channels, 3, padding=1)
        self.beta = torch.nn.Parameter(torch.ones(1, channels, 1, 1))

    def forward(self, x):
        return F.leaky_relu(self.conv(x) * self.beta + x, 0.2)


class Block(torch.nn.Module):
    def __init__(self, inputs, channels, features):
        super().__init__()
        self.conv0 = torch.nn.Sequential(leaky(inputs, channels // 2, 2), leaky(channels // 2, channels, 2))
        self.convblock = torch.nn.Sequential(*(Residual(channels) for _ in range(8)))
        outputs = 4 * (5 + max(1, features))
        self.lastconv = torch.nn.Sequential(torch.nn.ConvTranspose2d(channels, outputs, 4, 2, 1), torch.nn.PixelShuffle(2))

    def forward(self, x, flow, scale):
        x = resized(x, 1 / scale)
        if flow is not None:
            x = torch.cat([x, resized(flow, 1 / scale) / scale], 1)
        y = resized(self.lastconv(self.convblock(self.conv0(x))), scale)
        return y[:, :4] * scale, y[:, 4:5], y[:, 5:]


class Head(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.cnn0 = torch.nn.Conv2d(3, 4 * channels, 3, 2, 1)
        self.cnn1 = torch.nn.Conv2d(4 * channels, 4 * channels, 3, 1, 1)
        self.cnn2 = torch.nn.Conv2d(4 * channels, 4 * channels, 3, 1, 1)
        self.cnn3 = torch.nn.ConvTranspose2d(4 * channels, channels, 4, 2, 1)

    def forward(self, x):
        for layer in (self.cnn0, self.cnn1, self.cnn2):
            x = F.leaky_relu(layer(x), 0.2)
        return self.cnn3(x)


class Interpolator(torch.nn.Module):
    def __init__(self, channels, head, features):
        super().__init__()
        self.features = features
        self.count = len(channels)
        for i, width in enumerate(channels):
            inputs = 7 + 2 * head if i == 0 else 12 + 2 * head + features
            setattr(self, f"block{i}", Block(inputs, width, features))
        self.encode = Head(head)

    def forward(self, first, second, scale):
        height, width = first.shape[-2:]
        scales = [2 ** (self.count - 1 - i) / scale for i in range(self.count)]
        multiple = int(4 * scales[0])
        padding = (0, -width % multiple, 0, -height % multiple)
        first, second = F.pad(first, padding), F.pad(second, padding)
        heads = [self.encode(first), self.encode(second)]
        time = torch.full_like(first[:, :1], 0.5)
        flow, mask, features = None, None, None
        for i, at in enumerate(scales):
            block = getattr(self, f"block{i}")
            if flow is None:
                flow, mask, features = block(torch.cat([first, second, *heads, time], 1), None, at)
                continue
            ways = flow[:, :2], flow[:, 2:]
            seen = [moved(first, ways[0]), moved(second, ways[1])]
            seen += [moved(head, way) for head, way in zip(heads, ways)]
            seen += [time, mask] + ([features] if self.features else [])
            more, mask, features = block(torch.cat(seen, 1), flow, at)
            flow = flow + more
        mask = torch.sigmoid(mask)
        merged = moved(first, flow[:, :2]) * mask + moved(second, flow[:, 2:]) * (1 - mask)
        return merged[..., :height, :width]


def pictures(seed, height, width):
    """A smooth picture, and the same a little further on."""
    coarse = torch.rand(1, 3, 8, 10, generator=generator(seed))
    large = F.interpolate(coarse, (height + 6, width + 6), mode="bicubic").clamp(0, 1)
    return large[..., :height, :width], large[..., 3 : 3 + height, 5 : 5 + width]


def calls_of(module, seed, **calls):
    results = []
    for i, (name, (size, scale)) in enumerate(calls.items()):
        first, second = pictures(seed + 1 + i, *size)
        middle = module(first, second, scale)
        quarters = {"quarter": module(first, middle, scale), "three_quarters": module(middle, second, scale)}
        outputs = {"middle": middle, **(quarters if name == "twice" else {})}
        inputs = {"first": first, "second": second}
        results.append(Call(name, "frames between two", {"scale": scale}, inputs, outputs))
    return results


def narrow(folder, seed):
    """RIFE 4.22's kind: four blocks that hand features on."""
    module = seed_weights(folder, Interpolator((16, 12, 8, 8), 4, 8), seed, torch.float16)
    return calls_of(module, seed, padded=((40, 56), 1.0), halved=((64, 64), 0.5))


def five(folder, seed):
    """RIFE 4.25's kind: five blocks."""
    module = seed_weights(folder, Interpolator((12, 12, 8, 8, 4), 4, 8), seed, torch.float16)
    return calls_of(module, seed, whole=((64, 64), 1.0))


def plain(folder, seed):
    """RIFE 4.15's kind: nothing is handed on, a wider head."""
    module = seed_weights(folder, Interpolator((12, 8, 8, 8), 8, 0), seed, torch.float16)
    return calls_of(module, seed, twice=((32, 32), 1.0))


# name -> (description, seed, calls)
GOLDENS = {
    "narrow": ("RIFE 4.22 with narrow blocks, seeded float16", 1700, None, narrow),
    "five": ("RIFE 4.25 with narrow blocks, seeded float16", 1710, None, five),
    "plain": ("RIFE 4.15 with narrow blocks, seeded float16", 1720, None, plain),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
