"""Intervals, tests and fits of the report. Pure numbers: knows no sweep."""
