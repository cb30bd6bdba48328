"""The runner: one process per sweep, Ray Tune's driver. `python -m sweep_service.runner SWEEP_ID EPOCH`.

driver      connects to Ray, runs Tune, ends the sweep's run
searcher    Tune's hooks, each a few lines: what they mean is in ledger
ledger      between Tune and the store: which trial comes next, what it reported, how it ended
stages      what a sweep needs next, as a pure function of its rows
recovery    attempts that an earlier runner left behind
lease       holds the sweep while Tune's loop moves
cluster     connecting to Ray, and how many trials fit it
trial       the thin actor around one trainer
trainer     a trainer at work: its events, its ending
launch      two ways to start it: a fresh interpreter, or a fork of
preloaded   a process that has the imports behind it
"""
