"""Small studies made up for the tests of tables and page."""

from collections.abc import Mapping
from typing import Any

from tuner.results.records import Importances, RunRecord, Scalar, StudySummary
from tuner.trial.messages import Outcome

CURVE = ((0.25, 10.0), (0.5, 40.0), (1.0, 90.0))
EVIL = "</script><script>alert('x')</script>&\"'"


def run(label: str, stage: str, value: float | None, **changes: Any) -> RunRecord:
    number = changes.pop("number", int(label.split()[1]) if label.startswith("trial ") and stage == "screen" else 0)
    params: Mapping[str, Scalar] = {} if label == "default" else {"optimizer.learning_rate": 1e-3, "agent.gamma": 0.98}
    fields: dict[str, Any] = {"seed": 1, "params": params, "outcome": Outcome.COMPLETE, "curve": CURVE, "seconds": 10.0}
    return RunRecord(number=number, stage=stage, label=label, value=value, **{**fields, **changes})


def full_study(**changes: Any) -> StudySummary:
    """12 trials of every kind, a confirm and a test stage."""
    screen = [run(f"trial {number}", "screen", 10.0 * number) for number in range(9)]
    screen += [
        run("trial 9", "screen", 12.0, outcome=Outcome.PRUNED, reason="pruned at step 0.25 with 12"),
        run("trial 10", "screen", None, outcome=Outcome.CRASHED, reason=f"RuntimeError: {EVIL}", curve=()),
        run("trial 11", "screen", 9.0, outcome=Outcome.DIVERGED, reason="the loss became nan"),
    ]
    confirm = [
        run(label, "confirm", 70.0, seed=50 + number % 2, number=number)
        for number, label in enumerate(("trial 8", "trial 8", "trial 7", "trial 7"))
    ]
    test = [
        run(label, "test", base + number % 5, seed=number % 5, number=number)
        for number, (label, base) in enumerate(5 * [("trial 8", 80.0)] + 5 * [("default", 20.0)])
    ]
    fields: dict[str, Any] = {
        "runs": (*screen, *confirm, *test),
        "winner_label": "trial 8",
        "importances": {"optimizer.learning_rate": 0.7, "agent.gamma": 0.3},
        "importance_null": {"optimizer.learning_rate": 0.2, "agent.gamma": 0.35},
        "importance_over_time": (
            Importances({"agent.gamma": 0.8, "optimizer.learning_rate": 0.2}, {"agent.gamma": 0.3}, 0.25),
            Importances({"optimizer.learning_rate": 0.7, "agent.gamma": 0.3}, {"agent.gamma": 0.35}, 1.0),
        ),
        "study_command": "tuner tune agent=dqn study.name=poles",
        "notes": ("No run was pruned.",),
        "versions": {"python": "3.11", "torch": "2.13"},
        "retrain_command": "tuner train agent=dqn optimizer.learning_rate=0.001 'env.id=my:Env-v0'",
        "seconds": 254.0,
        "seed": 7,
        "budget": {"screening trials": 12, "test seeds": 5},
        "space": {"optimizer.learning_rate": "0.0001 to 0.01, logarithmic", "agent.gamma": "0.9 to 0.999"},
        "sampler": "TPESampler (multivariate true)",
        "pruner": "MedianPruner",
        "code": "3f2a9c1b04de with changes",
    }
    return StudySummary("poles", "final score", "CartPole-v1", "dqn", "torch", **{**fields, **changes})
