"""Golden timesteps, sigmas and trajectories of diffusers' schedulers, for models/schedulers tests.

Run: python3 tools/reference/schedulers.py
Writes tests/goldens/schedulers/{flow_match_euler,unipc}.json.

The model is v = 0.4·sample + cos(1.3·i + 0.7·j) for step i and element j, so that errors feed back.
UniPC runs twice: as it is ("float32"), and with its float32 sigmas widened to float64 ("float64"),
which leaves no rounding but the last digits in the comparison.
"""

import json
import pathlib

import numpy as np
import torch
from diffusers import FlowMatchEulerDiscreteScheduler, UniPCMultistepScheduler

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "goldens" / "schedulers"
STEPS = [1, 2, 3, 4, 8, 20, 50]
START = [0.9, -1.3, 0.25, 2.0]


def model(sample, i):
    j = torch.arange(sample.numel(), dtype=sample.dtype)
    return 0.4 * sample + torch.cos(1.3 * i + 0.7 * j)


def numbers(values):
    return [float(repr(float(v))) for v in values]


def trajectory(scheduler, start, dtype, noise):
    """Samples after each step; `noise` collects what a stochastic step drew."""
    sample = torch.tensor([START], dtype=dtype)
    scheduler.set_begin_index(start)
    generator = torch.Generator().manual_seed(5)
    shadow = torch.Generator().manual_seed(5)
    out = []
    for i, t in enumerate(scheduler.timesteps[start:]):
        output = model(sample, i)
        if noise is not None:
            noise.append(numbers(torch.randn(sample.shape, generator=shadow)[0]))
            sample = scheduler.step(output, t, sample, generator=generator).prev_sample
        else:
            sample = scheduler.step(output, t, sample).prev_sample
        out.append(numbers(sample[0]))
    return out


def case(cls, name, config, steps, start=0, sigmas=None, mu=None):
    scheduler = cls.from_config({"_class_name": cls.__name__, **config})
    kwargs = {}
    if sigmas is not None:
        kwargs["sigmas"] = np.array(sigmas)
    if mu is not None:
        kwargs["mu"] = mu
    scheduler.set_timesteps(None if sigmas is not None else steps, **kwargs)
    entry = {"name": name, "config": {"_class_name": cls.__name__, **config}, "steps": steps}
    options = {"start": start, "sigmas": sigmas, "mu": mu}
    entry["options"] = {k: v for k, v in options.items() if v}
    entry["timesteps"] = numbers(scheduler.timesteps[start:])
    entry["sigmas"] = numbers(scheduler.sigmas[start:])
    if cls is UniPCMultistepScheduler:
        entry["float32"] = trajectory(scheduler, start, torch.float32, None)[-1]
        scheduler.set_timesteps(None if sigmas is not None else steps, **kwargs)
        scheduler.sigmas = scheduler.sigmas.double()
        entry["float64"] = trajectory(scheduler, start, torch.float64, None)
        values = np.array(entry["float64"])
    else:
        noise = [] if config.get("stochastic_sampling") else None
        entry["float32"] = trajectory(scheduler, start, torch.float32, noise)
        if noise is not None:
            entry["noise"] = noise
        values = np.array(entry["float32"])
    assert np.isfinite(values).all(), f"{name}, {steps} steps: the reference gives NaN"
    return entry


def write(name, cases):
    OUT.mkdir(parents=True, exist_ok=True)
    import diffusers

    data = {"generator": f"diffusers {diffusers.__version__}", "start": START, "cases": cases}
    (OUT / f"{name}.json").write_text(json.dumps(data, separators=(",", ":")) + "\n")
    print(name, len(cases), "cases")


