"""Makes the goldens under tests/goldens/flux2.

    python3 tools/reference/flux2.py                 # make all
    python3 tools/reference/flux2.py NAME ...        # make some
    python3 tools/reference/flux2.py --check [NAME]  # read the stored ones back and run them again
"""

import common
import flux2_dev
from common import make_goldens
from flux2_models import build_tiny, build_wide, tiny_calls, wide_calls
from flux2_pipeline import calls, save_pipeline

FOLDER = common.GOLDENS.parent / "flux2"

# name -> (description, seed, build, calls)
GOLDENS = {
    "transformer-tiny": ("heads of 16, with a guidance embedding, float32", 800, build_tiny, tiny_calls),
    "transformer-hd128": ("heads of 128, seeded bfloat16", 810, build_wide, wide_calls),
    "pipeline": ("Flux2KleinPipeline, distilled and base, from text and from pictures", 820, save_pipeline, calls),
    "dev": ("Flux2Pipeline, which reads its prompts with Mistral Small", 830, flux2_dev.build, flux2_dev.calls),
}  # fmt: skip


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
