"""Makes the goldens under tests/goldens/flux2.

    python3 tools/reference/flux2.py                 # make all
    python3 tools/reference/flux2.py NAME ...        # make some
    python3 tools/reference/flux2.py --check [NAME]  # read the stored ones back and run them again
"""

import sys

import common
from common import check_golden, exact, fresh_folder, write_golden
from flux2_models import build_tiny, build_wide, tiny_calls, wide_calls
from flux2_pipeline import calls, save_pipeline

FOLDER = common.GOLDENS.parent / "flux2"

# name -> (description, seed, build, calls)
GOLDENS = {
    "transformer-tiny": ("heads of 16, with a guidance embedding, float32", 800, build_tiny, tiny_calls),
    "transformer-hd128": ("heads of 128, seeded bfloat16", 810, build_wide, wide_calls),
    "pipeline": ("Flux2KleinPipeline, distilled and base, from text and from pictures", 820, save_pipeline, calls),
}  # fmt: skip


def main(names, check):
    for name in names or GOLDENS:
        description, seed, build, calls = GOLDENS[name]
        folder = FOLDER / name
        with exact():
            if not check:
                fresh_folder(folder)
                build(folder, seed)
            results = calls(folder, seed)
        if check:
            print(f"{name}: {check_golden(folder, results):.1e}")
        else:
            write_golden(folder, description, seed, results)
            size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            print(f"{name}: {size / 1e3:.0f} kB")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main([name for name in arguments if name != "--check"], "--check" in arguments)
