"""A study of another program becomes a study of ours, and is left as it is."""

import math
import sqlite3
import time
from pathlib import Path

import optuna
import pytest
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.trial import TrialState, create_trial

import tuner as platform
from tests.tuner.command_line import CommandLine
from tests.tuner.features.imports.foreign_studies import (
    JOURNAL,
    SQLITE,
    content,
    dqn_params,
    plain_study,
    storage_at,
    zoo_study,
)
from tuner.errors import UserError
from tuner.study import StudyStore
from tuner.trial.messages import Outcome

OURS = "sqlite:///studies.db"
THEIRS = JOURNAL
"""But where it is the point, as SQLite waits for the disk."""


def bring(tuner: CommandLine, *arguments: str) -> list[str]:
    """Output of `tuner import study`, by line."""
    answer = tuner("import", "study", *arguments)
    assert answer.status == 0, answer
    return answer.output.splitlines()


@pytest.mark.parametrize("url", [SQLITE, JOURNAL])
def test_all_trials_that_ended_are_copied_and_the_other_study_stays_as_it_is(tuner: CommandLine, url: str) -> None:
    foreign = plain_study(url)
    foreign.ask()
    before = content(tuner.folder)
    lines = bring(tuner, f"storage={url}", "name=lr-search")
    assert content(tuner.folder) == before
    assert lines[0] == (
        "6 trials of study lr-search (4 complete, 1 failed and 1 pruned); 1 trial without an end left out"
    )
    assert "no key is known of kind and lr; keys={kind: KEY} names one" in lines[1]
    assert lines[2] == "it is study lr-search here: tuner report lr-search"
    summary = platform.load("lr-search").summary
    theirs = foreign.get_trials()[:6]
    assert [run.label for run in summary.runs] == [f"trial {number}" for number in range(6)]
    for run, trial in zip(summary.runs, theirs, strict=True):
        assert run.params == trial.params
        assert list(run.curve) == [(1, run.number / 2), (2, run.number)]
        assert run.value == (None if trial.state is TrialState.FAIL else trial.value)
    assert [run.outcome for run in summary.runs][1:3] == [Outcome.PRUNED, Outcome.CRASHED]
    assert (summary.winner_label, summary.maximised, summary.agent) == ("trial 5", True, "")
    with StudyStore(OURS) as store:
        copied = store.require("lr-search").get_trials()
    assert copied[3].intermediate_values == theirs[3].intermediate_values
    assert copied[3].distributions == theirs[3].distributions
    assert (copied[3].datetime_start, copied[3].datetime_complete) == (
        theirs[3].datetime_start,
        theirs[3].datetime_complete,
    )


def test_it_has_a_page_with_a_verdict_in_the_words_of_trials(tuner: CommandLine) -> None:
    plain_study(direction="minimize")
    bring(tuner, f"storage={THEIRS}")
    answer = tuner("report", "lr-search")
    assert answer.status == 0, answer
    said = " ".join(answer.output.split())
    assert "Best of 4 complete trials of study lr-search, which another program ran: trial 0" in said
    page = (tuner.folder / "studies" / "lr-search" / "report.html").read_text()
    assert "the value of a trial (lower is better)" in page
    assert "a copy of study lr-search in journal:////" in page


def test_a_search_begins_with_its_best_where_keys_are_named(tuner: CommandLine) -> None:
    foreign = plain_study(direction="minimize")
    lines = bring(tuner, f"storage={THEIRS}", "keys={lr: optimizer.learning_rate}")
    assert lines[1].startswith("parameters: lr is optimizer.learning_rate; no key is known of kind")
    assert lines[3].endswith("tuner tune warm_start=study:lr-search")
    range_here = "space.optimizer.learning_rate={low: 1e-5, high: 0.5}"
    starts = begun_with("agent=dqn", "warm_start=study:lr-search", range_here)
    default, *rates = [config["optimizer"]["learning_rate"] for config in starts.values()]
    assert default == 0.004
    assert rates == [foreign.get_trials()[number].params["lr"] for number in (0, 3, 4, 5)]  # lower is better


def begun_with(*overrides: str) -> dict[str, dict[str, dict[str, float]]]:
    from tuner.commands.preflight import preflight
    from tuner.commands.study_from_config import define

    return dict(define(preflight("tune", list(overrides))).warm_start)


