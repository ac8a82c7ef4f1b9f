"""Trials on the machines of a Ray cluster.

A *seat* is a Ray actor that reserves what a trial may use and holds a LocalExecutor for one trial at a time: fork
server, limits, kills and typed outcomes are those of this machine, on another one. Ray places the seats, carries values
to and from them and notices when their machine dies; everything else is ours.

`executor` is the controller's side, `seat` the actor, `exchange` what the two say to each other, `folder_changes` how
the files of a trial come back. Nothing here is imported unless `executor=ray` is chosen.
"""
