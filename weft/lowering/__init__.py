"""jaxpr → StableHLO with Shardy attributes."""