def flow_match_euler():
    euler = FlowMatchEulerDiscreteScheduler
    configs = {
        "defaults": {},
        "shift 3": {"shift": 3.0},
        "shift 1.5": {"shift": 1.5},
        "shift 7, 500 train steps": {"shift": 7.0, "num_train_timesteps": 500},
        "terminal 0.1": {"shift": 2.0, "shift_terminal": 0.1},
        "stochastic": {"shift": 3.0, "stochastic_sampling": True},
    }
    dynamic = {
        "dynamic exponential": {"use_dynamic_shifting": True},
        "dynamic linear": {"use_dynamic_shifting": True, "time_shift_type": "linear"},
        "dynamic terminal 0.02": {
            "use_dynamic_shifting": True,
            "shift_terminal": 0.02,
            "base_shift": 0.5,
            "max_shift": 0.9,
            "max_image_seq_len": 8192,
        },
    }
    cases = []
    for steps in STEPS:
        # One step with a terminal divides by 1 − 1 in the reference.
        for name, config in configs.items():
            if steps > 1 or "shift_terminal" not in config:
                cases.append(case(euler, name, config, steps))
        for name, config in dynamic.items():
            if steps > 1 or "shift_terminal" not in config:
                cases.append(case(euler, name, config, steps, mu=0.83))
                given = list(np.linspace(1.0, 1 / steps, steps))
                cases.append(case(euler, name + ", sigmas", config, steps, sigmas=given, mu=1.15))
        given = list(np.linspace(1.0, 1 / steps, steps))
        cases.append(case(euler, "shift 3, sigmas", {"shift": 3.0}, steps, sigmas=given))
    cases.append(case(euler, "shift 3, start", {"shift": 3.0}, 8, start=5))
    cases.append(case(euler, "dynamic, start", dynamic["dynamic exponential"], 20, start=7, mu=0.6))
    write("flow_match_euler", cases)


def unipc():
    flow = {"prediction_type": "flow_prediction", "use_flow_sigmas": True}
    configs = {
        "shift 3": {"flow_shift": 3.0},
        "shift 5": {"flow_shift": 5.0},
        "shift 16": {"flow_shift": 16.0},
        "shift 1": {},
        "order 1": {"flow_shift": 3.0, "solver_order": 1},
        "order 3": {"flow_shift": 3.0, "solver_order": 3},
        "corrector off at 0 and 2": {"flow_shift": 5.0, "disable_corrector": [0, 2]},
        "ends at sigma_min": {"flow_shift": 5.0, "final_sigmas_type": "sigma_min"},
        "older solver name": {"flow_shift": 5.0, "solver_type": "heun"},
        "terminal 0.05": {"flow_shift": 2.0, "shift_terminal": 0.05},
        "500 train steps": {"flow_shift": 3.0, "num_train_timesteps": 500},
    }
    cases = []
    for steps in STEPS:
        for name, config in configs.items():
            if steps > 1 or "shift_terminal" not in config:
                cases.append(case(UniPCMultistepScheduler, name, {**flow, **config}, steps))
        dynamic = {**flow, "use_dynamic_shifting": True}
        linear = {**dynamic, "time_shift_type": "linear"}
        given = list(np.linspace(1.0, 1 / steps, steps))
        cases.append(case(UniPCMultistepScheduler, "dynamic", dynamic, steps, mu=0.9))
        cases.append(case(UniPCMultistepScheduler, "dynamic linear", linear, steps, mu=2.5))
        shifted = {**flow, "flow_shift": 5.0}
        cases.append(case(UniPCMultistepScheduler, "sigmas", shifted, steps, sigmas=given))
        # bh1 ends in NaN in the reference when the last sigma is 0; these end above it.
        bh1 = {**flow, "flow_shift": 3.0, "solver_type": "bh1", "final_sigmas_type": "sigma_min"}
        cases.append(case(UniPCMultistepScheduler, "bh1", bh1, steps))
    for start in (3, 19):
        name = f"shift 5, start {start}"
        config = {**flow, "flow_shift": 5.0, "disable_corrector": [5]}
        cases.append(case(UniPCMultistepScheduler, name, config, 20, start=start))
    write("unipc", cases)


if __name__ == "__main__":
    flow_match_euler()
    unipc()