def test_without_a_key_that_is_searched_nothing_can_be_begun_with(tuner: CommandLine) -> None:
    plain_study()
    bring(tuner, f"storage={THEIRS}")
    with pytest.raises(UserError, match="warm_start=study:lr-search searched kind and lr, and this search has none"):
        begun_with("agent=dqn", "warm_start=study:lr-search")


def test_parameters_of_the_zoo_get_their_keys(tuner: CommandLine) -> None:
    zoo_study()
    lines = bring(tuner, f"storage={THEIRS}", "agent=ppo")
    assert "one_minus_gamma is agent.gamma" in lines[1]
    assert "no key" not in lines[1]
    summary = platform.load("zoo").summary
    assert (summary.agent, summary.scales["agent.gamma"]) == ("ppo", "one_minus")
    assert summary.space["buffer.batch_size"] == "4 .. 1024 (powers of 2)"
    theirs = storage_at(THEIRS).get_all_trials(storage_at(THEIRS).get_study_id_from_name("zoo"))
    layers = {"tiny": "[64]", "small": "[64, 64]", "medium": "[256, 256]"}
    for run, trial in zip(summary.runs, theirs, strict=True):
        assert run.params["agent.gamma"] == pytest.approx(1 - trial.params["one_minus_gamma"])
        assert run.params["buffer.num_steps"] == 2 ** trial.params["n_steps_pow"]
        assert run.params["network.hidden_sizes"] == layers[trial.params["net_arch"]]
    starts = begun_with("agent=ppo", "warm_start=study:zoo")
    default, *gammas = [config["agent"]["gamma"] for config in starts.values()]
    assert default == 0.99
    assert len(gammas) == 3
    assert gammas == pytest.approx([1 - theirs[number].params["one_minus_gamma"] for number in (2, 1, 0)])
    with pytest.raises(UserError, match="searched ppo, and dqn is searched"):
        begun_with("agent=dqn", "warm_start=study:zoo")


def test_what_the_zoo_makes_of_its_parameters_is_a_value_too(tuner: CommandLine) -> None:
    zoo_study(params=dqn_params)
    lines = bring(tuner, f"storage={THEIRS}", "agent=dqn")
    assert "no key of agent=dqn is known of subsample_steps and target_update_interval" in lines[1]
    run = platform.load("zoo").summary.runs[0]
    assert run.params["buffer.train_freq"] == 8
    assert run.params["buffer.gradient_steps"] == 4
    assert run.params["buffer.target_update_interval"] == 200  # gradient steps, of 400 environment steps


def test_algorithms_of_the_library_keep_the_names_of_their_settings(tuner: CommandLine) -> None:
    zoo_study()
    bring(tuner, f"storage={THEIRS}", "agent=sb3_ppo")
    run = platform.load("zoo").summary.runs[0]
    assert {"agent.gamma", "agent.n_steps", "agent.net_arch", "agent.clip_range"} <= run.params.keys()
    assert run.params["agent.activation_fn"] in ("Tanh", "ReLU")


def test_a_second_import_brings_what_is_new(tuner: CommandLine) -> None:
    foreign = plain_study()
    bring(tuner, f"storage={THEIRS}")
    trial = foreign.ask()
    trial.suggest_float("lr", 1e-5, 1e-1, log=True)
    foreign.tell(trial, 9.0)
    lines = bring(tuner, f"storage={THEIRS}")
    assert lines[0].startswith("7 trials of study lr-search (5 complete, 1 failed and 1 pruned), 1 of them new")
    assert platform.load("lr-search").summary.winner_label == "trial 6"
    assert bring(tuner, f"storage={THEIRS}")[0].endswith(", 0 of them new")
    assert "with other keys" in tuner.refused("import", "study", f"storage={THEIRS}", "keys={lr: optimizer.lr}")


