"""What `sweeps doctor` learns of every machine of the Ray cluster: what is there, what is wrong, what helps."""
