"""Rules of imports, read from the source: every module stands in a room, and imports point to rooms above it."""

import ast
import re
from fnmatch import fnmatch
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TypeGuard

import note_rl
import tuner

ROOTS = [Path(package.__file__ or "").parent for package in (note_rl, tuner)]
FILES = {path.relative_to(root.parent).as_posix(): path for root in ROOTS for path in sorted(root.rglob("*.py"))}

# Rooms from the ground up; a module imports only from rooms that stand before its own, or from its own.
ROOMS = {
    "note_rl": (
        *("types", "errors", "seeding", "support"),
        *(
            "policy",
            "settings",
            "environments",
            "tree_search",
            "learners",
            "replay",
            "adaptive",
            "collect",
            "optimizers",
        ),
        *("distributed", "training", "rl", "rl_pytorch", "agents", "examples"),
    ),
    "tuner": (
        *("errors", "support", "features"),
        *("trial", "config", "results", "checking", "trackers", "runs", "reporting", "executors", "study", "finders"),
        *("sweeper", "doctor", "commands", "cli", "extending", "testing", "__main__"),
    ),
}
# Only the list of features stands in the room of that name. What a feature adds to a room stands in the module of the
# room's name in its package, and belongs to that room; other modules of it belong to the highest room they import from.
FEATURES = "tuner.features."
# One line each, for paths that the manuals, README or conf/ name: what they hand on, and nobody inside uses them.
DOORS = {
    "note_rl.noise": "note_rl.policy.noise",
    "note_rl.schedules": "note_rl.settings.schedules",
    "note_rl.nn": "note_rl",
    "tuner.simulator": "tuner.runs.simulator",
    "tuner.study.samplers": "tuner.study.sampling.sampler_factory",
    "note_rl.lr_finder": "tuner.finders",
    "note_rl.opt_finder": "tuner.finders",
    "note_rl.parallel_finder": "tuner.finders",
    "note_rl.agents.pytorch.dueling_dqn": "note_rl.agents.dueling_dqn.torch",
    "note_rl.agents.keras.dueling_dqn": "note_rl.agents.dueling_dqn.keras",
    **{
        f"note_rl.agents.{package}.{module}": f"note_rl.agents.shared.{framework}.{module}"
        for package, framework in (("pytorch", "torch"), ("keras", "keras"))
        for module in ("choices", "distributions", "encoded", "layered", "networks", "recurrent")
    },
}
# What Hydra discovers: every Hydra application imports it, so it imports from `tuner` only inside its functions.
PLUGIN = "tuner/sweeper/plugin/hydra_plugins/tuner_sweeper.py"

# Third parties with a home: nobody else imports them. Beginnings of paths, in which a * stands for anything.
HOMES = {
    "ale_py": ("note_rl/environments/atari.py", "note_rl/environments/atari_vector.py"),
    "cv2": ("note_rl/environments/atari.py",),
    "minatar": ("note_rl/environments/minatar.py",),
    "optuna": (
        "tuner/study/",
        "tuner/features/*/runner.py",
        "tuner/features/*/range_search.py",
        "tuner/features/*/ranges.py",
        "tuner/features/*/pairs.py",
        "tuner/features/*/parameter_places.py",
        "tuner/features/*/allocation_registry.py",
        "tuner/features/*/study.py",
        "tuner/features/*/front_judge.py",
        "tuner/features/population/",
        "tuner/features/artifacts/study_files.py",
        "tuner/sweeper/custom_search_space.py",
        "tuner/sweeper/sweep_plan.py",
        "tuner/features/imports/foreign_",
        "tuner/features/imports/study_copy.py",
        "tuner/testing/sampler_contract.py",
    ),
    "sqlalchemy": ("tuner/study/",),
    "optuna_dashboard": ("tuner/commands/dashboard.py", "tuner/study/watching/notes.py"),
    "tensorboard": ("tuner/trackers/tensorboard.py", "tuner/runs/command/event_files.py"),
    "wandb": ("tuner/trackers/wandb/",),
    "wandb_workspaces": ("tuner/trackers/wandb/wandb_report.py",),
    "plotly": ("tuner/reporting/",),
    "pandas": ("tuner/commands/study_result.py",),
    "hydra": (
        "tuner/cli.py",
        "tuner/config/",
        "tuner/checking/",
        "tuner/runs/build.py",
        "tuner/commands/",
        "tuner/sweeper/",
        "tuner/features/environments/typed.py",
    ),
    "omegaconf": (
        *("tuner/cli.py", "tuner/config/", "tuner/checking/", "tuner/runs/build.py", "tuner/runs/config_checks.py"),
        *("tuner/commands/", "tuner/sweeper/", "tuner/features/ablation/ablate.py"),
        *("tuner/features/environments/joint_study.py", "tuner/features/benchmark/bench.py"),
        *("tuner/features/benchmark/two_settings.py", "tuner/features/imports/import_command.py"),
        *("tuner/features/budgets/", "tuner/features/sharing/push.py", "tuner/features/sharing/pull.py"),
        "tuner/features/artifacts/winner_artifacts.py",
    ),
    "onnx": ("note_rl/learners/",),
    "onnxruntime": ("note_rl/learners/onnx_files.py",),
    "ray": ("tuner/executors/ray/",),
    "submitit": ("tuner/executors/submitit/",),
    "mlflow": ("tuner/trackers/mlflow.py",),
    "minari": ("note_rl/collect/datasets.py",),
    "torch": (
        "note_rl/rl_pytorch.py",
        "note_rl/learners/pytorch/",
        "note_rl/distributed/torch_group.py",
        "note_rl/optimizers/pytorch.py",
        "note_rl/agents/*/torch.py",
        "note_rl/agents/shared/torch/",
        "tuner/features/sb3/",
    ),
    **dict.fromkeys(("stable_baselines3", "sb3_contrib", "sbx", "jax", "flax"), ("tuner/features/sb3/",)),
    **dict.fromkeys(
        ("tensorflow", "keras"),
        (
            *("note_rl/rl.py", "note_rl/learners/keras/", "note_rl/distributed/keras/", "note_rl/optimizers/keras.py"),
            *("note_rl/agents/*/keras.py", "note_rl/agents/shared/keras/"),
        ),
    ),
}

