"""Golden trajectories of samplers and schedules by ComfyUI's names that diffusers does not have so, for models/schedulers tests.

Run: python3 tools/reference/k_samplers.py
Writes tests/goldens/schedulers/k_samplers.json. It computes the formulas of the papers and of k-diffusion, in float64.
Beta levels need SciPy.

The network is 0.4·input + cos(0.01·t + 0.7·j), and draw k of noise sin(1.7·k + 0.9·j + 0.3), as in diffusion_schedulers.py.
"""

import json
import math
import pathlib

import diffusers
import numpy as np
from scipy.stats import beta as beta_distribution

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "goldens" / "schedulers"
START = np.array([0.9, -1.3])
J = np.arange(len(START))
STABLE_DIFFUSION = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}

ALIGNED = [14.6146412293, 6.3184485287, 3.7681790315, 2.1811480769, 1.3405244945, 0.8620721141]
ALIGNED += [0.5550693289, 0.3798540708, 0.2332364134, 0.1114188177, 0.0291671582]


class Diffusion:
    """Samples are x0 + σ·noise; the output is noise, or v."""

    def __init__(self, prediction):
        self.config = {"_class_name": "EulerDiscreteScheduler", **STABLE_DIFFUSION, "prediction_type": prediction}
        self.prediction = prediction
        signal = diffusers.DDIMScheduler(**STABLE_DIFFUSION).alphas_cumprod.double().numpy()
        self.table = ((1 - signal) / signal) ** 0.5

    def alpha(self, sigma):
        return 1.0

    def half_log_snr(self, sigma):
        return -math.log(sigma)

    def level(self, half_log_snr):
        return math.exp(-half_log_snr)

    def timestep(self, sigma):
        return float(np.float32(np.interp(math.log(sigma), np.log(self.table), np.arange(len(self.table)))))

    def at(self, timesteps):
        return np.exp(np.interp(timesteps, np.arange(len(self.table)), np.log(self.table)))

    def denoised(self, x, sigma):
        scaled = x / (sigma**2 + 1) ** 0.5
        output = 0.4 * scaled + np.cos(0.01 * self.timestep(sigma) + 0.7 * J)
        if self.prediction == "epsilon":
            return x - sigma * output
        return x / (sigma**2 + 1) - sigma / (sigma**2 + 1) ** 0.5 * output

    def begin(self, sigma):
        top = self.table[-1]
        return START * (sigma**2 + 1) ** 0.5 if sigma >= top * (1 - 1e-5) else START * sigma


class Flow:
    """Samples are (1 − σ)·x0 + σ·noise; the output is noise − x0."""

    def __init__(self, shift):
        self.config = {"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": shift}
        self.table = self.shifted(np.arange(1, 1001) / 1000, shift)
        self.shift = shift

    @staticmethod
    def shifted(sigma, shift):
        return shift * sigma / (1 + (shift - 1) * sigma)

    def alpha(self, sigma):
        return 1 - sigma

    def half_log_snr(self, sigma):
        return -math.inf if sigma == 1 else math.log((1 - sigma) / sigma)

    def level(self, half_log_snr):
        return 1 / (math.exp(half_log_snr) + 1)

    def denoised(self, x, sigma):
        time = float(np.float32(sigma * 1000))
        return x - sigma * (0.4 * x + np.cos(0.01 * time + 0.7 * J))

    def begin(self, sigma):
        return START


