"""Talks to a denoise server with the official client, as it is. Arguments: the server's address, a picture."""

import base64
import struct
import sys
import time

import openai

url, picture = sys.argv[1:]
client = openai.OpenAI(api_key="sk-test", base_url=f"{url}/v1", max_retries=0)
model = "org/gradients"


def size_of(png):
    assert png[:8] == b"\x89PNG\r\n\x1a\n", png[:8]
    return struct.unpack(">II", png[16:24])


assert [entry.id for entry in client.models.list()] == [model]
assert client.models.retrieve(model).owned_by == "denoise"

made = client.images.generate(
    model=model,
    prompt="a red circle",
    n=2,
    response_format="b64_json",
    output_format="png",
    extra_body={"size": "96x64", "num_inference_steps": 2},
)
assert [size_of(base64.b64decode(item.b64_json)) for item in made.data] == [(96, 64)] * 2

with open(picture, "rb") as first, open(picture, "rb") as second:
    edited = client.images.edit(
        model=model, image=[first, second], prompt="make it blue", output_format="png"
    )
assert size_of(base64.b64decode(edited.data[0].b64_json)) == (64, 48)

with open(picture, "rb") as reference:
    video = client.videos.create(
        model=model, prompt="a red circle rolls", input_reference=reference
    )
made_id = video.id
while video.status not in ("completed", "failed"):
    time.sleep(0.05)
    video = client.videos.retrieve(made_id)
assert video.status == "completed", video
assert [entry.id for entry in client.videos.list()] == [made_id]
assert client.videos.download_content(made_id).read()[4:8] == b"ftyp"
assert client.videos.delete(made_id).id == made_id

try:
    client.videos.retrieve(made_id)
    raise SystemExit("a deleted video was found")
except openai.NotFoundError:
    pass
try:
    client.images.generate(model=model, prompt="a", n=11)
    raise SystemExit("n=11 was accepted")
except openai.BadRequestError as error:
    assert error.param == "n", error
print("done")
