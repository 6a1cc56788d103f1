#!/bin/bash
cat > stats.py <<'PYTHON'
def weighted_median(values, weights):
    """The smallest value that has at least half of the weight at or below it."""
    if not values or len(values) != len(weights):
        raise ValueError("values and weights must be of the same length, and not empty")
    if min(weights) < 0 or sum(weights) == 0:
        raise ValueError("weights must not be negative, and not all 0")
    half = sum(weights) / 2
    below = 0
    for value, weight in sorted(zip(values, weights)):
        below += weight
        if below >= half and weight > 0:
            return value
PYTHON
