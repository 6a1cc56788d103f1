#!/usr/bin/env python3
"""Newton's method, from a start that converges for every eccentricity below 1."""

from math import cos, pi, sin

e, mean = 0.967, 0.25
anomaly = pi
for _ in range(100):
    anomaly -= (anomaly - e * sin(anomaly) - mean) / (1 - e * cos(anomaly))
with open("answer.txt", "w") as file:
    file.write(f"{anomaly:.12f}\n")
