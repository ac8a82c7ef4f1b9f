"""Imports of other programs' results: studies in an Optuna storage, and settings of RL Baselines3 Zoo.

`foreign_storage.py` reads a storage and leaves it as it is, `foreign_parameters.py` finds the key here of each
parameter, and `study_copy.py` writes the copy that is a study of ours. `zoo_files.py` reads the files of the Zoo,
`own_settings.py` and `library_settings.py` write an entry as settings of our agents or of Stable-Baselines3 itself.
"""
