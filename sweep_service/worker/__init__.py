"""The worker: claims sweeps, keeps one runner process alive for each, and builds reports."""
