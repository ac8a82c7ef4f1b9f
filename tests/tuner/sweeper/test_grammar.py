"""Hydra's sweep grammar as a search space; expected distributions and overrides by hand."""

from pathlib import Path
from typing import Any

import pytest
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from tuner.config.overrides import to_hydra
from tuner.errors import UserError
from tuner.sweeper.grammar import SweepSpace, parse_sweep


def the_one(*arguments: str) -> BaseDistribution:
    (distribution,) = parse_sweep({}, arguments).space.distributions().values()
    return distribution


@pytest.mark.parametrize(
    ("sweep", "expected"),
    [
        ("choice(a,b)", CategoricalDistribution(["a", "b"])),
        ("a,b", CategoricalDistribution(["a", "b"])),
        ("choice(2,2.5,true)", CategoricalDistribution([2, 2.5, True])),
        ("choice('1',1)", CategoricalDistribution(["1", 1])),
        ("choice([1,2],{x:1})", CategoricalDistribution(["[1, 2]", '{"x": 1}'])),
        ("null,a", CategoricalDistribution([None, "a"])),
        ("shuffle(1,2)", CategoricalDistribution([1, 2])),
        ("shuffle(range(3))", IntDistribution(0, 2)),
        ("sort(3,1,2)", CategoricalDistribution([1, 2, 3])),
        ("sort(choice(3,1))", CategoricalDistribution([1, 3])),
        ("sort(range(5,1,-2))", IntDistribution(3, 5, step=2)),
        ("range(1,5)", IntDistribution(1, 4)),
        ("range(3)", IntDistribution(0, 2)),
        ("range(1,10,3)", IntDistribution(1, 7, step=3)),
        ("range(1,11,step=3)", IntDistribution(1, 10, step=3)),
        ("range(5,1,-2)", IntDistribution(3, 5, step=2)),
        ("range(0,1,0.25)", FloatDistribution(0.0, 0.75, step=0.25)),
        ("range(0.1,0.5,0.1)", FloatDistribution(0.1, 0.4, step=0.1)),
        ("float(range(1,5))", FloatDistribution(1.0, 4.0, step=1.0)),
        ("tag(log,range(1,100))", IntDistribution(1, 99, log=True)),
        ("interval(0,1)", FloatDistribution(0.0, 1.0)),
        ("tag(log,interval(1e-5,1e-2))", FloatDistribution(1e-5, 1e-2, log=True)),
        ("int(interval(1,5))", IntDistribution(1, 5)),
        ("int(tag(log,interval(1,500)))", IntDistribution(1, 500, log=True)),
        ("tag(log,int(interval(1,500)))", IntDistribution(1, 500, log=True)),
    ],
)
def test_a_sweep_becomes_a_distribution(sweep: str, expected: BaseDistribution) -> None:
    assert the_one(f"x={sweep}") == expected


