"""The runner: one process per sweep, Ray Tune's driver. `python -m sweep_service.runner SWEEP_ID EPOCH`.

driver           connects to Ray, waits for nodes, runs Tune, says where the sweep stands
wishes           reads what the user wishes of the sweep; everybody asks it
cost_probe       measures, before the first trial, what a trial costs
searcher         Tune's hooks, each a few lines: their meaning is in ledger
ledger           between Tune and the store: attempts begin, report and end
waiting_work     the trial or evaluation that comes next
jobs             made from rows, for actors to run
stages           the next configs and trials of a sweep, as a pure function of its rows
recovery         ends attempts that an earlier runner left behind
lease            holds the sweep while Tune's loop moves
cluster          connects to Ray, and tells what fits its nodes
trial_actor      the thin actor around one trainer, with its deadline
leftovers        removes checkpoints and kept models that nobody needs any more
trainer_process  a trainer at work: its events, its end
trainer_launch   starts a trainer in a fresh interpreter, or as a fork of
preloaded        a process that has imported torch already
"""
