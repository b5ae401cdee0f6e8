"""Haystack's generator of pictures."""

import base64

from haystack.components.generators import OpenAIImageGenerator
from haystack.utils import Secret
from picture import url

for model, quality in (("gpt-image-2", "auto"), ("bundled", "medium")):
    generator = OpenAIImageGenerator(
        model=model,
        quality=quality,
        api_key=Secret.from_token("unused"),
        api_base_url=f"{url}/v1",
        max_retries=0,
    )
    result = generator.run("a red circle")
    assert base64.b64decode(result["images"][0])[:2] == b"\xff\xd8", result
    assert result["revised_prompt"] == "a red circle", result
print("done")