def test_an_import_that_was_broken_off_is_done_anew(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    plain_study()

    def gone(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("tuner.features.imports.study_copy._sign", gone)
        assert tuner("import", "study", f"storage={THEIRS}").status == 130
    with StudyStore(OURS) as store:
        assert store.names() == []
    bring(tuner, f"storage={THEIRS}")
    assert len(platform.load("lr-search").summary.runs) == 6


def test_several_objectives_have_a_front(tuner: CommandLine) -> None:
    study = optuna.create_study(storage=storage_at(THEIRS), study_name="two", directions=["maximize", "minimize"])
    for reward, cost in ((1.0, 1.0), (3.0, 2.0), (2.0, 5.0)):
        trial = study.ask()
        trial.suggest_float("lr", 0.1, 1.0)
        study.tell(trial, [reward, cost])
    bring(tuner, f"storage={THEIRS}")
    result = platform.load("two")
    assert [winner.label for winner in result.winners] == ["trial 0", "trial 1"]
    assert tuner("report", "two").status == 0


def test_a_value_that_is_not_finite_is_none(tuner: CommandLine) -> None:
    study = plain_study()
    params = {"lr": 0.01, "kind": "a"}
    distributions = study.get_trials()[0].distributions
    study.add_trial(create_trial(params=params, distributions=distributions, value=math.inf))
    assert "1 without a finite value" in bring(tuner, f"storage={THEIRS}")[0]
    summary = platform.load("lr-search").summary
    assert summary.winner_label == "trial 5"
    assert (summary.runs[6].outcome, summary.runs[6].value) == (Outcome.DIVERGED, None)


def test_ranges_that_changed_are_one_range(tuner: CommandLine) -> None:
    study = optuna.create_study(storage=storage_at(THEIRS), study_name="wider", direction="maximize")
    for high in (1.0, 10.0):
        trial = study.ask()
        trial.suggest_float("x", 0.5, high)
        study.tell(trial, high)
    bring(tuner, f"storage={THEIRS}")
    assert platform.load("wider").summary.space == {"x": "0.5 .. 10"}


def test_thousands_of_trials_are_copied_in_seconds(tuner: CommandLine) -> None:
    study = optuna.create_study(storage=storage_at(JOURNAL), study_name="large", direction="maximize")
    distributions: dict[str, BaseDistribution] = {"x": FloatDistribution(0, 1)}
    study.add_trials(
        [create_trial(params={"x": n / 300}, distributions=distributions, value=float(n)) for n in range(300)]
    )
    began = time.monotonic()
    bring(tuner, f"storage={JOURNAL}", "storage.url=journal:///studies.journal")
    assert time.monotonic() - began < 5.0
    assert platform.load("large", storage="journal:///studies.journal").summary.winner_label == "trial 299"


def test_studies_of_others_in_our_storage_are_never_in_the_way(tuner: CommandLine) -> None:
    ours = "journal:///studies.journal"
    plain_study(ours, "team/lr", num_trials=3)
    plain_study(ours, "theirs", num_trials=3)
    with pytest.raises(UserError, match=r"no study in .* was made by tuner; there is .*tuner import study"):
        platform.load(storage=ours)
    said = tuner.refused("report", "theirs", "storage=journal")
    assert "was not made by tuner: `tuner import study storage=journal:///studies.journal name=theirs` makes" in said
    said = tuner.refused("report", "team/lr", "storage=journal")
    assert "a study of another program has to be copied first: tuner import study name=team/lr" in said
    with pytest.raises(UserError, match=r"the study team/lr in .* was not made by tuner: `tuner import study"):
        platform.load("team/lr", storage=ours)
    lines = bring(tuner, "name=team/lr", "storage=journal")
    assert lines[2] == f"it is study team-lr here: tuner report team-lr storage.url={ours}"
    bring(tuner, "theirs", "storage=journal")
    with StudyStore(ours) as store:
        assert set(store.names()) == {"team-lr", "theirs-imported"}
        assert store.others() == ["team/lr", "theirs"]
        assert store.find("team", "lr") is not None  # another program's, which is not checked as a stage of ours
    assert platform.load(storage=ours).summary.name in ("team-lr", "theirs-imported")
    assert "needs no import" in tuner.refused("import", "study", "name=team-lr", "storage=journal")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("storage=sqlite:///none.db",), "there is no file none.db"),
        (("storage=none.db",), "storage=none.db: there is no such file"),
        (("storage=memory.txt",), "there is no such file"),
        ((f"storage={JOURNAL}", "name=lr-serch"), "holds no study lr-serch; did you mean lr-search"),
        ((f"storage={JOURNAL}",), "holds 2 studies; there is empty, lr-search: choose one with name=..."),
        ((f"storage={JOURNAL}", "name=empty"), "has no complete trial"),
        ((f"storage={JOURNAL}", "lr-search", "keys={lrr: a.b}"), "the study has no parameter lrr; did you mean lr"),
        ((f"storage={JOURNAL}", "lr-search", "agent=dqn", "keys={lr: optimizer.lr}"), "agent=dqn has no setting"),
        ((f"storage={JOURNAL}", "lr-search", "keys={lr: kind}"), "lr would both be kind|both be kind"),
        ((f"storage={JOURNAL}", "lr-search", "agent=dqnn"), "dqnn"),
        ((f"storage={JOURNAL}", "lr-search", "agent=sb3"), "has several algorithms: name one"),
        ((f"storage={JOURNAL}", "lr-search", "study.name=a/b"), "study.name"),
        (("a", "b"), "study takes one name"),
        (("file=x.yml",), "file is of tuner import zoo"),
    ],
)
def test_what_cannot_be_imported_is_refused(tuner: CommandLine, arguments: tuple[str, ...], message: str) -> None:
    plain_study(JOURNAL, num_trials=3)
    optuna.create_study(storage=storage_at(JOURNAL), study_name="empty").ask()
    said = tuner.refused("import", "study", *arguments)
    assert any(one in said for one in message.split("|")), said


