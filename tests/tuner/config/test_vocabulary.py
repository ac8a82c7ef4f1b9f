"""Every refusal of the training core, in the words of Python and in those of the command line."""

import ast
import json
import logging
import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

import note_rl
from note_rl import settings
from note_rl.adaptive.signals.priority_ess import PriorityEss
from note_rl.distributed.limits import check_can_be_served, check_can_be_shared
from note_rl.errors import NoteRLError, SettingsError
from note_rl.errors.wording import Phrase, Sentence, SettingName, choice, out_of_range
from note_rl.learners.declarations import Declared, check_settings
from note_rl.policy import EpsGreedyQPolicy, GaussianPolicy, GreedyQPolicy, GSDEPolicy, SquashedGSDEPolicy
from note_rl.settings import (
    Adaptive,
    Budget,
    Demonstrations,
    Distributed,
    Hindsight,
    Plateau,
    Priority,
    RecordedSteps,
    ReplaySettings,
    RolloutPriority,
    RolloutSettings,
    SequenceSettings,
    Settings,
    Window,
    WorkerSettings,
)
from note_rl.settings.adaptive import Adapt, of_manual
from note_rl.settings.distributed import ClusterTask
from note_rl.settings.schedules import Exponential, Linear
from note_rl.settings.set_arguments import settings_from_set
from note_rl.settings.settings_table import arguments_of_set
from note_rl.settings.signals import register
from note_rl.settings.state_dependent_noise import GSDE, check_explores_alike, gsde
from note_rl.settings.switch_names import PR
from note_rl.training.train_options import TrainOptions
from tuner.commands.preflight import preflight
from tuner.config import vocabulary
from tuner.config.vocabulary import CommandLine, about_part, speaking_of_settings

CORE = Path(note_rl.__file__ or "").parent
CONF = CORE.parent / "conf"
REPLAY, ROLLOUTS, SEQUENCES = ReplaySettings(), RolloutSettings(), SequenceSettings()
STEPS = np.zeros(2)


def of(experience: Any = REPLAY, **more: Any) -> Settings:
    return Settings(**{"experience": experience, "policy": EpsGreedyQPolicy(0.1), **more})


def from_set(**arguments: Any) -> Settings:
    return settings_from_set(policy=GreedyQPolicy(), **arguments)


def adaptive(**parameters: Any) -> Adaptive:
    return Adaptive(parameters=parameters)


def recorded(ended: Any) -> RecordedSteps:
    return RecordedSteps(*[STEPS] * 4, STEPS == 0, ended)


def agent(**declared: Any) -> type[Declared]:
    return type("Own", (Declared,), {"__call__": lambda *arguments: None, **declared})


def one_that_updates_itself() -> type[Declared]:
    return agent(__call__=None, update=lambda *arguments: None)


