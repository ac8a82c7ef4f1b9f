"""Re-exports `note_rl.agents.shared.keras.choices` under the path that configurations and manuals name."""

from note_rl.agents.shared.keras.choices import Choice, OneOf, OneOfEach, Switches, choice_of, where_allowed

__all__ = ["Choice", "OneOf", "OneOfEach", "Switches", "choice_of", "where_allowed"]
