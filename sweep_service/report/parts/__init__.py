"""One module for each further part of the report, made from the facts."""