FRAMES = ReplaySettings(frame_stack=4)
OFFLINE = ReplaySettings(offline=True, dataset="mine")
HINDSIGHT, TRIPLETS = ReplaySettings(hindsight=Hindsight()), ReplaySettings(trajectories=True)
SHARED: list[Callable[[], object]] = [
    # values
    lambda: ReplaySettings(capacity=0),
    lambda: RolloutSettings(target_kl=0),
    lambda: Window(clear_size=0, clearing_freq=1),
    lambda: Priority(initial_td=0),
    lambda: RolloutPriority(alpha=2),
    lambda: Hindsight(strategy="first"),  # type: ignore[arg-type]
    lambda: WorkerSettings(processes=0),
    lambda: WorkerSettings(processes=1, start_method="fork"),  # type: ignore[arg-type]
    lambda: Plateau(patience=0),
    lambda: of(max_grad_norm=0),
    lambda: GSDE(clip_mean=0),
    lambda: gsde("gsde", 3),
    lambda: check_explores_alike("A2C", True, True, GaussianPolicy()),
    lambda: check_explores_alike("A2C", True, False, GSDEPolicy()),
    lambda: check_explores_alike("A2C", True, True, SquashedGSDEPolicy()),
    lambda: check_explores_alike("SAC", False, True, GSDEPolicy()),
    lambda: ReplaySettings(expert=3),  # type: ignore[arg-type]
    lambda: ReplaySettings(dataset=3),  # type: ignore[arg-type]
    lambda: ReplaySettings(window=Window(size=1.5)),
    lambda: Linear(1.0, 0.0, fraction=2.0),
    lambda: Exponential(0.0, 1.0),
    lambda: Demonstrations(STEPS, STEPS[:1]),
    lambda: Demonstrations.load("nowhere.npz"),
    lambda: recorded(ended=STEPS[:1] == 0),
    lambda: recorded(ended=STEPS != 0),
    lambda: recorded(ended=STEPS == 0).steps(3),
    # memories
    lambda: RolloutSettings(sequence_length=4).check_memory(False, 1),
    lambda: RolloutSettings(priority=RolloutPriority()).check_memory(True, 1),
    lambda: RolloutSettings(sequence_length=1).check_memory(True, 1),
    lambda: RolloutSettings(num_steps=32, batch_size=64, sequence_length=5).check_memory(True, 4),
    lambda: RolloutSettings(num_steps=9, batch_size=4).check_memory(True, 1),
    # replay
    lambda: ReplaySettings(offline=True),
    lambda: ReplaySettings(batch_size=20, capacity=10),
    lambda: ReplaySettings(target_update_interval=1, target_update_env_steps=1),
    lambda: ReplaySettings(window=Window(size=8)),
    lambda: ReplaySettings(window=Window(clearing_freq=8)),
    lambda: ReplaySettings(window=Window(clearing_freq=8, clear_size=8)),
    lambda: ReplaySettings(hindsight=Hindsight(), num_steps=3),
    lambda: ReplaySettings(hindsight=Hindsight(), trajectories=True),
    lambda: ReplaySettings(hindsight=Hindsight(), learned_reward=True),
    lambda: ReplaySettings(hindsight=Hindsight(), frame_stack=2),
    lambda: ReplaySettings(trajectories=True, num_steps=3),
    lambda: ReplaySettings(trajectories=True, priority=Priority()),
    lambda: ReplaySettings(trajectories=True, learned_reward=True),
    lambda: ReplaySettings(learned_reward=True, num_steps=3),
    lambda: ReplaySettings(dataset="mine", hindsight=Hindsight()),
    lambda: ReplaySettings(dataset="mine", frame_stack=2),
    lambda: ReplaySettings(dataset="mine", offline=True, window=Window(size=100)),
    # rollouts and sequences
    lambda: RolloutSettings(window=9),
    lambda: of(RolloutSettings(num_steps=4, batch_size=16), num_envs=2),
    lambda: of(SequenceSettings(num_steps=4, capacity=7), num_envs=2),
    # a run
    lambda: of(criterion=3.0),
    lambda: of(FRAMES, normalise_obs=True),
    lambda: of(ROLLOUTS, multi_agent=True),
    lambda: of(SEQUENCES, multi_agent=True),
    lambda: of(HINDSIGHT, multi_agent=True),
    lambda: of(TRIPLETS, multi_agent=True),
    lambda: of(ReplaySettings(learned_reward=True), multi_agent=True),
    lambda: of(FRAMES, multi_agent=True),
    lambda: of(ReplaySettings(dataset="mine"), multi_agent=True),
    lambda: of(OFFLINE, workers=WorkerSettings(processes=2)),
    lambda: of(OFFLINE, criterion=3.0, trial_count=1),
    lambda: of(OFFLINE, plateau=Plateau()),
    lambda: of(ROLLOUTS, adaptive=Adaptive(signals=["priority_ess"])),
    lambda: of(ROLLOUTS, adaptive=Adaptive(signals=["weight_ess"])),
    lambda: of(REPLAY, adaptive=Adaptive(signals=["ratio_ess"])),
    # several processes
    lambda: Distributed(replicas=1),
    lambda: Distributed(replicas=10**7),
    lambda: Distributed(hosts=["a"], rank=0),
    lambda: Distributed(rank=0),
    lambda: Distributed(strategy="mirrored", hosts=["a:1", "b:1"], rank=0),
    lambda: Distributed(hosts=["a:1", "b:1"]),
    lambda: Distributed(strategy="parameter_server", hosts=["a:1", "b:1"], rank=0),
    # adaptation
    lambda: Adaptive(mode="on"),
    lambda: Adaptive(parameters=[1]),  # type: ignore[arg-type]
    lambda: Adaptive(signals="kl"),
    lambda: Adaptive(signals=[3]),  # type: ignore[list-item]
    lambda: Adaptive(signals=["kll"]),
    lambda: Adaptive(targets={"kl": 0}),
    lambda: Adaptive(schedule={"gama:0": [[0, 1]]}),
    lambda: Adaptive(schedule={"gamma": [[1, 1], [0, 1]]}),
    lambda: Adaptive(signals=["priority_ess", "gradient_noise"], parameters={"learning_rate": {}, "batch_size": {}}),
    lambda: adaptive(learning_rat={}),
    lambda: adaptive(learning_rate=3),
    lambda: adaptive(learning_rate={"gian": 1}),
    lambda: adaptive(learning_rate={"gain": -1}),
    lambda: adaptive(learning_rate={"min": 2, "max": 1}),
    lambda: adaptive(learning_rate={"law": "additive"}),
    lambda: adaptive(learning_rate={"law": "cap"}),
    lambda: adaptive(learning_rate={"law": "kl_step", "signals": ["gradient_noise"]}),
    lambda: adaptive(learning_rate={}),
    lambda: register(type("Other", (PriorityEss,), {})),
    # what agents declare
    lambda: check_settings(agent(action_kinds=("discrete",)), of(multi_agent=True)),
    lambda: check_settings(agent(on_policy=True), of()),
    lambda: check_settings(agent(on_policy=False), of(ROLLOUTS)),
    lambda: check_settings(agent(), of(SEQUENCES)),
    lambda: check_settings(agent(batch_attributes=("log_prob_old",)), of()),
    lambda: check_settings(agent(batch_attributes=("advantage",)), of()),
    lambda: check_settings(agent(batch_attributes=("behaviour",)), of()),
    lambda: check_settings(agent(batch_attributes=("ended",)), of()),
    lambda: check_settings(agent(batch_attributes=("expert_obs",)), of()),
    lambda: check_settings(agent(batch_attributes=("weights",)), of()),
    lambda: check_settings(agent(batch_attributes=("advantage",)), of(RolloutSettings(target_kl=0.1))),
    lambda: check_settings(agent(on_policy=True), of(ROLLOUTS)),
    lambda: check_settings(one_that_updates_itself(), of(adaptive=Adaptive(signals=["gradient_noise"]))),
    lambda: check_can_be_shared(one_that_updates_itself(), of(), 2),
    lambda: check_can_be_shared(agent(couples_samples=True), of(), 2),
    lambda: check_can_be_shared(agent(), of(ReplaySettings(batch_size=63)), 2),
    lambda: check_can_be_shared(agent(), of(adaptive=adaptive(batch_size={"align": 9})), 2),
    lambda: check_can_be_served(one_that_updates_itself(), of()),
    lambda: check_can_be_served(agent(), of(adaptive=Adaptive())),
]
"""Refusals that are met in Python and on the command line."""
OF_SET: list[Callable[[], object]] = [
    lambda: Budget(episodes=3, total_steps=3),
    lambda: of(plateau=3),
    lambda: of(adaptive=3),
    lambda: of(schedules=3),
    lambda: of(schedules={"eps": 3}),
    lambda: from_set(gradient_steps=1, num_updates=1),
    lambda: from_set(PPO=True, num_updates=1, num_epochs=2),
    lambda: from_set(PPO=True, rollout_steps=1, update_steps=1),
    lambda: from_set(PPO=True, sequences=True),
    lambda: from_set(PR=RolloutPriority()),
    lambda: of_manual({"lr": 3}, "adjust_lr"),
    ClusterTask.of_environment,
]
"""Refusals of arguments that only Python has, and of the environment of a process."""