def test_damaged_files_are_refused_and_left_alone(tuner: CommandLine) -> None:
    Path("text.db").write_text("no database\n")
    assert "text.db is no storage of Optuna" in tuner.refused("import", "study", "storage=text.db")
    with sqlite3.connect("other.db") as connection:
        connection.execute("CREATE TABLE recipes (x)")
    Path("two.log").write_text("no record\nno other\n")
    assert "two.log is damaged in line 1" in tuner.refused("import", "study", "storage=two.log")
    assert "holds no studies of Optuna" in tuner.refused("import", "study", "storage=other.db")


def test_a_study_of_ours_is_not_replaced(tuner: CommandLine) -> None:
    other = "journal:///others.log"
    plain_study(num_trials=1)
    plain_study(other, num_trials=1)
    bring(tuner, f"storage={THEIRS}", "storage.url=journal:///studies.journal")
    said = tuner.refused("import", "study", f"storage={other}", "storage.url=journal:///studies.journal")
    assert "/theirs.log already: choose another name" in said


def test_a_study_that_was_begun_anew_is_not_mixed_with_its_former_self(tuner: CommandLine) -> None:
    plain_study()
    bring(tuner, f"storage={THEIRS}")
    Path("theirs.log").unlink()
    plain_study()
    said = tuner.refused("import", "study", f"storage={THEIRS}")
    assert "was begun anew: trial 0 is another one there" in said
    bring(tuner, f"storage={THEIRS}", "study.name=lr-search-2")


def test_the_same_address_from_another_folder_is_another_storage(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = f"storage.url=sqlite:///{tuner.folder / 'all.db'}"
    for name in ("a", "b"):
        (tuner.folder / name).mkdir()
        monkeypatch.chdir(tuner.folder / name)
        plain_study()
        if name == "a":
            bring(tuner, f"storage={THEIRS}", store)
    assert "/a/theirs.log already" in tuner.refused("import", "study", f"storage={THEIRS}", store)


def test_a_study_of_somebody_with_an_attribute_of_that_name_is_kept(tuner: CommandLine) -> None:
    plain_study()
    own = optuna.create_study(storage=OURS, study_name="lr-search")
    own.set_user_attr("tuner:importing", "something else")
    own.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    assert "which is no copy" in tuner.refused("import", "study", f"storage={THEIRS}")
    assert len(optuna.load_study(storage=OURS, study_name="lr-search").trials) == 2


def test_stages_of_our_studies_are_no_studies_of_others(tuner: CommandLine) -> None:
    study = optuna.create_study(storage=OURS, study_name="mine")
    study.set_user_attr("definition", {})
    optuna.create_study(storage=OURS, study_name="mine/confirm")
    assert "holds no study of another program" in tuner.refused("import", "study", f"storage={OURS}")


def test_the_command_takes_one_of_two(tuner: CommandLine) -> None:
    assert "import takes study or zoo" in tuner.refused("import")
    assert "not studdy; did you mean study?" in tuner.refused("import", "studdy")
