"""Agents and networks under the paths that manuals and configurations name."""

import importlib

import pytest

from tests.note_rl.frameworks import frameworks

SHARED = {
    "networks": ["MLP", "CNN", "soft_update"],
    "layered": ["layered_network"],
    "encoded": ["encoded_network"],
    "choices": ["where_allowed"],
    "distributions": ["Categorical"],
}


@pytest.mark.parametrize("framework", frameworks())
def test_paths_of_configurations_lead_to_what_stands_in_the_folders(framework):
    package, module = f"note_rl.agents.{framework.package}", {"pytorch": "torch", "keras": "keras"}[framework.package]
    for name in framework.agents.__all__:
        kind = getattr(framework.agents, name)
        assert kind.__module__.startswith("note_rl.agents.")
        assert kind.__module__.endswith(f".{module}")
    for door, names in SHARED.items():
        home = importlib.import_module(f"note_rl.agents.shared.{module}.{door}")
        for name in names:
            assert getattr(importlib.import_module(f"{package}.{door}"), name) is getattr(home, name)
