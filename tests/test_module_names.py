"""A module's name says what it holds, and stands once: an editor's search for a file finds the file."""

from collections import defaultdict
from fnmatch import fnmatch

from tests.tuner.test_layering import DOORS, FILES, ROOMS

# Each says the same thing of every place where it stands.
REPEATED = {
    "base": "what a room asks of its members",
    "doctor": "a command that also runs without the command line's modules",
    "features": "what a feature adds to a room",
    "runner": "has a study, or the runs behind one, done",
}
# The manuals' names, and the files that each algorithm has.
GIVEN = ("note_rl/examples/*", "note_rl/agents/*/torch.py", "note_rl/agents/*/keras.py")
# Two frameworks, the same parts.
FRAMEWORKS = (("/pytorch/", "/keras/"), ("/torch/", "/keras/"))
# What a feature adds to a room stands in a module of the room's name, and the room says in `features` what that may be.
FEATURES = "tuner/features/"


def place(path: str) -> str:
    """Where a module stands, of two frameworks or of all features the same place."""
    for framework, other in FRAMEWORKS:
        path = path.replace(framework, other)
    feature = path.removeprefix(FEATURES).partition("/")[0]
    return path.replace(f"{FEATURES}{feature}/", FEATURES)


def places() -> dict[str, set[str]]:
    """Where modules of each name stand."""
    found = defaultdict(set)
    for path in FILES:
        module = path.removesuffix(".py").replace("/", ".")
        name = module.rpartition(".")[2]
        if name == "__init__" or module in DOORS or any(fnmatch(path, pattern) for pattern in GIVEN):
            continue
        if not (path.startswith(FEATURES) and name in ROOMS["tuner"]):
            found[name].add(place(path))
    return found


def test_few_names_stand_twice() -> None:
    repeated = {name: sorted(where) for name, where in places().items() if len(where) > 1}
    assert repeated.keys() <= REPEATED.keys(), {name: repeated[name] for name in repeated.keys() - REPEATED.keys()}
    assert repeated.keys() == REPEATED.keys(), "a name that stands once is no exception"
