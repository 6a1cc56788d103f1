"""Fit counts = A·2^(-t/T) + B to the counts, with Poisson errors, and write the answer."""

import csv
import json
import sys
from math import log, sqrt


def model(t, amplitude, half_life, background):
    """The expected counts at t minutes, and their derivatives by the three parameters."""
    decay = 2.0 ** (-t / half_life)
    slope = amplitude * decay * log(2) * t / half_life**2
    return amplitude * decay + background, (decay, slope, 1.0)


def inverse(m):
    """The inverse of a 3 × 3 matrix."""
    cofactor = [
        [
            m[(i + 1) % 3][(j + 1) % 3] * m[(i + 2) % 3][(j + 2) % 3]
            - m[(i + 1) % 3][(j + 2) % 3] * m[(i + 2) % 3][(j + 1) % 3]
            for j in range(3)
        ]
        for i in range(3)
    ]
    determinant = sum(m[0][j] * cofactor[0][j] for j in range(3))
    return [[cofactor[j][i] / determinant for j in range(3)] for i in range(3)]


def fit(points):
    """Gauss-Newton with weights from the model: the parameters and their covariance."""
    guess = [points[0][1] - points[-1][1], points[len(points) // 6][0], points[-1][1]]
    covariance = []
    for _ in range(100):
        matrix = [[0.0] * 3 for _ in range(3)]
        gradient = [0.0] * 3
        for t, count in points:
            expected, d = model(t, *guess)
            weight = 1 / expected
            for i in range(3):
                gradient[i] += weight * d[i] * (count - expected)
                for j in range(3):
                    matrix[i][j] += weight * d[i] * d[j]
        covariance = inverse(matrix)
        step = [sum(covariance[i][j] * gradient[j] for j in range(3)) for i in range(3)]
        guess = [old + new for old, new in zip(guess, step, strict=True)]
        if all(abs(s) < 1e-10 * abs(g) for s, g in zip(step, guess, strict=True)):
            break
    return guess, covariance


with open(sys.argv[1], newline="") as file:
    points = [(float(row["minute"]), int(row["counts"])) for row in csv.DictReader(file)]
(amplitude, half_life, background), covariance = fit(points)
with open("answer.json", "w") as file:
    json.dump(
        {
            "half_life_min": round(half_life, 3),
            "uncertainty_min": round(sqrt(covariance[1][1]), 3),
        },
        file,
    )
print(f"half-life {half_life:.2f} +- {sqrt(covariance[1][1]):.2f} min, background {background:.1f}")
