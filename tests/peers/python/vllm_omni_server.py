"""A plugin of pytest: vLLM-Omni's tests find the server that runs where they would start one of theirs."""

import os
import sys
from types import ModuleType, SimpleNamespace
from urllib.parse import urlparse

import pytest

URL = urlparse(os.environ["PEER_URL"])


class OmniServer(SimpleNamespace):
    def __init__(self, *_):
        super().__init__(host=URL.hostname, port=URL.port, model="bundled")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture
def omni_server(request):
    return OmniServer()


def anywhere(*_, **__):
    return lambda test: test


runtime = ModuleType("tests.helpers.runtime")
runtime.OmniServer = OmniServer
runtime.OmniServerParams = lambda **fields: SimpleNamespace(**fields)
mark = ModuleType("tests.helpers.mark")
mark.hardware_test = mark.hardware_marks = anywhere
for module in (runtime, mark):
    sys.modules[module.__name__] = module
