"""How many transitions prioritized replay really draws."""

from note_rl.adaptive import ess
from note_rl.adaptive.signals.base import TrainingView
from note_rl.adaptive.signals.effective_share import EffectiveShare
from note_rl.settings.signals import PRIORITIES, register


@register
class PriorityEss(EffectiveShare):
    """Effective share of the priorities of all that is stored."""

    name = "priority_ess"
    text = "effective share of the stored transitions that priorities let replay draw"
    target = "auto"
    needs = (PRIORITIES,)

    def after_phase(self, view: TrainingView) -> float | None:
        """Reads the priorities as they are now."""
        weights = view.experience.priorities()
        return None if weights is None else ess.of_weights(weights).fraction