# Private names of a library stand in one file, which says of each why there is no public way, and has a test for each.
INTERNALS = {
    "hydra": "tuner/config/hydra_internals.py",
    "optuna": "tuner/study/optuna_internals.py",
    "wandb": "tuner/trackers/wandb/wandb_internals.py",
    "torch": "note_rl/learners/pytorch/torch_internals.py",
    "keras": "note_rl/learners/keras/keras_internals.py",
    "tensorflow": "note_rl/learners/keras/tensorflow_internals.py",
}
PRIVATE_MODULES = ("keras.src", "tensorflow.python", "torch.fx.experimental", "wandb.sdk", "wandb.analytics")
"""Without an underscore, and yet no part of an interface."""

OWN_PRIVATE = frozenset(
    {"_learner", "_score", "_record"}  # tuner
    | {"_begin", "_bookkeeping", "_follow", "_needs_bounds", "_ready_trainer", "_reports", "_restored", "_settings"}
    | {"_snapshot", "_trainer", "_values"}
)
"""Attributes of our own classes that other classes of ours use; everything else behind a dot is somebody else's."""

DOCUMENTED = frozenset({"os._exit", "_replace", "_asdict", "_fields", "_value_"})
"""Names with an underscore that are part of an interface: the standard library's."""


@cache
def tree_of(path: Path) -> ast.Module:
    """Syntax tree of a file."""
    return ast.parse(path.read_text())


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All that a file holds but marks of reading and writing; to walk through it takes longer than to read it."""
    return tuple(node for node in ast.walk(tree_of(path)) if not isinstance(node, ast.expr_context))


@cache
def imports_of(path: Path, *, with_typing: bool = False) -> frozenset[str]:
    """The modules that a file imports, anywhere in it; those for type checkers only are left out, if not asked for."""
    nodes = nodes_of(path)
    typing_only = {
        inner
        for node in nodes
        if isinstance(node, ast.If) and is_name(node.test, "TYPE_CHECKING")
        for inner in ast.walk(node)
    }
    found: set[str] = set()
    for node in nodes:
        if node in typing_only and not with_typing:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def is_name(node: ast.expr, *names: str) -> bool:
    """Whether an expression is one of these names; its text takes longer."""
    return isinstance(node, ast.Name) and node.id in names


def module_of(name: str) -> str:
    """The dotted name of a file."""
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def room_of(module: str) -> str:
    """The part behind the package; of a module of a feature, see `FEATURES`."""
    if not is_of_a_feature(module):
        return module.split(".")[1]
    name, order = module.split(".")[-1], ROOMS["tuner"]
    below = {room_of(other) for other in imports_of(MODULES[module]) if other.startswith("tuner.")}
    return name if name in order else max(below & {*order}, key=order.index, default=order[0])


def is_of_a_feature(module: str) -> bool:
    """Whether it is in the package of one."""
    return module.startswith(FEATURES) and module in MODULES


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


def test_a_feature_is_imported_by_itself_only() -> None:
    wrong = [
        f"{module} imports {other}"
        for module in INNER
        for other in imports_of(MODULES[module])
        if is_of_a_feature(other) and other.split(".")[:3] != module.split(".")[:3]
    ]
    assert not wrong, "give general code a hook, see `To add a feature of a study` in CONTRIBUTING.md"


def test_modules_import_each_other_in_no_circle() -> None:
    """Not for type checkers either."""
    graph = {
        module: imports_of(path, with_typing=True) & MODULES.keys() - {module}
        for module, path in MODULES.items()
        if module in INNER
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
        if not any(fnmatch(name, f"{home}*") for home in HOMES.get(module.partition(".")[0], ("",)))
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
    """But for what is written once for each framework, and the parts of agents in one of them."""
    homes: dict[str, set[str]] = {}
    for name, path in FILES.items():
        of_either = re.sub(r"/(keras|pytorch|torch)\b", "/*", name)
        if name.startswith("note_rl/examples/") or (name.startswith("note_rl/agents/") and name != of_either):
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, set()).add(of_either)
    assert {name: sorted(files) for name, files in homes.items() if len(files) > 1} == {}


def is_private(name: str) -> bool:
    """Whether a name has one underscore in front."""
    return name.startswith("_") and not name.startswith("__")


def is_private_module(module: str) -> bool:
    """Whether a module, or a name in it, is no part of a third party's interface."""
    package, *parts = module.split(".")
    return package not in (*ROOMS, "__future__") and (
        any(map(is_private, parts)) or any(f"{module}.".startswith(f"{name}.") for name in PRIVATE_MODULES)
    )


