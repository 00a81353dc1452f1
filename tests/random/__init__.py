"""Models that nobody wrote: drawn at random, put through every verb, and run beside their source."""
