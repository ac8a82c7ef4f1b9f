"""Every file of conf/ is composed and checked; every agent is built with both frameworks."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tuner.command_line import SMALL, SMALL_AGENTS
from tuner.config.composition import compose, conf_folder, config_loader
from tuner.errors import UserError
from tuner.features.sb3.sb3_algorithms import SBX, file_of
from tuner.runs.config_checks import check_config, resolve

CONF = conf_folder()
PRIMARY = (
    *(
        "train",
        "tune",
        "find",
        "check",
        "compare",
        "play",
        "export",
        "plot",
        "report",
        "ablate",
        "bench",
        "import",
        "push",
        "pull",
        "dashboard",
        "options",
    ),
    *("guide", "doctor"),
)
RUN_GROUPS = (
    "agent",
    "backend",
    "network",
    "env",
    "collector",
    "wrapper",
    "buffer",
    "noise",
    "policy",
    "optimizer",
    "schedule",
    "adaptive",
    "tracker",
    "checkpoint",
    "progress",
)
CHOICES = sorted(path.relative_to(CONF).with_suffix("").as_posix() for path in CONF.glob("*/*.yaml"))
FUNCTIONS = (
    "command",
    "drifting",
    "function",
    "synthetic",
    *(path.stem for path in (CONF / "agent").glob("sb3*.yaml")),
)  # agents that are none
NEEDS = {  # choices that fit only one agent, or ask for something
    "adaptive/ppo_ess": "agent=ppo",
    "adaptive/ppo_kl": "agent=ppo",
    "adaptive/ess": "agent=prioritized_dqn",
    "agent/command": "agent.command=ls agent.metric=loss",
    "space/command": "agent=command agent.command=ls agent.metric=loss",
    "agent/function": "agent._target_=tests.tuner.entries.train +agent.context=0",
    "agent/bc_continuous": "env=pendulum buffer.dataset=mine",
    "buffer/dataset": "buffer.dataset=mine",
    "buffer/rollout": "agent=ppo",
    "buffer/recurrent": "agent=r2d2",
    "buffer/sequences": "agent=acer",
    "env/coordination": "agent=maddpg",
    "env/pointreach": "agent=ddpg_her",
    "network/cfg": f"network.file={Path(__file__).parents[2]}/note_rl/agents/shared/model.cfg",
    "network/gru": "agent=ppo",
    "network/lstm": "agent=ppo",
    "network/dict": "env.id=tests.note_rl.dictionaries:NoteRLSigns-v0 "
    "network.encoders={image:{layers:[flatten]},sign:null}",
    "policy/greedy": "agent=rainbow",
    "policy/gsde": "agent=a2c_continuous env=pendulum",
    "policy/softmax": "agent=ppo",
    "policy/squashed_gsde": "agent=sac env=pendulum",
    "schedule/linear_decay": "agent=ppo",
    "space/acer": "agent=acer",
    "space/a2c_continuous": "agent=a2c_continuous",
    "space/a2c_gsde": "agent=a2c_continuous env=pendulum policy=gsde",
    "space/alphazero": "agent=alphazero",
    "space/bc": "agent=bc",
    "space/bc_continuous": "agent=bc_continuous env=pendulum buffer.dataset=mine",
    "space/crossq": "agent=crossq",
    "space/ddpg": "agent=ddpg",
    "space/ddpg_her": "agent=ddpg_her",
    "space/drifting": "agent=drifting",
    "space/dqn_parts": "agent=prioritized_dqn",
    "space/dueling_dqn": "agent=dueling_dqn",
    "space/gail": "agent=gail",
    "space/maddpg": "agent=maddpg",
    "space/prioritized_dqn": "agent=prioritized_dqn",
    "space/rainbow": "agent=rainbow",
    "space/ppo": "agent=ppo",
    "space/ppo_continuous": "agent=ppo_continuous",
    "space/r2d2": "agent=r2d2",
    "space/ppo_gsde": "agent=ppo_continuous env=pendulum policy=gsde",
    "space/sac": "agent=sac",
    "space/sac_discrete": "agent=sac_discrete",
    "space/sac_updates": "agent=sac",
    "space/sac_gsde": "agent=sac env=pendulum policy=squashed_gsde",
    "pruner/hub": "pruner.package=pruners/mine pruner.cls=Mine",
    "pruner/threshold": "pruner.lower=10",
    "sampler/hub": "sampler.package=samplers/mine sampler.cls=Mine",
    **{f"space/{path.stem}": f"agent={path.stem}" for path in (CONF / "space").glob("sb3*.yaml")},
    "space/function": "agent=synthetic",
    "space/synthetic": "agent=synthetic",
    "space/td3": "agent=td3",
    "space/tqc": "agent=tqc",
    "space/trpo": "agent=trpo",
    "space/trpo_continuous": "agent=trpo_continuous",
}


def composed(primary: str, *overrides: str) -> dict[str, object]:
    loader = config_loader()
    config = compose(loader, primary, overrides)
    return check_config(config, frozenset(map(str, config)), primary)


def test_every_file_is_of_a_known_kind() -> None:
    known = {*(f"{name}.yaml" for name in (*PRIMARY, "base")), *(f"{choice}.yaml" for choice in CHOICES)}
    known |= {path.relative_to(CONF).as_posix() for path in (CONF / "hydra").rglob("*.yaml")}
    known |= {f"{group}/{file_of(name, 'sbx')}.yaml" for name in SBX for group in ("agent", "space")}
    known |= {f"space/{part}/{network}.yaml" for part in ("memory", "sequences") for network in ("gru", "lstm")}
    known |= {f"space/weights/{network}.yaml" for network in ("cfg", "dict", "layers", "mlp", "mlp_tanh")}
    known |= {"space/activation/mlp.yaml", *(f"space/hidden_layers/{network}.yaml" for network in ("mlp", "mlp_tanh"))}
    assert {path.relative_to(CONF).as_posix() for path in CONF.rglob("*.yaml")} == known


@pytest.mark.parametrize("path", sorted(CONF.rglob("*.yaml")), ids=lambda path: path.relative_to(CONF).as_posix())
def test_every_file_says_what_it_is_for(path: Path) -> None:
    first = next(line for line in path.read_text().splitlines() if not line.startswith("# @package"))
    assert first.startswith("# "), "the first line is a comment"


@pytest.mark.parametrize("primary", ["train", "tune", "find", "compare", "report", "ablate", "dashboard"])
def test_primary_configs_compose_as_they_are(primary: str) -> None:
    composed(primary)


def test_play_takes_a_run() -> None:
    assert composed("play", "run=somewhere")["run"] == "somewhere"
    with pytest.raises(UserError, match="run='' is not possible"):
        composed("play", "run=''")


def command_lines() -> Iterator[Any]:
    """Primary config, what is needed, and choices: composing is slow, so groups share a line, but for those that choose
    of others themselves."""
    sharing: dict[tuple[str, str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for choice in CHOICES:
        group = choice.split("/")[0]
        primary = "train" if group in (*RUN_GROUPS, "experiment") else "find" if group == "finder" else "tune"
        alone = choice if group in ("agent", "experiment", "finder", "schedule") else ""
        sharing[primary, NEEDS.get(choice, ""), alone][group].append(choice)
    for (primary, needs, _), groups in sharing.items():
        for several in zip_longest(*groups.values()):
            choices = [choice for choice in several if choice]
            yield pytest.param(primary, needs.split(), choices, id=" ".join(choices))


@pytest.mark.parametrize(("primary", "needs", "choices"), list(command_lines()))
def test_every_choice_composes(
    primary: str, needs: list[str], choices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_URL", "sqlite:///elsewhere.db")
    config = composed(primary, *(choice.replace("/", "=") for choice in choices), *needs)
    for choice in choices:
        group = choice.split("/")[0]
        text = (CONF / f"{choice}.yaml").read_text()
        chosen, part = yaml.safe_load(text) or {}, config.get(group)
        if "@package _global_" in text.splitlines()[0]:
            chosen, part = chosen.get(group, {}), config.get(group, {})
        assert isinstance(part, dict), choice
        assert set(chosen) - {"defaults", "reference"} <= set(part), choice  # a reference is read by studies only


@pytest.mark.parametrize("backend", ["torch", "keras"])
@pytest.mark.parametrize(
    "agent", sorted(path.stem for path in (CONF / "agent").glob("*.yaml") if path.stem not in FUNCTIONS)
)
def test_every_agent_is_built_by_both_frameworks(agent: str, backend: str) -> None:
    from tuner.config.composition import RunConfig
    from tuner.runs.build import build_run

    resolved = composed("train", f"backend={backend}", *SMALL, *SMALL_AGENTS[agent])
    built = build_run(RunConfig.from_json(resolved))
    try:
        for part in ("agent", "network", "optimizer", "buffer", "noise", "policy", "schedule", "env", "collector"):
            wanted = resolved[part]
            assert isinstance(wanted, dict)
            assert built.used[part] == _without_hydra_keys(wanted), part
    finally:
        built.environment().close()


def _without_hydra_keys(node: dict[str, object]) -> dict[str, object]:
    return {
        key: _without_hydra_keys(value) if isinstance(value, dict) else value
        for key, value in node.items()
        if not key.startswith("_")
    }


@pytest.mark.parametrize("experiment", sorted(path.stem for path in (CONF / "experiment").glob("*.yaml")))
def test_experiments_name_what_is_expected_of_them(experiment: str) -> None:
    second = (CONF / "experiment" / f"{experiment}.yaml").read_text().splitlines()[1]
    assert second.startswith("# Expected:")
    if "\nstudy:\n" in (CONF / "experiment" / f"{experiment}.yaml").read_text():  # others: see every choice
        resolve(compose(config_loader(), "tune", [f"experiment={experiment}"]))
