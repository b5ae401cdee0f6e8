"""LiteLLM, which stands before many servers."""

import base64

import litellm
from picture import picture, url

connection = {"api_base": f"{url}/v1", "api_key": "unused", "num_retries": 0}

for model in ("openai/gpt-image-1", "openai/bundled", "openai/dall-e-3"):
    made = litellm.image_generation(
        model=model, prompt="a red circle", n=2, size="1024x1024", **connection
    )
    files = [item["b64_json"] for item in made.data]
    for file in files:
        assert base64.b64decode(file)[:2] == b"\xff\xd8", made
    assert files[0] != files[1]

with open(picture, "rb") as image:
    edited = litellm.image_edit(
        model="openai/gpt-image-1",
        image=[image],
        prompt="make the circle blue",
        **connection,
    )
assert base64.b64decode(edited.data[0].b64_json)[:2] == b"\xff\xd8", edited
print("done")