def schedule(name, model, n):
    """Levels by ComfyUI's names."""
    table = model.table
    high, low, size = table[-1], table[0], len(table)
    if isinstance(model, Flow):
        if name == "normal":
            chosen = model.shifted(np.linspace(1, low, n), model.shift)
        else:
            chosen = np.tan(np.linspace(math.atan(high), math.atan(low), n))
        return [float(x) for x in chosen.astype(np.float32)] + [0.0]
    if name == "normal":
        chosen = model.at(np.linspace(size - 1, 0, n))
    elif name == "simple":
        chosen = [table[-(1 + int(i * size / n))] for i in range(n)]
    elif name == "sgm_uniform":
        chosen = model.at(np.linspace(size - 1, 0, n + 1)[:-1])
    elif name == "ddim_uniform":
        chosen = table[1 :: max(size // n, 1)][::-1]
    elif name == "karras":
        chosen = np.linspace(high ** (1 / 7), low ** (1 / 7), n) ** 7
    elif name == "exponential":
        chosen = np.exp(np.linspace(math.log(high), math.log(low), n))
    elif name == "beta":
        shares = 1 - np.linspace(0, 1, n, endpoint=False)
        steps = np.rint(beta_distribution.ppf(shares, 0.6, 0.6) * (size - 1)).astype(int)
        chosen = [table[t] for i, t in enumerate(steps) if i == 0 or t != steps[i - 1]]
    elif name == "kl_optimal":
        chosen = np.tan(np.linspace(math.atan(high), math.atan(low), n))
    else:
        at = np.linspace(0, 1, n + 1)
        chosen = np.exp(np.interp(at, np.linspace(0, 1, len(ALIGNED)), np.log(ALIGNED)))[:-1]
    return [float(x) for x in chosen] + [0.0]


class Noise:
    def __init__(self):
        self.count = 0

    def __call__(self):
        self.count += 1
        return np.sin(1.7 * (self.count - 1) + 0.9 * J + 0.3)


def split(model, sigma, target):
    """Ancestral step: the level to go down to, what scales the sample there, and the noise that leads up again."""
    down = target * target / sigma
    keep = model.alpha(target) / model.alpha(down)
    return down, keep, max(target**2 - (down * keep) ** 2, 0) ** 0.5


def euler(model, x, sigma, target):
    return x + (x - model.denoised(x, sigma)) / sigma * (target - sigma)


def run(name, model, sigmas):
    noise, x = Noise(), model.begin(sigmas[0])
    earlier = []
    for i, (sigma, target) in enumerate(zip(sigmas, sigmas[1:])):
        d = model.denoised(x, sigma)
        slope = (x - d) / sigma
        if name in ("euler", "ddim"):
            x = x + slope * (target - sigma)
        elif target == 0 and name not in ("lms", "euler_ancestral"):
            x = d
        elif name in ("euler_ancestral", "ddpm"):
            down, keep, up = split(model, sigma, target)
            x = keep * (x + slope * (down - sigma)) + (up * noise() if up else 0)
        elif name == "lcm":
            x = model.alpha(target) * d + target * noise()
        elif name == "heun":
            ahead = x + slope * (target - sigma)
            other = (ahead - model.denoised(ahead, target)) / target
            x = x + (slope + other) / 2 * (target - sigma)
        elif name == "dpm_2":
            middle = math.exp((math.log(sigma) + math.log(target)) / 2)
            ahead = x + slope * (middle - sigma)
            x = x + (ahead - model.denoised(ahead, middle)) / middle * (target - sigma)
        elif name == "dpm_2_ancestral":
            down, keep, up = split(model, sigma, target)
            middle = math.exp((math.log(sigma) + math.log(down)) / 2)
            ahead = x + slope * (middle - sigma)
            x = x + (ahead - model.denoised(ahead, middle)) / middle * (down - sigma)
            x = keep * x + up * noise()
        elif name == "dpmpp_2s_ancestral":
            down, keep, up = split(model, sigma, target)
            a, b = model.half_log_snr(sigma), model.half_log_snr(down)
            middle = 0.9999 if sigma == 1 else model.level((a + b) / 2)
            ahead = middle / sigma * x + (1 - middle / sigma) * d
            x = down / sigma * x + (1 - down / sigma) * model.denoised(ahead, middle)
            x = keep * x + up * noise()
        elif name == "dpmpp_sde":
            middle = math.exp((math.log(sigma) + math.log(target)) / 2)
            down, _, up = split(model, sigma, middle)
            first = noise()
            ahead = down / sigma * x + (1 - down / sigma) * d + up * first
            other = model.denoised(ahead, middle)
            down, _, up = split(model, sigma, target)
            # The increment of one Brownian path over the whole step.
            whole = (sigma - middle) ** 0.5 * first + (middle - target) ** 0.5 * noise()
            x = down / sigma * x + (1 - down / sigma) * other + up * whole / (sigma - target) ** 0.5
        elif name == "lms":
            earlier.append((sigma, slope))
            points = earlier[-4:]
            for k, (own, value) in enumerate(points):
                poly = np.poly1d([1.0])
                for m, (level, _) in enumerate(points):
                    if m != k:
                        poly *= np.poly1d([1.0, -level]) / (own - level)
                whole = poly.integ()
                x = x + (whole(target) - whole(sigma)) * value
        elif name in ("dpmpp_2m", "dpmpp_2m_sde", "dpmpp_3m_sde"):
            x = dpmpp(name, model, x, d, sigma, target, earlier, noise)
        elif name == "res_multistep":
            x = res_multistep(x, d, sigma, target, earlier)
        elif name == "er_sde":
            x = er_sde(model, x, d, sigma, target, earlier, noise)
        else:
            raise ValueError(name)
    return x


def dpmpp(name, model, x, d, sigma, target, earlier, noise):
    eta = 0 if name == "dpmpp_2m" else 1
    lam = model.half_log_snr(target)
    h = lam - model.half_log_snr(sigma)
    alpha, wide = model.alpha(target), (1 + eta) * h
    result = target / sigma * (math.exp(-h) if eta else 1) * x - alpha * math.expm1(-wide) * d
    phi2 = math.expm1(-wide) / wide + 1
    if len(earlier) > 1 and name == "dpmpp_3m_sde":
        (h1, d1), (h2, d2) = earlier[-1], earlier[-2]
        r0, r1 = h1 / h, h2 / h
        a, b = (d - d1) / r0, (d1 - d2) / r1
        result = result + alpha * phi2 * (a + (a - b) * r0 / (r0 + r1))
        result = result - alpha * (phi2 / wide - 0.5) * (a - b) / (r0 + r1)
    elif earlier:
        h1, d1 = earlier[-1]
        change = (d - d1) * h / h1
        if name == "dpmpp_3m_sde":
            result = result + alpha * phi2 * change
        else:
            result = result - 0.5 * alpha * math.expm1(-wide) * change
    earlier.append((h, d))
    return result + (target * (-math.expm1(-2 * h)) ** 0.5 * noise() if eta else 0)


def res_multistep(x, d, sigma, target, earlier):
    h = math.log(sigma / target)
    if earlier:
        before, old = earlier[-1]
        c2 = math.log(sigma / before) / h
        phi1 = math.expm1(-h) / -h
        phi2 = (phi1 - 1) / -h
        x = math.exp(-h) * x + h * ((phi1 - phi2 / c2) * d + phi2 / c2 * old)
    else:
        x = x + (x - d) / sigma * (target - sigma)
    earlier.append((sigma, d))
    return x


def er_sde(model, x, d, sigma, target, earlier, noise):
    def rho(k):
        return k * (np.exp(k**0.3) + 10)

    # A flow begins just below 1, as in ComfyUI, where κ is finite; here the difference is in the last digits.
    a, b = (s / max(model.alpha(s), 1e-12) for s in (sigma, target))
    r = float(rho(b) / rho(a))
    alpha = model.alpha(target)
    result = alpha / max(model.alpha(sigma), 1e-12) * r * x + alpha * (1 - r) * d
    change = None
    if earlier:
        positions = b + np.arange(200) * (a - b) / 200
        before, old, old_change = earlier[-1]
        change = (d - old) / (a - before)
        total = np.sum(1 / rho(positions)) * (a - b) / 200
        result = result + alpha * (b - a + total * rho(b)) * change
        if old_change is not None:
            total = np.sum((positions - a) / rho(positions)) * (a - b) / 200
            second = (change - old_change) / ((a - earlier[-2][0]) / 2)
            result = result + alpha * ((b - a) ** 2 / 2 + total * rho(b)) * second
    earlier.append((a, d, change))
    return result + alpha * max(b**2 - (a * r) ** 2, 0) ** 0.5 * noise()


def numbers(values):
    return [float(f"{float(v):.12g}") for v in values]


def case(sampler, scheduler, model, n):
    sigmas = schedule(scheduler, model, n)
    if sampler in ("dpm_2", "dpm_2_ancestral") and isinstance(model, Diffusion):
        sigmas = schedule(scheduler, model, n + 1)
        del sigmas[-2]
    return {
        "name": f"{sampler}, {scheduler}, {getattr(model, 'prediction', 'flow')}",
        "config": model.config,
        "steps": n,
        "options": {"sampler": sampler, "scheduler": scheduler, "aligned": "sdxl"},
        "sigmas": numbers(sigmas),
        "end": numbers(run(sampler, model, sigmas)),
    }


def main():
    both = [Diffusion("epsilon"), Diffusion("v_prediction")]
    names = ["normal", "simple", "sgm_uniform", "ddim_uniform", "karras", "exponential", "beta"]
    names += ["kl_optimal", "align_your_steps"]
    shared = ["euler", "euler_ancestral", "heun", "dpm_2", "dpm_2_ancestral", "lms", "ddim", "lcm"]
    shared += ["dpmpp_2s_ancestral", "dpmpp_2m_sde", "dpmpp_3m_sde", "er_sde", "res_multistep"]
    cases = []
    for name in names:
        cases += [case("euler", name, both[0], n) for n in [1, 5, 10, 30, 400]]
    for sampler in [*shared, "dpmpp_2m", "dpmpp_sde", "ddpm"]:
        cases += [case(sampler, "karras", model, n) for model in both for n in [1, 2, 7]]
    for sampler in shared:
        cases += [case(sampler, "normal", Flow(3.0), n) for n in [2, 7]]
    cases += [case("euler", "kl_optimal", Flow(shift), n) for shift in [1.0, 3.0] for n in [1, 7]]
    data = {"start": START.tolist(), "cases": cases}
    text = json.dumps(data, separators=(",", ":"))
    (OUT / "k_samplers.json").write_text(text + "\n")
    print(len(cases), "cases,", len(text), "bytes")


if __name__ == "__main__":
    main()
