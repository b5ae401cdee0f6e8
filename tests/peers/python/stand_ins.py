"""Modules that answer everything, in place of those that a suite imports and its requests do not need."""

import importlib.abc
import importlib.machinery
import sys
import types
from unittest.mock import MagicMock


class StandIn(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = MagicMock(name=f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, is_wanted):
        self.is_wanted = is_wanted

    def find_spec(self, name, path=None, target=None):
        if self.is_wanted(name):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


def stand_in_for(packages, real, roots):
    """Replaces `packages` but for the modules under `real`; `roots` are folders of packages that run no code of theirs."""
    for name, folder in roots.items():
        module = types.ModuleType(name)
        module.__path__ = [folder]
        sys.modules[name] = module
    sys.meta_path.insert(
        0,
        Finder(
            lambda name: name.split(".")[0] in packages
            and name not in roots
            and not any(name == each or name.startswith(f"{each}.") for each in real)
        ),
    )
