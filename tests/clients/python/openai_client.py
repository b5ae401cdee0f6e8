"""OpenAI's own client for Python."""

import time

import openai
from picture import picture, png_size, url

client = openai.OpenAI(api_key="unused", base_url=f"{url}/v1", max_retries=0)

assert [entry.id for entry in client.models.list()] == ["bundled"]
assert client.models.retrieve("bundled").owned_by == "denoise"

# As OpenAI's own examples do it: nothing is said of how the picture comes back.
for model in ("gpt-image-1", "dall-e-3", "bundled"):
    made = client.images.generate(
        model=model,
        prompt="a red circle",
        n=2,
        output_format="png",
        size="1536x1024",
    )
    assert [png_size(item.b64_json) for item in made.data] == [(1536, 1024)] * 2
    assert made.data[0].b64_json != made.data[1].b64_json

with open(picture, "rb") as file:
    edited = client.images.edit(
        model="gpt-image-1", image=file, prompt="make the circle blue", output_format="png"
    )
assert png_size(edited.data[0].b64_json) == (96, 96)

with open(picture, "rb") as reference:
    video = client.videos.create(
        model="sora-2",
        prompt="a red circle moves right",
        size="64x64",
        input_reference=reference,
        extra_body={"num_frames": "5", "num_inference_steps": "2"},
    )
made_id = video.id
while video.status in ("queued", "in_progress"):
    time.sleep(0.1)
    video = client.videos.retrieve(made_id)
assert video.status == "completed", video
assert made_id in [entry.id for entry in client.videos.list()]
assert client.videos.download_content(made_id, variant="video").read()[4:8] == b"ftyp"
assert client.videos.delete(made_id).deleted

try:
    client.videos.retrieve(made_id)
    raise SystemExit("a deleted video was found")
except openai.NotFoundError:
    pass
try:
    client.images.generate(model="bundled", prompt="a", n=11)
    raise SystemExit("n=11 was accepted")
except openai.BadRequestError as error:
    assert error.param == "n", error
print("done")
