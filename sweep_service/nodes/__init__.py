"""The examination by `sweeps doctor` of every machine of the Ray cluster: its state, its faults and their remedies."""
