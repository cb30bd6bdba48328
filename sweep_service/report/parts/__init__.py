"""One module for each part of the report, made from the facts: verdict, ties, claims, warnings and the rest."""
