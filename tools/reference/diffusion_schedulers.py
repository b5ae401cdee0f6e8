"""Golden trajectories of diffusers' schedulers of diffusion models, for models/schedulers tests.

Run: python3 tools/reference/diffusion_schedulers.py
Writes tests/goldens/schedulers/diffusion.json. Beta levels need SciPy.

The network is 0.4·input + cos(0.01·t + 0.7·j) for timestep t and element j, where the input is the sample as the scheduler scales it
for the network. A golden has this input at every step and the sample at the end. Draw k of noise is sin(1.7·k + 0.9·j + 0.3).
The tables are those of float32; from them on everything is float64, so that no rounding hides a wrong coefficient.
"""

import importlib
import json
import pathlib
import types

import diffusers
import numpy as np
import torch

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "goldens" / "schedulers"
START = [0.9, -1.3]
IMAGE = [0.4, 0.7]
STABLE_DIFFUSION = {
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "steps_offset": 1,
    "clip_sample": False,
    "skip_prk_steps": True,
}


class Widened(types.ModuleType):
    """A module in which float32 means float64."""

    def __init__(self, module):
        super().__init__(module.__name__)
        self.module = module

    def __getattr__(self, name):
        return getattr(self.module, "float64" if name == "float32" else name)


class Draws:
    """Noise by formula in place of a generator's."""

    def __init__(self):
        self.count = 0

    def next(self, *_, **__):
        j = torch.arange(len(START), dtype=torch.float64)
        self.count += 1
        return torch.sin(1.7 * (self.count - 1) + 0.9 * j + 0.3)[None]


def network(scheduler, sample, t):
    scaled = scheduler.scale_model_input(sample, t)
    time = float(np.float32(float(t)))
    j = torch.arange(len(START), dtype=torch.float64)
    return scaled, 0.4 * scaled + torch.cos(0.01 * time + 0.7 * j)


class Path:
    """A Brownian path over σ, in place of a tree of torchsde: the noise of a whole step holds that of its first part."""

    def __init__(self):
        self.draws = Draws()
        self.part = None

    def __call__(self, sigma, target):
        noise = self.draws.next()
        if self.part is None:
            self.part = (target, noise)
            return noise
        middle, first = self.part
        self.part = None
        return ((sigma - middle) ** 0.5 * first + (middle - target) ** 0.5 * noise) / (sigma - target) ** 0.5


def widened(scheduler):
    """The scheduler, with its table and its module's arithmetic in float64."""
    module = importlib.import_module(type(scheduler).__module__)
    module.torch, module.np = Widened(torch), Widened(np)
    module.randn_tensor = Draws().next
    if hasattr(scheduler, "noise_sampler"):
        module.BrownianTreeNoiseSampler = lambda *_: Path()
    for name, value in list(vars(scheduler).items()):
        if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
            setattr(scheduler, name, value.double())
    return module


def case(name, cls, config, steps, start=0, options=None, **step_options):
    config = {**STABLE_DIFFUSION, **config}
    scheduler = getattr(diffusers, cls).from_config({"_class_name": cls, **config})
    module = widened(scheduler)
    torch.set_default_dtype(torch.float64)
    try:
        scheduler.set_timesteps(steps)
        timesteps = scheduler.timesteps[start * scheduler.order :]
        if hasattr(scheduler, "set_begin_index"):
            scheduler.set_begin_index(start * scheduler.order)
        noise = torch.tensor([START], dtype=torch.float64)
        if start:
            image = torch.tensor([IMAGE], dtype=torch.float64)
            sample = scheduler.add_noise(image, noise, timesteps[:1])
        else:
            sample = noise * scheduler.init_noise_sigma
        inputs = []
        for t in timesteps:
            scaled, output = network(scheduler, sample, t)
            inputs.append(numbers(scaled[0]))
            sample = scheduler.step(output, t, sample, **step_options).prev_sample
    finally:
        module.torch, module.np = torch, np
        torch.set_default_dtype(torch.float32)
    assert sample.dtype == torch.float64 and torch.isfinite(sample).all(), name
    return {
        "name": name,
        "config": {"_class_name": cls, **config},
        "steps": steps,
        "options": {**({"start": start} if start else {}), **(options or {})},
        "timesteps": [float(np.float32(float(t))) for t in timesteps],
        "inputs": inputs,
        "end": numbers(sample[0]),
    }


