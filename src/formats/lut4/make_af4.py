#!/usr/bin/env python3
"""Solves the AF4 code books and prints lut4/af4_books.h:  make_af4.py > af4_books.h   (numpy, scipy)

A block of B numbers from N(0, 1) is divided by its largest magnitude m. One of them becomes -1 or +1; the
others have the density of a normal cut off at +-m, averaged over m. The book contains -1, 0 and 1; its
other 6 negative and 7 positive values minimise the expected absolute error of rounding to the nearest
value (Yoshida, arXiv 2306.06965, with zero kept as a value of the book).

For the absolute error each free value is the median of the numbers that round to it. That condition,
iterated, converges to the optimum because the density is log-concave.
"""
import numpy as np
from scipy.special import erf

GROUPS = (32, 64, 128, 256)
FREE_NEGATIVE, FREE_POSITIVE = 6, 7
TOLERANCE = 1e-13
NODES = 400


class Magnitude:
    """Distribution of |x| / m for an x that is not the largest of its block."""

    def __init__(self, block):
        nodes, weights = np.polynomial.legendre.leggauss(NODES)
        self.m = 4.5 * (nodes + 1)  # m in (0, 9): beyond it lies less than 256 * 1e-18
        inside = erf(self.m / np.sqrt(2))  # P(|x| <= m)
        density_of_max = inside ** (block - 1) * np.exp(-self.m**2 / 2)
        self.weights = weights * density_of_max / np.sum(weights * density_of_max) / inside

    def cdf(self, t):
        return erf(np.outer(t, self.m) / np.sqrt(2)) @ self.weights

    def density(self, t):
        return np.exp(-np.outer(t, self.m) ** 2 / 2) @ (self.weights * self.m * np.sqrt(2 / np.pi))

    def quantile(self, p, start):
        t = start.copy()
        for _ in range(100):
            step = (self.cdf(t) - p) / self.density(t)
            t = np.clip(t - step, 0, 1)
            if np.max(np.abs(step)) < TOLERANCE:
                return t
        raise RuntimeError("the quantile did not converge")


def free_values(magnitude, count, zero_is_a_value=True):
    """The values between 0 and 1. Without zero as a value, zero only bounds the first cell."""
    values = np.arange(1, count + 1) / (count + 1)
    for _ in range(100000):
        full = np.concatenate([[0.0], values, [1.0]])
        bounds = (full[1:] + full[:-1]) / 2
        if not zero_is_a_value:
            bounds[0] = 0
        edges = magnitude.cdf(bounds)
        medians = magnitude.quantile((edges[1:] + edges[:-1]) / 2, values)
        change = np.max(np.abs(medians - values))
        values = medians
        if change < TOLERANCE:
            return values
    raise RuntimeError("the book did not converge")


def book(block):
    magnitude = Magnitude(block)
    negative = -free_values(magnitude, FREE_NEGATIVE)[::-1]
    positive = free_values(magnitude, FREE_POSITIVE)
    return np.concatenate([[-1.0], negative, [0.0], positive, [1.0]])


def check():
    """The positive half that the paper's program prints for B = 64, where zero only bounds a cell."""
    published = [0.04273164, 0.12934483, 0.21961274, 0.31675666, 0.42563882, 0.55496234, 0.72424863]
    solved = free_values(Magnitude(64), FREE_POSITIVE, zero_is_a_value=False)
    if np.max(np.abs(solved - published)) > 1e-8:
        raise RuntimeError("the published book is not reproduced")


def literal(value):
    text = f"{np.float32(value):.9g}"
    return (text if "." in text else text + ".0") + "f"


def main():
    check()
    print("#pragma once\n")
    print("#include <array>\n")
    print("namespace nibble::formats {\n")
    print("/// AF4 books, ascending, for groups of 32, 64, 128 and 256. Printed by make_af4.py.")
    print(f"inline constexpr std::array<std::array<float, 16>, {len(GROUPS)}> kAf4 = {{{{")
    for group in GROUPS:
        print("    {" + ", ".join(literal(value) for value in book(group)) + "},")
    print("}};\n")
    print("}  // namespace nibble::formats")


if __name__ == "__main__":
    main()
