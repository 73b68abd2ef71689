"""The parts of `scripts/api-drift`."""
