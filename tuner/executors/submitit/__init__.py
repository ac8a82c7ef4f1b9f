"""Trials as jobs of Slurm, or as processes that stand for such jobs, by submitit.

A job is a seat (`tuner.executors.remote`): it runs trials one after the other until the study ends, its time is over or
the controller is gone. It connects to the controller, which asks it what has happened. `job_seat` is what a job runs,
`job_cluster` the controller's side. Nothing here is imported unless `executor=submitit` is chosen.
"""