FIELDS = {
    kind.__name__: {one.name for one in fields(kind)}
    for kind in (*vars(settings).values(), Adapt, TrainOptions)
    if is_dataclass(kind)
}
OF_PYTHON = {*arguments_of_set(), *(one.name for one in fields(TrainOptions))}
MANUAL = "|".join(OF_PYTHON - {"batch", "policy", "noise", "random", "sequences"} - set().union(*FIELDS.values()))
MANUAL_WORDS = re.compile(rf"\b({MANUAL})\b(?!')|=True\b|\bset\(|\btrain\(|\bbatch=")
"""Arguments that no setting of the command line is called; some are also words, and PPO is an algorithm."""
PATHS = re.compile(
    r"(?<![\w.])(buffer|training|env|policy|network|collector|backend|plateau|strategy)(\.[a-z]|=[a-z]+\b(?!\())"
)


def refusal(call: Callable[[], object]) -> NoteRLError:
    with pytest.raises(NoteRLError) as caught:
        call()
    return caught.value


def causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def lines_of(traceback: TracebackType | None) -> Iterator[tuple[str, int]]:
    while traceback is not None:
        yield traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
        traceback = traceback.tb_next


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps({}))


def test_every_refusal_of_the_settings_is_walked() -> None:
    errors = [cause for call in (*SHARED, *OF_SET) for cause in causes(refusal(call))]
    reached = {line for error in errors for line in lines_of(error.__traceback__)}
    missed = [
        f"{path.name}:{node.lineno}"
        for path in (CORE / "settings").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Raise)
        and not any((str(path), line) in reached for line in range(node.lineno, (node.end_lineno or 0) + 1))
    ]
    assert not missed, "add a call to the lists above"


