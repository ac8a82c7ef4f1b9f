"""What each command's configuration must hold: the sections with their types and ranges, and the parts that are built.

One table for all commands. A section is a dataclass whose fields are its keys and whose `__post_init__` refuses what is
out of range; a part is an object described by a `_target_` and its arguments, whose signature says what it takes.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from tuner.checking.section_types import (
    AblateValues,
    CompareValues,
    DashboardValues,
    DoctorValues,
    EvolutionConfig,
    ExportValues,
    OptionsValues,
    PlayedEvaluation,
    PlayValues,
    PlotValues,
    PruningConfig,
    ReportValues,
    RunValues,
    StorageConfig,
    StudyConfig,
    StudyPlace,
    TrainValues,
    TuneValues,
)
from tuner.config.composing import BUILT_MAPPINGS, SECTIONS


@dataclass(frozen=True)
class Part:
    """One object, or any number of them by name.

    Attributes:
        optional: Whether there may be none.
        several: Whether it is a group of objects by name.
        filled_in: Arguments that only `tuner` knows.
        whole: Whether all its other arguments stand in the configuration, one of the user's own included.
    """

    optional: bool = False
    several: bool = False
    filled_in: tuple[str, ...] = ()
    whole: bool = False


@dataclass(frozen=True)
class Schema:
    """The configuration of one command.

    Attributes:
        values: A dataclass of the plain values at the top.
        sections: By key, the dataclass of a group of settings.
        parts: By key, what is built.
        free: Groups that somebody else reads, such as the search space.
        optional: Sections that may be missing.
    """

    values: type
    sections: Mapping[str, type] = field(default_factory=dict)
    parts: Mapping[str, Part] = field(default_factory=dict)
    free: tuple[str, ...] = ()
    optional: tuple[str, ...] = ("checkpoint",)


_RUN_PARTS: Mapping[str, Part] = {
    "agent": Part(filled_in=("env", "network", "critic_network", "device", "state_dim", "action_dim"), whole=True),
    "network": Part(filled_in=("input_shape", "num_outputs")),
    "optimizer": Part(filled_in=("parameters",)),
    "buffer": Part(whole=True),
    "policy": Part(filled_in=("noise",), whole=True),
    "noise": Part(optional=True, whole=True),
    "collector": Part(optional=True, whole=True),
    "adaptive": Part(optional=True, whole=True),
    "plateau": Part(optional=True, whole=True),
    "strategy": Part(optional=True, whole=True),
    "progress": Part(optional=True, filled_in=("console",), whole=True),
    **{name: Part(several=True, filled_in=("env",), whole=True) for name in BUILT_MAPPINGS},
}
_OF_A_FUNCTION = frozenset({"training", "evaluation", "agent", "tracker", "checkpoint", "progress"})
_FUNCTION = Part(filled_in=("seed",), whole=True)
_CORE = frozenset({"backend", "env", "network", "optimizer", "buffer", "policy"})
_STUDY_SECTIONS: Mapping[str, type] = {"storage": StorageConfig, "study": StudyPlace}

SCHEMAS: Mapping[str, Schema] = {
    "train": Schema(TrainValues, SECTIONS, _RUN_PARTS),
    "compare": Schema(CompareValues, SECTIONS, {**_RUN_PARTS, "executor": Part()}),
    "tune": Schema(
        TuneValues,
        {
            **SECTIONS,
            **_STUDY_SECTIONS,
            "study": StudyConfig,
            "study.pruning": PruningConfig,
            "study.evolution": EvolutionConfig,
        },
        {**_RUN_PARTS, "sampler": Part(filled_in=("space",)), "pruner": Part(whole=True), "executor": Part()},
        free=("space",),
    ),
    "find": Schema(RunValues, {**SECTIONS, **_STUDY_SECTIONS}, {**_RUN_PARTS, "executor": Part()}, free=("finder",)),
    "options": Schema(OptionsValues, SECTIONS, _RUN_PARTS, free=("space",)),
    "play": Schema(PlayValues, {"evaluation": PlayedEvaluation}),
    "export": Schema(ExportValues),
    "plot": Schema(PlotValues),
    "report": Schema(ReportValues, _STUDY_SECTIONS, {"tracker": Part(several=True)}),
    "ablate": Schema(AblateValues, _STUDY_SECTIONS, {"executor": Part(), "tracker": Part(several=True)}),
    "dashboard": Schema(DashboardValues, {"storage": StorageConfig}),
    "doctor": Schema(DoctorValues, {"storage": StorageConfig}, {"executor": Part()}),
}
"""By primary config."""


def schema_of(command: str, present: Collection[str]) -> Schema:
    """What the configuration of a command must hold.

    Args:
        command: Its primary config; one of the user's own is that of a training run.
        present: The parts that there are. A function in the place of an agent has no framework, and no environment,
            network and so on either; where only some of these are missing, they have been forgotten.
    """
    schema = SCHEMAS.get(command, SCHEMAS["train"])
    run = {*SECTIONS, *_RUN_PARTS} - _OF_A_FUNCTION
    if len(_CORE.intersection(present)) > 1 or "agent" not in schema.parts:
        return schema
    return replace(
        schema,
        sections={path: section for path, section in schema.sections.items() if path not in run},
        parts={**{path: part for path, part in schema.parts.items() if path not in run}, "agent": _FUNCTION},
    )
