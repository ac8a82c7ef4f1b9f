"""Agents and networks under the paths that manuals and configurations name."""

import importlib

import pytest

from tests.note_rl.frameworks import frameworks

SHARED = {
    "shared/networks": ["MLP", "CNN", "soft_update"],
    "shared/layered": ["layered_network"],
    "shared/encoded": ["encoded_network"],
    "shared/choices": ["where_allowed"],
    "shared/distributions": ["Categorical"],
    "dueling_dqn": ["dueling"],
}


@pytest.mark.parametrize("framework", frameworks())
def test_paths_of_configurations_lead_to_what_stands_in_the_folders(framework):
    for name in framework.agents.__all__:
        kind = getattr(framework.agents, name)
        assert kind is getattr(importlib.import_module(kind.__module__), name)
        assert kind.__module__.rpartition(".")[2] == {"pytorch": "torch", "keras": "keras"}[framework.package]
    for door, names in SHARED.items():
        handing_on = importlib.import_module(f"note_rl.agents.{framework.package}.{door.rpartition('/')[2]}")
        for name in names:
            assert getattr(handing_on, name) is getattr(framework.module(door), name)
