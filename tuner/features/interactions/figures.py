"""The figure of interactions."""

import html
from typing import Final

from tuner.features.interactions.facts import Interactions
from tuner.reporting.figures.parameter_effects import bars_layout, chance_marks, importance_bars
from tuner.trial.messages import JsonDict

MAX_PAIRS: Final = 8


def interactions_figure(found: Interactions) -> JsonDict:
    """The pairs of parameters that do most together, with what chance alone would reach."""
    shown, chance = found.pairs[:MAX_PAIRS][::-1], found.chance
    words = [f"{first} x {second}" for first, second, _ in shown]
    shares = {pair: share for pair, (_, _, share) in zip(words, shown, strict=True)}
    labels = [f"{html.escape(pair)} {share:.0%}" for pair, share in shares.items()]
    data = [
        importance_bars(labels, shares, dict.fromkeys(shares, chance)),
        chance_marks(labels, [chance] * len(shown)),
    ]
    return {"data": data, "layout": bars_layout(len(shown))}