@pytest.mark.parametrize(
    ("params", "arguments", "words"),
    [
        (
            {},
            ["+a={b:1}", "++a.b=choice(5,6)", "++a.b=9"],
            "++a.b=9 comes after ++a.b=choice(5,6) and takes its choice away",
        ),
        ({"x": "interval(0,1)"}, ["x=3"], "x=3 comes after x=interval(0,1) and takes its choice away"),
        ({"x": "interval(0,1)"}, ["~x"], "~x comes after x=interval(0,1) and takes its choice away"),
        (
            {},
            ["x=1,2", "y=1,2", "x=1", "y=2"],
            "x=1 comes after x=1,2 and takes its choice away; y=2 comes after y=1,2",
        ),
    ],
)
def test_a_choice_that_a_later_override_takes_away_is_named(
    params: dict[str, str], arguments: list[str], words: str
) -> None:
    with pytest.raises(UserError) as refusal:
        parse_sweep(params, arguments)
    assert str(refusal.value).startswith(f"nothing is searched: {words}")
    assert "give hydra/sweeper" not in str(refusal.value)
    assert parse_sweep(params, [*arguments, "z=1,2"]).space.paths == ("z",), "fixing what others search is a right"


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ("x=sort(3,b)", r"x=sort\(3,b\): '<' not supported"),
        ("x=glob(*)", "must stay the same"),
        ("~x=1,2", "leave the ~ out"),
        ("x=choice(nan,1.0)", "nan is equal to nothing"),
        ("x=a=b", "cannot read 'x=a=b'.*: x='a=b'"),
        ("x=choice()", r"^x=choice\(\): empty choice is not legal$"),
        ("x=interval(a,b)", r"^x=interval\(a,b\): mismatch type argument start"),
        ("x=tag(fast,choice(1,2))", "tag fast means nothing"),
        ("x=tag(log,choice(1,2))", "no logarithmic scale"),
        ("x=tag(log,interval(0,1))", "begins above 0"),
        ("x=tag(log,range(0,5))", "begins above 0"),
        ("x=tag(log,range(1,9,2))", "steps on a logarithmic scale"),
        ("x=interval(1,0)", "the interval is empty"),
        ("x=interval(0,inf)", "endless"),
        ("x=range(1,1)", "the range is empty"),
        ("x=range(1,5,-1)", "the range is empty"),
        ("x=range(1,5,0)", "step must not be 0"),
        ("x=[choice(1,2),3]", "inside of a list"),
        ("x={a:range(3)}", "inside of a list or mapping"),
        ("x=choice([choice(1,2)],3)", "inside of a choice"),
        ("x=choice(choice(1,2),3)", "inside of a choice"),
        ("x=choice(interval(0,1),2)", "IntervalSweep"),
        ("x=choice(a,a)", "there twice"),
        ("x=choice(1,1.0)", "the choice 1.0 is there twice, as a sampler does not tell 1 from 1.0"),
        ("x=choice(true,1)", "the choice 1 is there twice, as a sampler does not tell true from 1"),
        ("x=choice(", "quote"),
        ("x=1", "nothing is searched"),
    ],
)
def test_what_has_no_meaning_in_a_search_is_refused(argument: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        parse_sweep({}, [argument])


def test_a_plus_is_part_of_the_override_but_not_of_the_name() -> None:
    space = parse_sweep({}, ["+a=1,2", "++b.c=choice(x)", "db@backup=choice(mysql,sqlite)", "~d", "e=5", "+f=[1,2]"])
    assert space.space.paths == ("a", "b.c", "db@backup")
    assert space.fixed == ("~d", "e=5", "+f=[1,2]")
    assert space.overrides({"a": 2, "b.c": "x", "db@backup": "mysql"}) == [
        *("+a=2", "++b.c=x", "db@backup=mysql"),
        *("~d", "e=5", "+f=[1,2]"),
    ]


def test_overrides_keep_their_order_as_the_last_one_wins() -> None:
    space = parse_sweep({"p": 1, "q": "range(3)"}, ["+a=choice({b:1},{b:2})", "++a.b=7", "x=3,4", "p=5", "+a.c=6"])
    overrides = space.overrides({"q": 2, "a": {"b": 1}, "x": 4})
    assert overrides == ["q=2", "+a={b:1}", "++a.b=7", "x=4", "p=5", "+a.c=6"]
    assert space.searched(overrides) == ["q=2", "+a={b:1}", "x=4"]


def test_a_pattern_of_names_is_answered_with_the_names(tmp_path: Path) -> None:
    for name in ("small", "large", "other"):
        (tmp_path / "model" / f"{name}.yaml").parent.mkdir(exist_ok=True)
        (tmp_path / "model" / f"{name}.yaml").write_text("size: 1")
    with initialize_config_dir(str(tmp_path), version_base=None), pytest.raises(UserError) as refused:
        parse_sweep({}, ["model=glob(*,exclude=o*)"], GlobalHydra.instance().config_loader())
    assert str(refused.value).endswith("list them: model=choice(large,small)")


def test_a_param_that_cannot_be_read_is_named_with_its_value_as_yaml_has_a_text() -> None:
    with pytest.raises(UserError) as refused:
        parse_sweep({"x": "interval(0, 1)", "connection": "driver=odbc"}, [])
    assert str(refused.value).startswith("hydra.sweeper.params.connection: cannot read 'connection=driver=odbc'")
    assert str(refused.value).endswith("""in YAML connection: "'driver=odbc'\"""")
    assert parse_sweep({"x": "interval(0, 1)", "connection": "'driver=odbc'"}, []).fixed == (
        "connection='driver=odbc'",
    )


def test_the_command_line_wins_over_params() -> None:
    params = {"x": "interval(0,1)", "y": "choice(1,2)", "z": 3, "w": [1, 2], "+v": "range(4)"}
    space = parse_sweep(params, ["x=0.5", "++v=choice(a,b)", "y=range(7)"])
    assert space.space.distributions() == {"v": CategoricalDistribution(["a", "b"]), "y": IntDistribution(0, 6)}
    assert space.fixed == ("z=3", "w=[1,2]", "x=0.5")
    assert space.overrides({"v": "a", "y": 3}) == ["z=3", "w=[1,2]", "x=0.5", "++v=a", "y=3"]


VALUES: list[Any] = [
    *(
        "plain",
        "a,b",
        "1",
        "true",
        "null",
        "",
        "a b",
        "it's",
        'say "x"',
        "back\\",
        "\\'",
        "[x]",
        "{a:1}",
        "a=b",
        "1e-3",
    ),
    *(
        "${oc.env:HOME}",
        "ü",
        " lead",
        1,
        -2.5,
        1e-300,
        True,
        False,
        None,
        [1, "2", [None, "a,b"]],
        {"k": {"l": "m, n"}},
    ),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_is_read_back_as_it_was(value: object) -> None:
    (override,) = OverridesParser.create().parse_overrides([f"k={to_hydra(value)}"])
    assert override.value() == value
    assert type(override.value()) is type(value)


def drawn(space: SweepSpace, label: Any) -> list[str]:
    """The overrides of the job for which Optuna has drawn this."""
    (parameter,) = space.space.parameters
    return space.overrides({parameter.path: parameter.value(label, {})})


@pytest.mark.parametrize(
    ("sweep", "label", "override"),
    [
        ("choice('1',2)", "1", "x='1'"),
        ("choice('1',2)", 2, "x=2"),
        ("choice('a,b','c d')", "a,b", "x='a,b'"),
        ("choice([1,'2'],[3])", '[1, "2"]', "x=[1,'2']"),
        ("choice({lr:0.1,name:'a:b'},{lr:1})", '{"lr": 0.1, "name": "a:b"}', "x={lr:0.1,name:'a:b'}"),
        ("range(0,1,0.1)", 0.1 * 3, "x=0.3"),
        ("range(1,5)", 4, "x=4"),
        ("tag(log,interval(1e-5,1e-2))", 0.00012345678901234567, "x=0.00012345678901234567"),
        ("null,a", None, "x=null"),
    ],
)
def test_what_was_drawn_becomes_an_override(sweep: str, label: Any, override: str) -> None:
    assert drawn(parse_sweep({}, [f"x={sweep}"]), label) == [override]


def test_variants_have_every_choice_and_both_ends() -> None:
    space = parse_sweep({}, ["f=1", "m=choice(a,b,c)", "x=interval(0,1)"])
    assert space.variants == [
        *(["f=1", "m=a", "x=0.0"], ["f=1", "m=b", "x=0.0"], ["f=1", "m=c", "x=0.0"]),
        ["f=1", "m=a", "x=1.0"],
    ]


def test_the_grid_of_a_space() -> None:
    space = parse_sweep({}, ["m=choice(a,[1])", "n=range(2,8,2)", "x=range(0,0.5,0.2)", "y=interval(0,1)"])
    assert space.grid() == {"m": ["a", "[1]"], "n": [2, 4, 6], "x": [0.0, 0.2, 0.4], "y": None}
