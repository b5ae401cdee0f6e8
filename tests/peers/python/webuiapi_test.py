"""What scripts do with webuiapi, a client of AUTOMATIC1111's routes."""

import os
from urllib.parse import urlparse

import pytest
import webuiapi
from PIL import Image

URL = urlparse(os.environ["PEER_URL"])


@pytest.fixture(scope="module")
def api():
    return webuiapi.WebUIApi(host=URL.hostname, port=URL.port, sampler="Euler", steps=2)


@pytest.fixture(scope="module")
def image(api):
    return api.txt2img(prompt="a red heart", seed=7, width=96, height=96).image


def test_txt2img(image):
    assert image.size == (96, 96)


def test_img2img(api, image):
    result = api.img2img(images=[image], prompt="a green heart", denoising_strength=0.7, width=96, height=96)
    assert result.image.size == (96, 96)


def test_img2img_with_mask(api, image):
    mask = Image.new("L", image.size, 0)
    mask.paste(255, (24, 24, 72, 72))
    result = api.img2img(images=[image], mask_image=mask, prompt="a star", width=96, height=96)
    assert result.image.getpixel((0, 0)) == image.getpixel((0, 0))


def test_png_info(api, image):
    assert "a red heart" in api.png_info(image).info


def test_extra_single_image(api, image):
    assert api.extra_single_image(image=image, upscaler_1="None", upscaling_resize=2).image.size == (192, 192)


def test_interrogate(api, image):
    assert api.interrogate(image=image).info


@pytest.mark.parametrize(
    "name",
    [
        "get_options", "get_progress", "get_cmd_flags", "get_samplers", "get_sd_vae", "get_upscalers",
        "get_latent_upscale_modes", "get_loras", "get_sd_models", "get_hypernetworks", "get_face_restorers",
        "get_realesrgan_models", "get_prompt_styles", "get_embeddings", "get_scripts", "get_memory",
        "refresh_checkpoints", "interrupt", "skip",
        "util_get_model_names", "util_get_current_model", "util_get_sampler_names", "util_wait_for_ready",
    ],
)
def test_method(api, name):
    result = getattr(api, name)()
    assert not (isinstance(result, dict) and "error" in result), result


def test_options_are_read_back(api):
    api.set_options({"send_seed": False})
    assert api.get_options()["send_seed"] is False
    api.set_options({"send_seed": True})
