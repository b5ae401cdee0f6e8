"""LangChain's tool for pictures, which asks for no format and reads the link."""

import urllib.request

from langchain_community.utilities.dalle_image_generator import DallEAPIWrapper
from picture import url

wrapper = DallEAPIWrapper(
    model="dall-e-3", n=2, quality="standard", api_key="unused", base_url=f"{url}/v1"
)
links = wrapper.run("a red circle").split("\n")
assert len(links) == 2, links
for link in links:
    with urllib.request.urlopen(link) as answer:
        assert answer.headers["content-type"] == "image/jpeg", answer.headers
print("done")
