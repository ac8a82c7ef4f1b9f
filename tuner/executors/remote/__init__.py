"""Trials on other machines, whatever starts processes there.

A *seat* is a process on another machine that holds a LocalExecutor for one trial at a time: fork server, limits, kills
and typed outcomes are those of this machine. A `Cluster` of seven methods starts seats, carries questions and answers,
and notices that a seat is lost: Ray is one, submitit another. Everything else is here.

`remote_executor` is the controller's side, `seat` the far end, `exchange` what the two say to each other, `place` a
seat as the controller sees it, `folder_changes` how the files of a trial come back.
"""