def settings_of(part: Any) -> Iterator[SettingName]:
    """The settings that a part of a message is about."""
    if isinstance(part, SettingName):
        yield part
    about = part.about if isinstance(part, Phrase) else part._parts if isinstance(part, Sentence) else ()
    for one in about:
        yield from settings_of(one)


@pytest.mark.parametrize("call", [pytest.param(call, id=str(number)) for number, call in enumerate(SHARED)])
def test_a_refusal_speaks_one_vocabulary(call: Callable[[], object]) -> None:
    error = refusal(call)
    assert not PATHS.search(str(error))
    assert not MANUAL_WORDS.search(error.said(CommandLine()))
    for setting in settings_of(Sentence("", *error.args)):
        if setting.part:
            assert setting.name.partition(".")[0] in FIELDS[setting.part]
            assert setting.part in {*vocabulary.SECTIONS, Adapt.__name__}  # whose places are those of parameters
        assert setting.argument in (*OF_PYTHON, "", setting.name)


@pytest.mark.parametrize(
    ("arguments", "said", "typed"),
    [
        ({"slew": 0.5}, "alpha: slew must be at least 1, got 0.5", ".slew=0.5 is not possible: it must be at least 1"),
        ({"min": 2, "max": 1}, "alpha: min=2 is above max=1", ".min=2 is above adaptive.parameters.alpha.max=1"),
        ({"law": "noise"}, "alpha: law=noise is for learning_rate", ".law=noise is for learning_rate"),
        ({"lw": "cap"}, "alpha: there is no 'lw'; did you mean law?", ": there is no 'lw'; did you mean law?"),
    ],
)
def test_what_is_refused_of_an_adapted_parameter_has_its_path(arguments: dict[str, Any], said: str, typed: str) -> None:
    error = refusal(lambda: adaptive(alpha=arguments))
    assert str(error) == said
    node = {"parameters": {"alpha": arguments}}
    assert about_part("adaptive", node, error) == f"adaptive.parameters.alpha{typed}"


@pytest.mark.parametrize("call", [pytest.param(call, id=str(number)) for number, call in enumerate(OF_SET)])
def test_an_argument_of_python_is_refused_without_a_path(call: Callable[[], object]) -> None:
    assert not PATHS.search(str(refusal(call)))


def is_message(node: ast.AST) -> bool:
    return isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and ast.unparse(node.func) in MESSAGES)


MESSAGES = ("say_once", "Sentence", "out_of_range", "_log.warning", "_log.info")
ONLY_PYTHON = (
    *("settings/set_arguments.py", "training/adjust_methods.py", "policy/composite.py"),
    *("training/train_options.py", "training/checkpoint.py"),  # processes= without workers, parallel_dump=
)
ARGUMENT = re.compile(
    rf"\b([A-Z]{{2,4}}|sequences|offline)=True|\bset\(\)|\b(pool_size|num_updates|rollout_steps|pool_network)\b"
    rf"|(?<![*], )\b({'|'.join(OF_PYTHON)})="
)
"""Arguments; behind a star, a parameter of a function that a message shows, as in `def reset(self, *, seed=None)`."""


