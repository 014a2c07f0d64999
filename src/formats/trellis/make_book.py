"""Writes trellis_book.h: the values of trellis codes.

256 quantiles of the normal distribution, (i + 1/4) / 255.5 for i = 0 to 255, scaled so that the
largest is 127, and rounded. Taking quantiles at the middles of equal shares, (i + 1/2) / 256, would
leave the tails out: at 4 bits the mean squared error is then 3 % larger.

    python3 make_book.py > trellis_book.h
"""

from statistics import NormalDist

SIZE = 256
MARGIN = 0.25


def book():
    """The values of hashes 0 to 255."""
    quantile = NormalDist().inv_cdf
    upper = [quantile((i + MARGIN) / (SIZE - 1 + 2 * MARGIN)) for i in range(SIZE // 2, SIZE)]
    positive = [round(127 * value / upper[-1]) for value in upper]
    return [-value for value in reversed(positive)] + positive


def main():
    values = book()
    rows = [values[i : i + 16] for i in range(0, SIZE, 16)]
    body = ",\n".join("    " + ", ".join(str(value) for value in row) for row in rows)
    print(
        f"""// Written by make_book.py.

#pragma once

#include <array>
#include <cstdint>

namespace nibble::formats {{

/// The values of trellis codes by the hash of a state (trellis_code.h): quantiles of the normal
/// distribution.
inline constexpr std::array<std::int8_t, {SIZE}> kTrellisBook = {{
{body}}};

}}  // namespace nibble::formats"""
    )


if __name__ == "__main__":
    main()