@cache
def own_names() -> frozenset[str]:
    """Names that our own classes and functions define, or set on `self`."""
    found: set[str] = set()
    for path in FILES.values():
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and of_self(node):
                found.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
    return frozenset(found)


def of_self(node: ast.Attribute) -> bool:
    """Whether an attribute is one of `self` or `cls`, or of what these inherit from."""
    value = node.value
    return is_name(value, "self", "cls") or (isinstance(value, ast.Call) and ast.unparse(value) == "super()")


def names_a_module(value: object) -> TypeGuard[str]:
    """Whether a text is a path that begins with a third party that has a home."""
    return isinstance(value, str) and value.partition(".")[0] in HOMES and all(map(str.isidentifier, value.split(".")))


def private_names(path: Path) -> set[str]:
    """The private names of third parties in a file: modules, attributes, and those given to `getattr` as a text."""
    found = set(filter(is_private_module, imports_of(path)))
    for node in nodes_of(path):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            known = own_names() if of_self(node) else OWN_PRIVATE
            if not {node.attr, ast.unparse(node)} & (known | DOCUMENTED):
                found.add(ast.unparse(node))
        elif isinstance(node, ast.Call) and is_name(node.func, "getattr", "setattr", "hasattr", "delattr"):
            name = ast.literal_eval(node.args[1]) if isinstance(node.args[1], ast.Constant) else ""
            if is_private(name) and ast.unparse(node.args[0]) not in ("self", "cls") and name not in OWN_PRIVATE:
                found.add(f"{ast.unparse(node.args[0])}.{name}")
        elif isinstance(node, ast.Constant) and names_a_module(node.value) and is_private_module(node.value):
            found.add(node.value)
    return found


def test_private_names_of_third_parties_stand_in_one_file() -> None:
    found = {name: private_names(path) for name, path in FILES.items() if name not in INTERNALS.values()}
    wrong = {name: sorted(names) for name, names in found.items() if names}
    assert wrong == {}, "move them to the library's file in INTERNALS, or use a public way"


def test_a_file_of_private_names_is_about_one_library() -> None:
    for library, name in INTERNALS.items():
        foreign = {module for module in imports_of(FILES[name]) if is_private_module(module)}
        assert foreign
        assert {module.partition(".")[0] for module in foreign} == {library}


def test_a_private_name_is_seen_however_it_is_written(tmp_path: Path) -> None:
    lines = {
        "import optuna.samplers._tpe": "optuna.samplers._tpe",
        "from keras.src.layers import Layer": "keras.src.layers",
        "import wandb.sdk": "wandb.sdk",
        "from hydra import _internal": "hydra._internal",
        "study._storage": "study._storage",
        "self.study._storage": "self.study._storage",
        "self._no_name_of_ours": "self._no_name_of_ours",
        "setattr(study, '_stop_flag', 1)": "study._stop_flag",
        "launcher = 'hydra._internal.x'": "hydra._internal.x",
        "preload = ('torch', 'torch._dynamo')": "torch._dynamo",
        "logger = 'tensorflow.python.x'": "tensorflow.python.x",
    }
    for line, name in lines.items():
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.py"  # what a file holds is read once
        path.write_text(f"{line}\n")
        assert name in private_names(path), line
    path = tmp_path / "public.py"
    path.write_text("import os\nos._exit(0)\nself._storage\nagent._learner\nself.__dict__\nimport tuner._x\n")
    assert private_names(path) == set()
