"""Random models through every verb: what comes out computes the same, or the verb says no."""
