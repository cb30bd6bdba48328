"""Named parameters, the values they may take, and who proposes the next point."""
