"""Who may import whom, read from the source."""

import ast
from functools import cache
from pathlib import Path

import pytest

import note_rl
import tuner

ROOTS = [Path(package.__file__ or "").parent for package in (note_rl, tuner)]
FILES = {path.relative_to(root.parent).as_posix(): path for root in ROOTS for path in sorted(root.rglob("*.py"))}

# Third parties with a home: nobody else imports them.
HOMES = {
    "optuna": ("tuner/space.py", "tuner/study/"),
    "sqlalchemy": ("tuner/study/",),
    "optuna_dashboard": ("tuner/commands/dashboard.py", "tuner/study/notes.py"),
    "wandb": ("tuner/trackers/wandb.py", "tuner/trackers/wandb_sdk.py"),
    "wandb_workspaces": ("tuner/trackers/wandb_report.py",),
    "plotly": ("tuner/reporting/",),
    "pandas": ("tuner/loaded.py",),
    "hydra": (
        *("tuner/cli.py", "tuner/config.py", "tuner/build.py", "tuner/preflight.py", "tuner/overrides.py"),
        "tuner/explaining.py",
        *("tuner/commands/", "tuner/sweeper/", "tuner/plugins/"),
    ),
    "omegaconf": (
        *("tuner/cli.py", "tuner/config.py", "tuner/build.py", "tuner/preflight.py", "tuner/checks.py"),
        "tuner/explaining.py",
        *("tuner/commands/", "tuner/sweeper/", "tuner/plugins/"),
    ),
    "torch": (
        "note_rl/rl_pytorch.py",
        "note_rl/learners/pytorch.py",
        "note_rl/learners/pytorch_adjusted.py",
        "note_rl/learners/pytorch_arithmetic.py",
        "note_rl/learners/pytorch_compiled.py",
        "note_rl/learners/pytorch_evaluated.py",
        "note_rl/learners/pytorch_graph.py",
        "note_rl/learners/pytorch_kept.py",
        "note_rl/learners/pytorch_modes.py",
        "note_rl/learners/pytorch_steps.py",
        "note_rl/learners/pytorch_tensors.py",
        "note_rl/learners/pytorch_traced.py",
        "note_rl/learners/pytorch_watched.py",
        "note_rl/optimizers/pytorch.py",
        "note_rl/agents/pytorch/",
    ),
    "tensorflow": (
        "note_rl/rl.py",
        "note_rl/learners/keras.py",
        "note_rl/learners/keras_kept.py",
        "note_rl/learners/keras_methods.py",
        "note_rl/learners/keras_modes.py",
        "note_rl/learners/keras_noise.py",
        "note_rl/learners/keras_step.py",
        "note_rl/learners/keras_variables.py",
        "note_rl/learners/keras_xla.py",
        "note_rl/optimizers/keras.py",
        "note_rl/agents/keras/",
    ),
    "keras": (
        "note_rl/rl.py",
        "note_rl/learners/keras.py",
        "note_rl/learners/keras_adjusted.py",
        "note_rl/learners/keras_kept.py",
        "note_rl/learners/keras_modes.py",
        "note_rl/learners/keras_noise.py",
        "note_rl/learners/keras_step.py",
        "note_rl/learners/keras_variables.py",
        "note_rl/learners/keras_xla.py",
        "note_rl/optimizers/keras.py",
        "note_rl/agents/keras/",
    ),
    "ray": ("tuner/executors/ray.py",),
}
# From the bottom up; a module imports only from lines below its own, or from its own package.
NOTE_RL_LAYERS = (
    ("errors", "types", "telling"),
    ("checking",),
    ("frames", "goals", "noise", "replay.options"),
    ("returns", "policy", "schedules", "seeding", "callbacks", "checkpoint", "normalise", "adaptive"),
    (
        "contract",
        "environments",
        "settings",
        "replay",
        "learners.adjustable",
        "learners.base",
        "learners.checks",
        "learners.keras_xla",
        "learners.mirror",
        "learners.priorities",
        "learners.targets",
    ),
    (
        *("evaluation", "experience", "progress", "multi_agent", "normal_inputs", "train_options", "set_arguments"),
        *("acting", "film", "plotting", "saving", "scheduled", "rebuilding"),
        "target_updates",
    ),
    ("collect", "knobs", "measuring"),
    ("adapters",),
    ("adapting",),
    (
        *("trainer", "learners.keras", "learners.keras_kept", "learners.keras_modes", "optimizers"),
        *("learners.pytorch", "learners.pytorch_arithmetic", "learners.pytorch_kept", "learners.pytorch_modes"),
        "learners.pytorch_steps",
    ),
    ("counts",),
    ("persistence", "adjusting", "frozen"),
    ("agent", "pickling"),
    ("rl", "rl_pytorch"),
    ("agents",),
    ("examples",),
)
TUNER_LAYERS = (
    ("errors", "interrupts", "names", "passwords", "plain_text", "quiet"),
    ("files", "sources"),
    ("trial", "signatures", "kinds"),
    ("console",),
    ("records", "config", "trust"),
    ("config_folders", "explaining", "section_types"),
    ("wording", "schema"),
    ("sections",),
    ("executors", "trackers", "player"),
    ("doctor",),
    ("commands",),
    ("cli", "loaded"),
    ("entry",),
    ("__main__",),
)


@cache
def imports_of(path: Path) -> frozenset[str]:
    """The modules that a file imports, anywhere in it; those for type checkers only are left out."""
    tree = ast.parse(path.read_text())
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def layer_of(module: str, layers: tuple[tuple[str, ...], ...]) -> int | None:
    """The line a module stands on, by its longest listed prefix."""
    inner = module.partition(".")[2]
    matches = [(len(name), index) for index, line in enumerate(layers) for name in line if _within(inner, name)]
    return max(matches)[1] if matches else None


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


@pytest.mark.parametrize("name", FILES)
def test_third_parties_stay_in_their_homes(name: str) -> None:
    for module in imports_of(FILES[name]):
        homes = HOMES.get(module.partition(".")[0])
        assert homes is None or name.startswith(homes), f"{name} imports {module}"


DOORS = {f"note_rl/{door}_finder.py" for door in ("lr", "opt", "parallel")}
"""The manuals' import paths of the finders: each imports `tuner.finders` and nothing else, and nobody imports them."""


def test_the_doors_of_the_finders_are_doors_only() -> None:
    assert FILES.keys() >= DOORS
    for name in DOORS:
        assert {module for module in imports_of(FILES[name]) if module.count(".") < 2} == {"tuner.finders"}
    doors = {name.removesuffix(".py").replace("/", ".") for name in DOORS}
    assert not [name for name, path in FILES.items() if imports_of(path) & doors]


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("note_rl/") and name not in DOORS])
def test_note_rl_knows_nobody(name: str) -> None:
    known = {module.partition(".")[0] for module in imports_of(FILES[name])}
    assert not known & {"tuner", "hydra", "omegaconf", "optuna", "wandb", "rich", "psutil", "yaml"}


@pytest.mark.parametrize("name", FILES)
def test_imports_point_downwards(name: str) -> None:
    package = name.partition("/")[0]
    layers = NOTE_RL_LAYERS if package == "note_rl" else TUNER_LAYERS
    own_module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    own = layer_of(own_module, layers)
    if own is None:
        return
    own_part = own_module.split(".")[:2]
    for module in imports_of(FILES[name]):
        other = layer_of(module, layers) if module.startswith(f"{package}.") else None
        assert other is None or other < own or module.split(".")[:2] == own_part, f"{own_module} imports {module}"
