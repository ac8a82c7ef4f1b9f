"""Who may import whom, read from the source: every module stands in a room, and imports point to rooms above it."""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import note_rl
import tuner

ROOTS = [Path(package.__file__ or "").parent for package in (note_rl, tuner)]
FILES = {path.relative_to(root.parent).as_posix(): path for root in ROOTS for path in sorted(root.rglob("*.py"))}

# Rooms from the ground up; a module imports only from rooms that stand before its own, or from its own.
ROOMS = {
    "note_rl": (
        *("types", "errors", "seeding", "support"),
        *("policy", "settings", "environments", "learners", "replay", "adaptive", "collect", "optimizers", "training"),
        *("rl", "rl_pytorch", "agents", "examples"),
    ),
    "tuner": (
        *("errors", "support"),
        *("trial", "config", "results", "checking", "trackers", "runs", "reporting", "executors", "study", "finders"),
        *("sweeper", "doctor", "commands", "cli", "__main__"),
    ),
}
# One line each, for paths that the manuals, README or conf/ name: what they hand on, and nobody inside uses them.
DOORS = {
    "note_rl.noise": "note_rl.policy.noise",
    "note_rl.schedules": "note_rl.settings.schedules",
    "note_rl.nn": "note_rl",
    "tuner.simulator": "tuner.runs.simulator",
    "tuner.study.samplers": "tuner.study.sampling.samplers",
    "note_rl.lr_finder": "tuner.finders",
    "note_rl.opt_finder": "tuner.finders",
    "note_rl.parallel_finder": "tuner.finders",
}
# What Hydra discovers: every Hydra application imports it, so it imports from `tuner` only inside its functions.
PLUGIN = "tuner/sweeper/plugin/hydra_plugins/tuner_sweeper.py"

# Third parties with a home: nobody else imports them.
HOMES = {
    "ale_py": ("note_rl/environments/atari.py", "note_rl/environments/atari_vector.py"),
    "cv2": ("note_rl/environments/atari.py",),
    "minatar": ("note_rl/environments/minatar.py",),
    "optuna": ("tuner/study/",),
    "sqlalchemy": ("tuner/study/",),
    "optuna_dashboard": ("tuner/commands/dashboard.py", "tuner/study/watching/notes.py"),
    "tensorboard": ("tuner/trackers/tensorboard.py",),
    "wandb": ("tuner/trackers/wandb/",),
    "wandb_workspaces": ("tuner/trackers/wandb/report.py",),
    "plotly": ("tuner/reporting/",),
    "pandas": ("tuner/commands/study_result.py",),
    "hydra": (
        "tuner/cli.py",
        "tuner/config/",
        "tuner/checking/",
        "tuner/runs/build.py",
        "tuner/commands/",
        "tuner/sweeper/",
    ),
    "omegaconf": (
        *("tuner/cli.py", "tuner/config/", "tuner/checking/", "tuner/runs/build.py", "tuner/runs/checks.py"),
        *("tuner/commands/", "tuner/sweeper/"),
    ),
    "onnx": ("note_rl/learners/",),
    "onnxruntime": ("note_rl/learners/onnx_files.py",),
    "ray": ("tuner/executors/ray/",),
    "minari": ("note_rl/collect/datasets.py",),
    "torch": (
        "note_rl/rl_pytorch.py",
        "note_rl/learners/pytorch/",
        "note_rl/optimizers/pytorch.py",
        "note_rl/agents/pytorch/",
    ),
    "tensorflow": ("note_rl/rl.py", "note_rl/learners/keras/", "note_rl/optimizers/keras.py", "note_rl/agents/keras/"),
    "keras": ("note_rl/rl.py", "note_rl/learners/keras/", "note_rl/optimizers/keras.py", "note_rl/agents/keras/"),
}


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


def module_of(name: str) -> str:
    """The dotted name of a file."""
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def room_of(module: str) -> str:
    """The part behind the package."""
    return module.split(".")[1]


MODULES = {module_of(name): path for name, path in FILES.items() if name != PLUGIN}
INNER = [module for module in MODULES if module not in (*ROOMS, *DOORS, "tuner.sweeper.plugin.hydra_plugins")]


def test_every_module_stands_in_a_room() -> None:
    strangers = [module for module in INNER if room_of(module) not in ROOMS[module.partition(".")[0]]]
    assert not strangers, "give them a room, or a line among the rooms or doors above"


def test_every_room_is_there() -> None:
    assert {f"{package}.{room}" for package, rooms in ROOMS.items() for room in rooms} <= MODULES.keys()


def test_imports_point_to_rooms_above() -> None:
    wrong = []
    for module in INNER:
        package = module.partition(".")[0]
        order = ROOMS[package]
        for other in imports_of(MODULES[module]):
            if not other.startswith(f"{package}.") or other in DOORS:
                continue
            if room_of(other) in order and order.index(room_of(other)) > order.index(room_of(module)):
                wrong.append(f"{module} imports {other}")
    assert not wrong


def test_modules_import_each_other_in_no_circle() -> None:
    graph = {
        module: imports_of(path) & MODULES.keys() - {module} for module, path in MODULES.items() if module in INNER
    }
    faces = {module for module in MODULES if MODULES[module].name == "__init__.py"}  # they hand on what stands below
    edges = {module: {other for other in others if other not in faces} for module, others in graph.items()}
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        raise AssertionError(f"a circle: {' -> '.join(error.args[1])}") from None


def test_doors_only_hand_on() -> None:
    for door, home in DOORS.items():
        if home == "note_rl":
            continue
        assert {other for other in imports_of(MODULES[door]) if other == home or not other.startswith(home)} == {home}
    users = [name for name, path in FILES.items() if imports_of(path) & DOORS.keys() and module_of(name) not in DOORS]
    assert not users


def test_third_parties_stay_in_their_homes() -> None:
    wrong = [
        f"{name} imports {module}"
        for name, path in FILES.items()
        for module in imports_of(path)
        if not name.startswith(HOMES.get(module.partition(".")[0], ("",)))
    ]
    assert not wrong


def test_note_rl_knows_nobody() -> None:
    nobody = {"tuner", "hydra", "omegaconf", "optuna", "wandb", "rich", "psutil", "yaml"}
    wrong = [
        f"{name} imports {sorted(known)}"
        for name, path in FILES.items()
        if name.startswith("note_rl/") and module_of(name) not in DOORS
        if (known := nobody & {module.partition(".")[0] for module in imports_of(path)})
    ]
    assert not wrong


def test_no_two_classes_share_a_name() -> None:
    """But for what is written once for each framework, and agents under the manuals' paths."""
    homes: dict[str, set[str]] = {}
    for name, path in FILES.items():
        if name.startswith(("note_rl/agents/", "note_rl/examples/")):
            continue
        of_either = name.replace("/keras/", "/*/").replace("/pytorch/", "/*/")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, set()).add(of_either)
    assert {name: sorted(files) for name, files in homes.items() if len(files) > 1} == {}
