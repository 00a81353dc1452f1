"""Where two models part: the first value that differs, what computes it, and the smallest pair that shows it."""
