"""Golden timesteps, sigmas and trajectories of diffusers' schedulers, for models/schedulers tests.

Run: python3 tools/reference/schedulers.py
Writes tests/goldens/schedulers/{flow_match_euler,unipc,samplers}.json. Beta levels need SciPy.

The model is v = 0.4·sample + cos(1.3·i + 0.7·j) for step i and element j, so that errors feed back.
UniPC runs twice: as it is ("float32"), and with its float32 sigmas widened to float64 ("float64"),
which leaves no rounding but the last digits in the comparison.
"""

import json
import pathlib

import numpy as np
import torch
from diffusers import (
    DPMSolverMultistepScheduler,
    FlowMatchEulerDiscreteScheduler,
    FlowMatchHeunDiscreteScheduler,
    FlowMatchLCMScheduler,
    UniPCMultistepScheduler,
)

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


def shortened(value, digits):
    return [shortened(each, digits) for each in value] if isinstance(value, list) else float(f"{value:.{digits}g}")


def write(name, cases):
    OUT.mkdir(parents=True, exist_ok=True)
    import diffusers

    # As many digits as float32 has, and as the tests compare of float64.
    for entry in cases:
        for key, digits in (("float32", 9), ("samples", 9), ("float64", 12)):
            if key in entry:
                entry[key] = shortened(entry[key], digits)
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


def levels(name, config, steps, mu=None, sigmas=None):
    """Shifted levels by a name that only ComfyUI has: before the shift, and after."""
    n = 1000
    scheduler = FlowMatchEulerDiscreteScheduler.from_config(config)

    def shift(x):
        if mu is not None:
            return scheduler.time_shift(mu, 1.0, x)
        return scheduler.shift * x / (1 + (scheduler.shift - 1) * x)

    if name == "simple":
        chosen = np.array([(n - int(i * (n / steps))) / n for i in range(steps)])
    else:
        chosen = np.linspace(1.0, shift(1 / n), steps + 1)[:-1]
    return shift(chosen)


def sampler_case(name, config, steps, options, scheduler, noise=None):
    """What a scheduler of diffusers gives, as a request with `options` should to a model with `config`."""
    entry = {"name": name, "config": config, "steps": steps, "options": options}
    entry["timesteps"] = numbers(scheduler.timesteps)
    entry["sigmas"] = numbers(scheduler.sigmas)
    entry["samples"] = trajectory(scheduler, 0, torch.float32, noise)
    if noise is not None:
        entry["noise"] = noise
    assert np.isfinite(entry["samples"]).all(), f"{name}, {steps} steps: the reference gives NaN"
    return entry


def by_formula(name, config, steps, options, sigmas, timesteps, step):
    """As `sampler_case`, for steps that diffusers does not have."""
    sigmas = torch.tensor([*sigmas, 0.0], dtype=torch.float32).double()
    sample = torch.tensor([START], dtype=torch.float64)
    generator = torch.Generator().manual_seed(5)
    entry = {"name": name, "config": config, "steps": steps, "options": options}
    entry.update(timesteps=numbers(timesteps), sigmas=numbers(sigmas), samples=[], noise=[])
    for i in range(steps):
        noise = torch.randn(sample.shape, generator=generator).double()
        velocity = model(sample, i)
        x0 = sample - sigmas[i] * velocity
        sample = step(sample, x0, sigmas[i], sigmas[i + 1], noise)
        entry["noise"].append(numbers(noise[0]))
        entry["samples"].append(numbers(sample[0]))
    return entry


def ancestral(sample, x0, sigma, target, noise):
    """Down to a level from which unit noise leads back up to `target` with the variance that it should have."""
    down = target * target / sigma
    scale = (1 - target) / (1 - down)
    lower = x0 + down / sigma * (sample - x0)
    return scale * lower + (target**2 - (scale * down) ** 2) ** 0.5 * noise


def renoised(sample, x0, sigma, target, noise):
    return (1 - target) * x0 + target * noise


