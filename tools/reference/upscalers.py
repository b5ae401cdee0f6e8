"""Makes the goldens of the upscalers under tests/goldens/upscalers.

    python3 tools/reference/upscalers.py                 # make all
    python3 tools/reference/upscalers.py NAME ...        # make some
    python3 tools/reference/upscalers.py --check [NAME]  # read the stored ones back and run them again

No class of diffusers enlarges images. The modules below follow the descriptions of SRVGGNetCompact
(https://github.com/xinntao/Real-ESRGAN) and RRDBNet (https://github.com/XPixelGroup/BasicSR), and have the names of
their files.
"""

import torch
import torch.nn.functional as F

import common
from common import Call, generator, make_goldens
from seeded import seed_weights

FOLDER = common.GOLDENS.parent / "upscalers"


def conv(inputs, outputs):
    return torch.nn.Conv2d(inputs, outputs, 3, padding=1)


class Compact(torch.nn.Module):
    def __init__(self, width, convolutions, scale):
        super().__init__()
        self.scale = scale
        layers = [conv(3, width), torch.nn.PReLU(width)]
        for _ in range(convolutions):
            layers += [conv(width, width), torch.nn.PReLU(width)]
        self.body = torch.nn.ModuleList([*layers, conv(width, 3 * scale**2)])

    def forward(self, image):
        x = image
        for layer in self.body:
            x = layer(x)
        return F.pixel_shuffle(x, self.scale) + F.interpolate(image, scale_factor=self.scale, mode="nearest")


class Dense(torch.nn.Module):
    def __init__(self, width, growth):
        super().__init__()
        for i in range(5):
            setattr(self, f"conv{i + 1}", conv(width + i * growth, width if i == 4 else growth))

    def forward(self, x):
        seen = [x]
        for i in range(1, 5):
            seen.append(F.leaky_relu(getattr(self, f"conv{i}")(torch.cat(seen, 1)), 0.2))
        return x + 0.2 * self.conv5(torch.cat(seen, 1))


class DenseInDense(torch.nn.Module):
    def __init__(self, width, growth):
        super().__init__()
        self.rdb1, self.rdb2, self.rdb3 = (Dense(width, growth) for _ in range(3))

    def forward(self, x):
        return x + 0.2 * self.rdb3(self.rdb2(self.rdb1(x)))


class Large(torch.nn.Module):
    def __init__(self, width, blocks, growth, scale):
        super().__init__()
        self.fold = 4 // scale
        self.conv_first = conv(3 * self.fold**2, width)
        self.body = torch.nn.Sequential(*(DenseInDense(width, growth) for _ in range(blocks)))
        self.conv_body, self.conv_up1, self.conv_up2, self.conv_hr = (conv(width, width) for _ in range(4))
        self.conv_last = conv(width, 3)

    def forward(self, image):
        x = self.conv_first(F.pixel_unshuffle(image, self.fold))
        x = x + self.conv_body(self.body(x))
        for layer in (self.conv_up1, self.conv_up2):
            x = F.leaky_relu(layer(F.interpolate(x, scale_factor=2, mode="nearest")), 0.2)
        return self.conv_last(F.leaky_relu(self.conv_hr(x), 0.2))


def picture(seed, height, width):
    """A smooth picture in [0, 1]."""
    coarse = torch.rand(1, 3, max(2, height // 6), max(2, width // 6), generator=generator(seed))
    return F.interpolate(coarse, (height, width), mode="bilinear")


def calls_of(module, seed, **sizes):
    calls = []
    for i, (name, size) in enumerate(sizes.items()):
        image = picture(seed + 1 + i, *size)
        calls.append(Call(name, "an image in [0, 1], enlarged", {}, {"image": image}, {"result": module(image)}))
    return calls


def compact(folder, seed):
    """Also wider than a tile."""
    module = seed_weights(folder, Compact(12, 2, 2), seed, torch.float16)
    return calls_of(module, seed, small=(9, 14), wide=(8, 272))


def compact4(folder, seed):
    module = seed_weights(folder, Compact(8, 3, 4), seed, torch.float16)
    return calls_of(module, seed, small=(10, 7))


def large4(folder, seed):
    module = seed_weights(folder, Large(8, 2, 4, 4), seed, torch.float16)
    return calls_of(module, seed, small=(6, 9))


def large2(folder, seed):
    module = seed_weights(folder, Large(8, 1, 4, 2), seed, torch.float16)
    return calls_of(module, seed, small=(12, 8))


# name -> (description, seed, calls)
GOLDENS = {
    "compact": ("SRVGGNetCompact x2, narrow, seeded float16", 1600, None, compact),
    "compact4": ("SRVGGNetCompact x4, narrow, seeded float16", 1610, None, compact4),
    "large4": ("RRDBNet x4 with two narrow blocks, seeded float16", 1620, None, large4),
    "large2": ("RRDBNet x2, which folds pixels in front, seeded float16", 1630, None, large2),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
