"""The Hydra sweeper `hydra/sweeper=optuna`: the jobs of any Hydra application as trials of a study.

`settings` what the user set; `grammar` the search; `run` the controller's side; `job` what a trial's process runs. The
class that Hydra finds is in `plugin/`. Nothing is imported here, as each job's process imports this package.
"""
