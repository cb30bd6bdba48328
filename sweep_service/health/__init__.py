"""The health of runs, by their curves: figures that reports show, and the table of signs that all is not well."""
