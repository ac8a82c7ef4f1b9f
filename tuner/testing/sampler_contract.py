"""Tests for every sampler: it is made anew with each session of a study, and seeded anew for each trial."""

from typing import Any

from tuner.study.optuna_internals import suggest
from tuner.study.sampling.sampler_factory import SamplerFactory, make_sampler
from tuner.study.space.space import Space
from tuner.study.storage.store import quiet_optuna
from tuner.trial.messages import JsonDict

_AGENT: JsonDict = {"learning_rate": 1e-4, "gamma": 0.9, "batch_size": 256, "activation": "relu"}
_SPACE: JsonDict = {
    "learning_rate": {"low": 1e-5, "high": 1.0, "log": True},
    "gamma": {"low": 0.8, "high": 0.9999, "transform": "one_minus"},
    "batch_size": {"low": 8, "high": 1024, "transform": "power_of_two"},
    "activation": {"choices": ["relu", "tanh"]},
}


class SamplerContract:
    """Tests of a sampler: any class of Optuna's kind, or a function that makes one.

    Attributes:
        num_trials: How many are drawn in each test; enough to get beyond trials that are drawn at random.
        repeats: Whether it draws what it has drawn before, as a grid does when it is finished.
    """

    num_trials = 15
    repeats = False

    def make(self) -> SamplerFactory:
        """The factory named by a file of the group `sampler`: called with `seed` and `space`, where it takes these."""
        raise NotImplementedError

    def test_it_stays_within_the_space(self) -> None:
        """Every value is one that the search space has."""
        for values in self._drawn(0):
            assert 1e-5 <= values["learning_rate"] <= 1.0
            assert 0.8 <= values["gamma"] <= 0.9999
            assert values["batch_size"] in {8, 16, 32, 64, 128, 256, 512, 1024}
            assert values["activation"] in {"relu", "tanh"}

    def test_the_seed_decides(self) -> None:
        """The same seed and the same results give the same configurations."""
        assert self._drawn(7) == self._drawn(7)

    def test_a_study_that_is_continued_draws_what_it_would_have_drawn(self) -> None:
        """A sampler that is made anew between two trials goes on like the one that was there before.

        What it proposes may depend on the trials of the study, and on nothing that it keeps to itself.
        """
        assert self._drawn(7, anew_after=self.num_trials // 2) == self._drawn(7)

    def test_it_does_not_repeat_itself(self) -> None:
        """Configurations differ, before and behind a break."""
        if not self.repeats:
            drawn = [tuple(values.values()) for values in self._drawn(1, anew_after=self.num_trials // 2)]
            assert len(set(drawn)) == len(drawn)

    def test_several_trials_run_at_a_time(self) -> None:
        """It is asked again before the last trials have a score."""
        study, space, sampler = self._study(3)
        study.sampler = sampler
        with quiet_optuna():
            for _ in range(3):
                waiting = [study.ask() for _ in range(4)]
                for trial in waiting:
                    space.draw(suggest(trial))
                for trial in waiting:
                    study.tell(trial, float(trial.number))
        assert len(study.trials) == 12

    def test_trials_without_a_score_are_taken(self) -> None:
        """Some are pruned, some fail."""
        from optuna.trial import TrialState

        study, space, sampler = self._study(4)
        study.sampler = sampler
        with quiet_optuna():
            for number in range(self.num_trials):
                trial = study.ask()
                space.draw(suggest(trial))
                if number % 3 == 0:
                    trial.report(0.1, 0)
                state = (TrialState.PRUNED, TrialState.FAIL, TrialState.COMPLETE)[number % 3]
                study.tell(trial, 1.0 if state is TrialState.COMPLETE else None, state=state)
        assert len(study.trials) == self.num_trials

    def _study(self, seed: int, num_trials: int = 0) -> tuple[Any, Space, Any]:
        import optuna

        space = Space.from_config({"agent": _SPACE}, {"agent": _AGENT})
        sampler = make_sampler(self.make(), seed, num_trials, space)
        with quiet_optuna():
            return optuna.create_study(direction="maximize"), space, sampler

    def _drawn(self, seed: int, anew_after: int = -1) -> list[dict[str, Any]]:
        """The configurations of a study whose scores follow from them."""
        study, space, sampler = self._study(seed)
        found = []
        with quiet_optuna():
            for number in range(self.num_trials):
                if number == anew_after:
                    _, _, sampler = self._study(seed, number)
                study.sampler = sampler
                trial = study.ask()
                values = space.values(space.draw(suggest(trial)), {"agent": _AGENT})
                found.append({path.removeprefix("agent."): value for path, value in values.items()})
                study.tell(trial, -abs(found[-1]["learning_rate"] - 0.01) - abs(found[-1]["gamma"] - 0.95))
        return found
