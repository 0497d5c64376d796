"""Program transformations: derivatives, batching, staging."""
