"""Models that nobody wrote: drawn at random, converted, and run beside their source."""