def numbers(values):
    return [float(f"{float(v):.12g}") for v in values]


SPACINGS = ["leading", "linspace", "trailing"]


def spaced(cls, counts, **config):
    for spacing in SPACINGS:
        for steps in counts:
            yield case(f"{cls}, {spacing}", cls, {"timestep_spacing": spacing, **config}, steps)


def predicted(cls, types):
    for kind in types:
        config = {"prediction_type": kind, "timestep_spacing": "leading"}
        yield case(f"{cls}, {kind}", cls, config, 6)
        yield case(f"{cls}, {kind}, from an image", cls, config, 9, start=4)


def euler():
    cls = "EulerDiscreteScheduler"
    yield from spaced(cls, [1, 2, 7, 20, 30])
    yield from predicted(cls, ["epsilon", "v_prediction", "sample"])
    for key in REDISTRIBUTED:
        for spacing in ["leading", "trailing"]:
            yield case(f"{cls}, {key}", cls, {key: True, "timestep_spacing": spacing}, 7)
    ends = {"use_karras_sigmas": True, "sigma_min": 0.1, "sigma_max": 10.0}
    zero = {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction"}
    others = {
        "ends": ends,
        "log_linear": {"interpolation_type": "log_linear"},
        "sigma_min": {"final_sigmas_type": "sigma_min"},
        "zero SNR": {**zero, "timestep_spacing": "trailing"},
        "linear betas": {"beta_schedule": "linear"},
        "cosine betas": {"beta_schedule": "squaredcos_cap_v2"},
        "betas of its own": {
            "trained_betas": [0.001 * (i + 1) for i in range(50)],
            "num_train_timesteps": 50,
        },
    }
    for name, config in others.items():
        yield case(f"{cls}, {name}", cls, config, 7)


def ddim():
    cls = "DDIMScheduler"
    yield from spaced(cls, [1, 2, 7, 20, 30])
    yield from predicted(cls, ["epsilon", "v_prediction", "sample"])
    zero = {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction"}
    yield case(f"{cls}, zero SNR", cls, {**zero, "timestep_spacing": "trailing"}, 7)
    yield case(f"{cls}, ends above 0", cls, {"set_alpha_to_one": False}, 7)


def pndm():
    cls = "PNDMScheduler"
    yield from spaced(cls, [1, 2, 3, 7, 20, 30])
    yield from predicted(cls, ["epsilon", "v_prediction"])
    yield case(f"{cls}, ends at 0", cls, {"set_alpha_to_one": True}, 7)


REDISTRIBUTED = ["use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas"]


def k_samplers():
    both = ["epsilon", "v_prediction"]
    for cls in [
        "EulerAncestralDiscreteScheduler",
        "HeunDiscreteScheduler",
        "KDPM2DiscreteScheduler",
        "KDPM2AncestralDiscreteScheduler",
        "LMSDiscreteScheduler",
        "DPMSolverSDEScheduler",
    ]:
        yield from spaced(cls, [1, 2, 7])
        for kind in both:
            config = {"prediction_type": kind, "timestep_spacing": "leading"}
            yield case(f"{cls}, {kind}", cls, config, 6)
            # The reference's LMS counts slopes that it does not have.
            if cls != "LMSDiscreteScheduler":
                yield case(f"{cls}, {kind}, from an image", cls, config, 7, start=4)
        if cls != "EulerAncestralDiscreteScheduler":
            for key in REDISTRIBUTED:
                yield case(f"{cls}, {key}", cls, {key: True, "timestep_spacing": "trailing"}, 5)


def multistep():
    for cls in ["DPMSolverMultistepScheduler", "UniPCMultistepScheduler", "DEISMultistepScheduler"]:
        yield from spaced(cls, [1, 2, 7, 20])
        yield from predicted(cls, ["epsilon", "v_prediction", "sample"])
        for key in REDISTRIBUTED:
            yield case(f"{cls}, {key}", cls, {key: True}, 7)
        zero = {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction"}
        others = {
            "order 1": {"solver_order": 1},
            "order 3": {"solver_order": 3},
        }
        if cls != "DEISMultistepScheduler":
            others["sigma_min"] = {"final_sigmas_type": "sigma_min"}
            others["zero SNR"] = {**zero, "timestep_spacing": "trailing"}
        for name, config in others.items():
            for steps in [7, 16]:
                yield case(f"{cls}, {name}", cls, config, steps)
    cls = "DPMSolverMultistepScheduler"
    last = {"final_sigmas_type": "sigma_min"}
    sde = {"algorithm_type": "sde-dpmsolver++"}
    others = {
        "heun": {"solver_type": "heun"},
        "Euler at the end": {**last, "euler_at_final": True},
        "no lower order": {**last, "lower_order_final": False},
        "SDE": sde,
        "SDE, heun": {**sde, "solver_type": "heun"},
        "SDE, karras": {**sde, "use_karras_sigmas": True},
    }
    for name, config in others.items():
        yield case(f"{cls}, {name}", cls, config, 7)
        yield case(f"{cls}, {name}", cls, config, 16)
    cls = "UniPCMultistepScheduler"
    yield case(f"{cls}, bh1", cls, {**last, "solver_type": "bh1"}, 7)
    yield case(f"{cls}, no corrector", cls, {"disable_corrector": [0, 2]}, 7)


def singlestep():
    cls = "DPMSolverSinglestepScheduler"
    for steps in [1, 2, 7, 8]:
        yield case(cls, cls, {}, steps)
    yield from predicted(cls, ["epsilon", "v_prediction", "sample"])
    for config in [{"use_karras_sigmas": True}, {"solver_order": 1}, {"solver_type": "heun"}]:
        yield case(f"{cls}, {config}", cls, config, 7)


def edm():
    for cls in ["EDMEulerScheduler", "EDMDPMSolverMultistepScheduler"]:
        for kind in ["epsilon", "v_prediction"]:
            for steps in [1, 2, 7]:
                yield case(f"{cls}, {kind}", cls, {"prediction_type": kind}, steps)
            yield case(f"{cls}, {kind}, from an image", cls, {"prediction_type": kind}, 8, start=3)
        config = {"sigma_schedule": "exponential", "sigma_max": 120.0, "sigma_data": 1.0}
        yield case(f"{cls}, exponential", cls, config, 7)
        yield case(f"{cls}, sigma_min", cls, {"final_sigmas_type": "sigma_min"}, 16)
    for config in [{"solver_order": 3}, {"algorithm_type": "sde-dpmsolver++"}]:
        yield case(f"{cls}, {config}", cls, config, 7)


def others():
    for cls in ["LCMScheduler", "TCDScheduler"]:
        for kind in ["epsilon", "v_prediction", "sample"]:
            for steps in [1, 4, 7]:
                yield case(f"{cls}, {kind}", cls, {"prediction_type": kind}, steps)
            yield case(f"{cls}, {kind}, from an image", cls, {"prediction_type": kind}, 8, start=4)
    yield from spaced("DDPMScheduler", [1, 2, 7, 20])
    yield from predicted("DDPMScheduler", ["epsilon", "v_prediction", "sample"])


def main():
    cases = [*euler(), *ddim(), *pndm(), *k_samplers(), *multistep(), *singlestep(), *edm(), *others()]
    data = {
        "generator": f"diffusers {diffusers.__version__}",
        "start": START,
        "image": IMAGE,
        "cases": cases,
    }
    text = json.dumps(data, separators=(",", ":"))
    (OUT / "diffusion.json").write_text(text + "\n")
    print(len(cases), "cases,", len(text), "bytes")


if __name__ == "__main__":
    main()
