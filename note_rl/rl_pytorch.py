"""The base class of agents written in PyTorch."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import torch

from note_rl.collect.agent_recipe import Recipe
from note_rl.collect.contract import check_parts
from note_rl.distributed.distributed_arguments import distributed_budget, global_batch_first
from note_rl.distributed.follower import follow
from note_rl.distributed.limits import check_can_be_shared
from note_rl.distributed.replicas import started
from note_rl.distributed.torch_group import (
    Group,
    check_strategy,
    formed,
    joined,
    new_store,
    size_joined,
    store_at,
    wait_until_ready,
)
from note_rl.errors import SettingsError
from note_rl.learners.base import Learner
from note_rl.learners.pytorch.learner import PyTorchLearner
from note_rl.learners.pytorch.tensors import named_tensors
from note_rl.settings import Budget
from note_rl.settings.distributed import at_least_two
from note_rl.settings.switch_names import DEVICE
from note_rl.training.agent import Agent
from note_rl.training.agent_pickling import state_of, take_state
from note_rl.types import TrainResult


class RL_pytorch(Agent):  # noqa: N801 (the manuals' name)
    """Inherit from this and give the same as for `note_rl.RL`, with torch tensors instead of TensorFlow's.

    Further:

    - networks are in train mode within `__call__`, if they learn, and in eval mode otherwise: in `action`, `value` and
      `reward`, and target networks always. Layers that you put into eval mode within a network stay so, and all are as
      you left them afterwards;
    - parameters that you freeze, by `layer.requires_grad_(False)`, stay as they are while the others learn;
    - optionally the class attribute `traceable = True`: `__call__` does the same with every minibatch, so that
      jit_compile="auto" may record its steps. It may read tensors, scheduled values, and numbers, lists, dicts, small
      arrays and functions of the agent, its layers and its module: where these change, it is recorded anew. Each class
      says it for itself, as a subclass may override what is recorded.
    """

    framework = "torch"

    def __getstate__(self) -> dict[str, Any]:
        """For pickle, cloudpickle and deepcopy; see `note_rl.training.agent_pickling`."""
        return state_of(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        take_state(self, state)

    def _make_learner(self) -> Learner:
        return PyTorchLearner(self)

    def _move_to(self, device: str) -> None:
        try:
            for _, tensor in named_tensors(self):
                tensor.data = tensor.data.to(device)  # the same tensors, so that optimizers go on knowing them
        except (RuntimeError, AssertionError) as error:
            raise SettingsError("{} cannot be used: {}", DEVICE.at(device), str(error).splitlines()[0]) from error

    def train(
        self,
        optimizer: Any = None,
        episodes: int | None = None,
        *further: Any,
        total_steps: int | None = None,
        **options: Any,
    ) -> TrainResult:
        """Trains until `episodes` have ended or the agent has taken `total_steps` environment steps in its life.

        Args:
            optimizer: A torch optimizer, or a list with one per parameter group; None: the one used before.
            episodes: Episodes in this call; schedules and beta go from their start to their end in each.
            *further: There are none: the manuals' `train_loss` is for agents in Keras.
            total_steps: Environment steps over the agent's life; a rollout, or an episode where set() is given no
                train_freq, is brought to its end. A restored run that is to go on exactly as if it had
                never stopped is given the same number again; with episodes= it would count from this call on.
            **options: callbacks, p (progress lines, 0 is silent), save_data, parallel_training_and_save, window_size,
                jit_compile and all others of `note_rl.training.train_options.TrainOptions`.

        Raises:
            NoteRLError: Settings, environment and agent do not fit each other, or a file cannot be written.
            DivergedError: The loss became infinite or not a number.
        """
        if further or hasattr(optimizer, "update_state"):
            raise SettingsError(
                "train() of an agent in PyTorch takes no train_loss: begin with the optimizer, as in "
                "train(optimizer, 100); the losses are in agent.loss_list"
            )
        return self._train(optimizer, Budget(total_steps=total_steps, episodes=episodes), options)

    @global_batch_first
    def distributed_training(  # noqa: PLR0913 (the manuals' arguments, and where the others come from)
        self,
        optimizer: Any = None,
        strategy: Any = "ddp",
        episodes: int | None = None,
        *,
        global_batch_size: int | None = None,
        num_episodes: int | None = None,
        total_steps: int | None = None,
        replicas: int | None = None,
        **options: Any,
    ) -> TrainResult:
        """Trains as train() does, with gradients of replicas in several processes, over torch.distributed.

        Rank 0 does everything but a part of the gradients: it collects, samples, evaluates, logs and saves. The batch
        that set() is given is that of all replicas together; each takes its share of the rows, gradients are averaged
        and then clipped, so that the numbers are those of train() up to rounding.

        Under torchrun, every process calls this with the same agent, and those that do not lead return when rank 0 has
        trained. Elsewhere the other processes are started here, on this machine, and end with the call.

        Args:
            optimizer: See `train`.
            strategy: "ddp", or a process group that torch.distributed has been initialised with.
            episodes: See `train`.
            global_batch_size: The batch of all replicas together, in place of that of set(), until set() is called
                again. It may also stand first: distributed_training(128, optimizer, "ddp", 100, replicas=2).
            num_episodes: The same as `episodes`.
            total_steps: See `train`.
            replicas: Processes in all, where they are started here.
            **options: See `train`.

        Raises:
            NoteRLError: As train(), or what several replicas cannot do together.
            DivergedError: The loss became infinite or not a number.
            PeerError: A rank has failed or died, or is silent for half a minute; it is named.
        """
        budget = distributed_budget(episodes, num_episodes, total_steps)
        check_parts(self)
        self._take_global_batch(global_batch_size)
        with self._ranks(strategy, replicas, optimizer) as group:
            return self._train_as_one_of(group, optimizer, budget, options)

    @contextmanager
    def _ranks(self, strategy: Any, replicas: int | None, optimizer: Any) -> Iterator[Group]:
        """The group of those that train together, in which this process has its rank."""
        given = None if isinstance(strategy, str) else strategy
        check_strategy(strategy)
        size = size_joined(given)
        if size is None:
            size = at_least_two("replicas", replicas)
            check_can_be_shared(self, self.settings, size)
            content = self._pickled_to_follow(self._last_optimizer() if optimizer is None else optimizer)
            store = new_store()
            with started(content, size, store.port) as processes:
                wait_until_ready(store, processes)
                with formed(store, 0, size) as group:
                    yield group
            return
        if replicas not in (None, size):
            raise SettingsError(f"replicas={replicas}, but {size} processes were started: leave replicas out")
        check_can_be_shared(self, self.settings, size)
        with joined(given) as group:
            yield group

    def _pickled_to_follow(self, optimizer: Any) -> bytes:
        """The agent for a process that takes gradient steps along with this one: its parameters and its own attributes.

        What acts and trains stays here: environments, settings, the replay pool.

        Raises:
            SettingsError: An attribute cannot be pickled; it is named.
        """
        fresh: Any = object.__new__(type(self))
        Agent.__init__(fresh)
        left_out = {*self._bookkeeping, "_bookkeeping", "env", "evaluation_env", "recipe"}
        vars(fresh).update({name: value for name, value in vars(self).items() if name not in left_out})
        vars(fresh).update(env=None, recipe=Recipe(type(self), (), {}), optimizer=optimizer)
        content: bytes = cloudpickle.dumps(fresh)
        return content

    def _follow(self, rank: int, size: int, port: int) -> None:
        """Trains along in a process that another one has started; see `note_rl.distributed.replicas`."""
        if next(tensor.is_cuda for _, tensor in named_tensors(self)):
            self._move_to(f"cuda:{rank % torch.cuda.device_count()}")
        torch.set_num_threads(max(torch.get_num_threads() // size, 1))
        with formed(store_at(port, rank), rank, size) as group:
            follow(self, self.optimizer, group)
