"""A plugin of pytest: OpenAI's tests send a picture where they would send a text in its place."""

import functools
import io

from openai.resources.images import Images
from openai.resources.videos import Videos
from PIL import Image

PLACEHOLDER = b"Example data"


def picture():
    file = io.BytesIO()
    Image.new("RGB", (96, 96), (220, 40, 40)).save(file, "PNG")
    return file.getvalue()


def sending_pictures(method):
    @functools.wraps(method)
    def send(*args, **fields):
        return method(*args, **{name: picture() if value == PLACEHOLDER else value for name, value in fields.items()})

    return send


for resource, names in ((Images, ("create_variation", "edit", "generate")), (Videos, ("create",))):
    for name in names:
        setattr(resource, name, sending_pictures(getattr(resource, name)))
