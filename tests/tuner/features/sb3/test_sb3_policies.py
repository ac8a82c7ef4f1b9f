"""Arguments of the policies of Stable-Baselines3, by the signatures of their classes."""

from typing import Any

import pytest

from tuner.errors import UserError
from tuner.features.sb3.sb3_algorithms import CONTRIB, SB3, find
from tuner.features.sb3.sb3_policies import check_arguments, policy_arguments


def checked(name: str, policy: str, **given: Any) -> dict[str, Any]:
    """The arguments of a policy, as typed in `agent.policy_kwargs`."""
    return check_arguments(find(name), policy, policy_arguments(given, {}))


@pytest.mark.parametrize(
    ("name", "policy"), [(name, policy) for name in (*SB3, *CONTRIB) for policy in find(name).policies]
)
def test_each_policy_is_checked_by_the_signature_of_its_class(name: str, policy: str) -> None:
    with pytest.raises(UserError, match=rf"agent.policy_kwargs.squash: {policy} of {name} has no such argument"):
        checked(name, policy, squash=True)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("PPO", {"net_archh": [32]}, "agent.policy_kwargs.net_archh: MlpPolicy of PPO .*; did you mean net_arch?"),
        ("PPO", {"net_arch": {"pi": [8], "qf": [8]}}, r"agent.policy_kwargs.net_arch=.*\{pi: \[64,64\], vf:"),
        ("SAC", {"net_arch": {"pi": [8]}}, r"agent.policy_kwargs.net_arch=.*\{pi: \[64,64\], qf:"),
        ("DQN", {"net_arch": {"pi": [8]}}, r"must be a list of whole numbers, such as \[64,64\]$"),
        ("PPO", {"use_sde": True}, "agent.policy_kwargs.use_sde: here it is agent.use_sde"),
        ("PPO", {"lr_schedule": 1}, "agent.policy_kwargs.lr_schedule: MlpPolicy of PPO has no such argument"),
        ("PPO", {"ortho_init": "no"}, "agent.policy_kwargs.ortho_init=no must be true or false"),
        ("PPO", {"log_std_init": "low"}, "agent.policy_kwargs.log_std_init=low must be a number"),
        ("TQC", {"n_quantiles": 2.5}, "agent.policy_kwargs.n_quantiles=2.5 must be a whole number"),
        ("PPO", {"activation_fn": "Relu"}, "agent.policy_kwargs.activation_fn=Relu: .*; did you mean ReLU?"),
        ("PPO", {"optimizer_class": "Adam"}, r"optimizer_class=Adam must be a class, written \{_target_: hydra"),
        ("PPO", {"optimizer_kwargs": 1}, r"optimizer_kwargs=1 must be a group \{NAME: VALUE\} or null"),
    ],
)
def test_an_argument_that_the_policy_could_not_take_is_refused(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        checked(name, "MlpPolicy", **given)


def test_arguments_become_what_the_policy_takes() -> None:
    given = {"net_arch": {"pi": [8.0], "qf": [4]}, "n_critics": 1.0, "log_std_init": -3, "optimizer_kwargs": {"eps": 1}}
    expected = {
        "net_arch": {"pi": [8], "qf": [4]},
        "n_critics": 1,
        "log_std_init": -3.0,
        "optimizer_kwargs": {"eps": 1},
    }
    assert checked("SAC", "MlpPolicy", **given) == expected
