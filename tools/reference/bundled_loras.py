"""Makes the goldens of the adapters that come with the bundled model, under tests/goldens/bundled-adapters.

    python3 tools/reference/bundled_loras.py

One prompt and seed without, with each and with both, as diffusers and PEFT run them from the files in diffusers'
naming. The other two namings of each file are loaded too, and must give the same pixels.
"""

from common import ROOT, write_golden
from pipeline import run_pipeline

MODEL = ROOT / "models" / "bundled"
OUT = ROOT / "tests" / "goldens" / "bundled-adapters"
PROMPT = "a red heart to the left of a blue circle"
SEED = 5
CASES = {"without": [], "outline": ["outline"], "pastel": ["pastel"], "both": ["outline", "pastel"]}


def with_adapters(names, dialect):
    def adapt(pipe):
        for name in names:
            path = f"{name}{dialect}.safetensors"
            pipe.load_lora_weights(MODEL / "adapters", weight_name=path, adapter_name=name)
        if names:
            pipe.set_adapters(names)

    return adapt


def call(case, dialect):
    made = run_pipeline(MODEL, case, PROMPT, seed=SEED, steps=8, adapt=with_adapters(CASES[case], dialect))  # fmt: skip
    made.args["adapters"] = CASES[case]
    made.description = "frames is [frame, height, width, channel] in 0..1"
    made.intermediates = {}
    return made


def main():
    calls = []
    for case in CASES:
        calls.append(call(case, ""))
        for dialect in (".kohya", ".comfyui") if CASES[case] else ():
            other = call(case, dialect)
            apart = (other.outputs["frames"] - calls[-1].outputs["frames"]).abs().max().item()
            print(f"{case}{dialect}: pixels differ by at most {apart:.1e}")
            assert apart < 1e-4
    write_golden(OUT, "The bundled model with its adapters", SEED, calls)


if __name__ == "__main__":
    main()