def test_no_other_text_of_the_training_core_names_a_setting_in_one_vocabulary() -> None:
    """Messages are made of phrases; what stands in a text is the same for every reader."""
    found = [
        f"{path.relative_to(CORE)}: {part.value}"
        for path in CORE.rglob("*.py")
        if not path.as_posix().endswith(ONLY_PYTHON)
        for node in ast.walk(ast.parse(path.read_text()))
        if is_message(node)
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
        if ARGUMENT.search(part.value) or (PATHS.search(part.value) and "strategy.scope" not in part.value)
    ]
    assert not found


@cache
def typed_paths() -> frozenset[str]:
    """Of everything in a configuration, and of what its classes take besides."""
    config = OmegaConf.to_container(preflight("train", ["agent=ppo", "collector=pool", "plateau=episodes"]))
    more = {f"{section}.{name}" for kind, section in vocabulary.SECTIONS.items() for name in FIELDS[kind]}
    return frozenset({*paths_in(config), *more})


def paths_in(node: Any, prefix: str = "") -> Iterator[str]:
    for name, inner in node.items():
        yield f"{prefix}{name}"
        if isinstance(inner, dict):
            yield from paths_in(inner, f"{prefix}{name}.")


def exists(typed: str) -> bool:
    """Whether something can be typed: a choice of a group, or the path of a setting."""
    path, _, value = typed.partition("=")
    is_choice = (CONF / path).is_dir() and value
    return (CONF / path / f"{value}.yaml").is_file() if is_choice else path in typed_paths()


ADVICE = [one for one in (*vocabulary.ELSEWHERE.values(), *vocabulary.CHOICES.values()) if re.search("[=.]", one)]


@pytest.mark.parametrize("typed", sorted(set(ADVICE)))
def test_what_the_command_line_is_advised_to_type_exists(typed: str) -> None:
    group, _, names = re.sub(r".*\(|\).*|^use |,? (and|which) .*", "", typed).partition("=")
    assert all(exists(f"{group}={name}" if name else group) for name in re.split(", | or ", names))


def test_a_value_out_of_range_is_named_as_it_is_typed() -> None:
    error = SettingsError(out_of_range("eps", "be a number", 2, "; leave it out"))
    assert str(error) == "eps must be a number, got 2; leave it out"
    assert about_part("policy", {"eps": 2}, error) == "policy.eps=2 is not possible: it must be a number; leave it out"
    assert about_part("policy", {}, error) == "policy: eps must be a number, got 2; leave it out"
    layer = SettingsError("{} is empty", SettingName("layers.0").at([]))
    assert about_part("network", {"layers": [[]]}, layer) == "network.layers.0=[] is empty"
    assert about_part("network", {}, ValueError("{}")) == "network: {}"


def test_the_kind_of_error_stays_what_it_is() -> None:
    with pytest.raises(SettingsError, match=r"^use buffer=prioritized$") as caught, speaking_of_settings():
        raise SettingsError("{}", PR.add())
    assert str(caught.value.__cause__) == "add PR=True to set()"


def test_what_is_logged_has_the_words_of_its_reader(caplog: pytest.LogCaptureFixture) -> None:
    message = Sentence("give {}", SettingName("capacity", "pool_size", "ReplaySettings"))
    log = logging.getLogger("note_rl.test")
    with speaking_of_settings():
        log.warning("%s", message)
    log.warning("%s", message)
    assert [record.message for record in caplog.records] == ["give buffer.capacity", "give pool_size/capacity"]


def test_an_error_is_the_same_in_another_process() -> None:
    error = SettingsError("{} and {!r} of {}", PR.at(True), "x", Sentence("{}", choice("train()")))
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error) == "PR=True and 'x' of train()"
    assert copy.said(CommandLine()) == "buffer=prioritized and 'x' of strategy=none"