def samplers():
    euler, unipc = FlowMatchEulerDiscreteScheduler, UniPCMultistepScheduler
    flow = {"prediction_type": "flow_prediction", "use_flow_sigmas": True}
    base = {"_class_name": euler.__name__, "shift": 3.0}
    cases = []
    for steps in [1, 2, 3, 4, 8, 20]:
        for name in ["karras", "exponential", "beta"]:
            for shift in [3.0, 8.0]:
                scheduler = euler(shift=shift, **{f"use_{name}_sigmas": True})
                scheduler.set_timesteps(steps)
                options = {"scheduler": name, "shift": shift}
                cases.append(sampler_case(f"{name}, shift {shift}", base, steps, options, scheduler))
            scheduler = euler(use_dynamic_shifting=True, **{f"use_{name}_sigmas": True})
            given = [float(x) for x in np.linspace(1.0, 1 / steps, steps)]
            scheduler.set_timesteps(sigmas=given, mu=0.9)
            config = {"_class_name": euler.__name__, "use_dynamic_shifting": True}
            options = {"scheduler": name, "sigmas": given, "mu": 0.9}
            cases.append(sampler_case(f"{name}, dynamic", config, steps, options, scheduler))
        for name in ["simple", "sgm_uniform"]:
            for config, mu in [(base, None), ({**base, "use_dynamic_shifting": True}, 0.9)]:
                scheduler = euler()
                scheduler.set_timesteps(steps)
                chosen = torch.tensor(levels(name, config, steps, mu), dtype=torch.float32)
                scheduler.sigmas = torch.cat([chosen, torch.zeros(1)])
                scheduler.timesteps = chosen * 1000
                options = {"scheduler": name, **({"mu": mu} if mu else {})}
                label = f"{name}, {'dynamic' if mu else 'shift 3'}"
                cases.append(sampler_case(label, config, steps, options, scheduler))
        for shift in [3.0, 5.0]:
            scheduler = FlowMatchHeunDiscreteScheduler(shift=shift)
            scheduler.set_timesteps(steps)
            options = {"sampler": "heun", "shift": shift}
            cases.append(sampler_case(f"heun, shift {shift}", base, steps, options, scheduler))
            scheduler = FlowMatchLCMScheduler(shift=shift)
            scheduler.set_timesteps(steps)
            options = {"sampler": "lcm", "shift": shift}
            cases.append(sampler_case(f"lcm, shift {shift}", base, steps, options, scheduler, []))
            scheduler = euler(shift=shift)
            scheduler.set_timesteps(steps)
            own = scheduler.sigmas
            dpm = DPMSolverMultistepScheduler(**flow)
            dpm.set_timesteps(steps)
            dpm.sigmas, times = own, scheduler.timesteps
            dpm.timesteps = times
            options = {"sampler": "dpmpp_2m", "shift": shift}
            cases.append(sampler_case(f"dpmpp_2m, shift {shift}", base, steps, options, dpm))
            given = [float(np.float32(x)) for x in np.linspace(1.0, 1 / steps, steps)]
            for name, cls in [("uni_pc", unipc), ("dpmpp_2m", DPMSolverMultistepScheduler)]:
                scheduler = cls(flow_shift=shift, **flow)
                scheduler.set_timesteps(steps)
                if name == "uni_pc":
                    scheduler.set_timesteps(sigmas=np.array(given))
                    options = {"sampler": name, "sigmas": given, "shift": shift}
                    label = f"{name}, sigmas, shift {shift}"
                    cases.append(sampler_case(label, base, steps, options, scheduler))
                    continue
                # Its own levels, which stop short of 1, as given ones that no shift changes.
                own = numbers(scheduler.sigmas[:-1])
                scheduler.timesteps = scheduler.sigmas[:-1] * 1000
                options = {"sampler": name, "sigmas": own, "shift": 1}
                label = f"{name}, own levels of shift {shift}"
                cases.append(sampler_case(label, base, steps, options, scheduler))
            own = euler(shift=shift)
            own.set_timesteps(steps)
            options = {"sampler": "euler_ancestral", "shift": shift}
            chosen = own.sigmas[:-1].double()
            label = f"euler_ancestral, shift {shift}"
            cases.append(
                by_formula(label, base, steps, options, chosen, own.timesteps, ancestral)
            )
        config = {"_class_name": DPMSolverMultistepScheduler.__name__, "flow_shift": 5.0, **flow}
        scheduler = DPMSolverMultistepScheduler.from_config(config)
        scheduler.set_timesteps(steps)
        cases.append(sampler_case("DPM-Solver++ by its file", config, steps, {}, scheduler))
    for shift in [3.0, 5.0, 8.0]:
        table = euler(shift=shift)
        times = [1000.0, 757.0, 522.0]
        near = [int(torch.argmin((table.timesteps - t).abs())) for t in times]
        options = {"sampler": "dmd", "shift": shift}
        chosen = table.sigmas[near].double()
        cases.append(by_formula(f"dmd, shift {shift}", base, 3, options, chosen, times, renoised))
    write("samplers", cases)


if __name__ == "__main__":
    flow_match_euler()
    unipc()
    samplers()
