"""SGLang's generation cases, sent by SGLang's own test code to a server that draws with the bundled model.

Sizes, lengths and steps are made small, the input image is one of ours, and what compares with their GPUs' pictures and
times is left to them.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import cv2  # noqa: F401 - before the stand-ins, which must not touch it
import numpy as np
import openai  # noqa: F401
import pytest
from PIL import Image

from stand_ins import Finder, stand_in_for

SUITE = Path(os.environ["PEER_SUITE"])
PORT = int(os.environ["PEER_URL"].rsplit(":", 1)[1])
TEST = "sglang.multimodal_gen.test"

sys.path.insert(0, str(SUITE))
stand_in_for(
    {"sglang", "torch", "transformers", "diffusers"},
    [TEST],
    {name: str(SUITE / name.replace(".", "/")) for name in ("sglang", "sglang.multimodal_gen")},
)
EXTRAS = {"imageio", "msgspec", "scipy", "skimage", "lpips", "safetensors", "slack_sdk", "websockets", "zmq"}
sys.meta_path.append(Finder(lambda name: name.split(".")[0] in EXTRAS))

import sglang.multimodal_gen.test.server.testcase_configs as configs  # noqa: E402

configs.normalize_quality = lambda quality: quality
configs.get_default_sampling_params_for_server_args = lambda args: configs.DiffusionSamplingParams()

from sglang.multimodal_gen.test import test_utils  # noqa: E402
from sglang.multimodal_gen.test.server import test_server_common as common  # noqa: E402
from sglang.multimodal_gen.test.server.gpu_cases import ONE_GPU_CASES  # noqa: E402

common.get_model_task_type_for_server_args = lambda args: SimpleNamespace(name="T2I")
test_utils.current_platform.is_hip.return_value = False

DEFAULTS = {
    "ti2i": configs.TI2I_sampling_params,
    "t2i": configs.T2I_sampling_params,
    "ti2v": configs.TI2V_sampling_params,
    "i2v": configs.TI2V_sampling_params,
    "t2v": configs.T2V_sampling_params,
}
# Other models' inputs and results: actions, several input images, layers, a driving video, sound, a live stream.
LEFT_OUT = ("action", "2509", "layered", "ref2v", "realtime", "cosmos3", "ltx", "sana_wm", "upscaling", "interp")


def task_of(case):
    if any(word in case.id for word in LEFT_OUT):
        return None
    if "edit" in case.id:
        return "ti2i"
    if "lora_1gpu" in case.id or "wan2_1" in case.id or "hunyuan" in case.id:
        return "t2v"
    return next((task for task in DEFAULTS if f"_{task}" in case.id), None)


def small(case, task):
    params = case.sampling_params
    if not params.prompt:
        params = replace(DEFAULTS[task], extras=dict(params.extras))
    params = replace(
        params,
        output_size="96x96",
        num_frames=9 if params.num_frames else params.num_frames,
        image_path=picture() if task in ("ti2i", "ti2v", "i2v") else None,
        direct_url_test=False,
        extras={**params.extras, "num_inference_steps": 2},
    )
    modality = "video" if task.endswith("v") else "image"
    server_args = replace(case.server_args, model_path="bundled")
    object.__setattr__(server_args, "modality", modality)
    object.__setattr__(server_args, "num_gpus", 1)
    for field, lora in {"lora_path": "outline", "dynamic_lora_path": "outline", "second_lora_path": "pastel"}.items():
        if getattr(server_args, field):
            object.__setattr__(server_args, field, lora)
    for name, value in {
        "sampling_params": params,
        "server_args": server_args,
        "perf_warmup_requests": 0,
        "perf_repeat_requests": 1,
        "run_consistency_check": False,
        "lead_sampling_params": None,
        "expected_model_id": None,
        "reference_quality": None,
        "run_lora_effect_check": False,
    }.items():
        object.__setattr__(case, name, value)
    return case


def picture():
    path = Path(os.environ["PEER_FOLDER"]) / "disc.png"
    if not path.exists():
        rows, columns = np.mgrid[0:96, 0:96]
        pixels = np.full((96, 96, 3), 255, np.uint8)
        pixels[(rows - 48) ** 2 + (columns - 48) ** 2 < 900] = (220, 40, 40)
        Image.fromarray(pixels).save(path)
    return path


CASES = [small(case, task) for case in ONE_GPU_CASES if (task := task_of(case))]


@pytest.fixture
def perf_results():
    return []


class TestDiffusionServer(common.DiffusionServerBase):
    @pytest.fixture(params=CASES, ids=lambda case: case.id)
    def case(self, request):
        return request.param

    @pytest.fixture
    def diffusion_server(self, case):
        process = SimpleNamespace(poll=lambda: None)
        return SimpleNamespace(port=PORT, process=process, model="bundled", perf_log_path=None, log_tail=lambda: "")

    def run_and_collect(self, ctx, case_id, generate_fn, collect_perf=True):
        return super().run_and_collect(ctx, case_id, generate_fn, collect_perf=False)

    def _validate_and_record(self, *args):
        pass
