"""Findings: what the facts warn of, and what they say to the paper's claims. Each is a row of a table of rules."""
