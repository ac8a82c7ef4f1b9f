"""How evenly importance weights let the transitions of a minibatch count."""

import math

from note_rl.adaptive import ess
from note_rl.adaptive.signals.base import TrainingView
from note_rl.adaptive.signals.effective_share import EffectiveShare
from note_rl.settings.signals import IMPORTANCE_WEIGHTS, PRIORITIES, register
from note_rl.types import Sample, Update


@register
class WeightEss(EffectiveShare):
    """Effective share of the importance weights of an update block."""

    name = "weight_ess"
    text = "effective share of a minibatch under the importance weights of prioritized replay"
    target = "auto"
    needs = (PRIORITIES, IMPORTANCE_WEIGHTS)

    def after_update(self, sample: Sample, update: Update, view: TrainingView) -> float:
        """Reads the weights that were used."""
        return math.nan if sample.weights is None else ess.of_weights(sample.weights).fraction
