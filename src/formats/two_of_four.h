#pragma once

#include <cstdint>
#include <span>

#include "formats/packed_weight.h"

/// 2:4 sparsity (arXiv 2104.08378, section 3): of each four consecutive inputs of a row two weights
/// are stored, with an index of 2 bits each, and the others are 0. The four bits of a four are as
/// the metadata of NVIDIA's mma.sp has them (PTX ISA, "sparse matrix storage"):
///
///   row          0  a  0  b | c  d  0  0 | ...
///   codes        a  b  c  d ...
///   indices      1101 (3, 1)   0100 (1, 0)  ...     bits of a four, the first index lowest
///
/// Where fewer than two weights are not 0, zeros are stored beside them: the first ones.
namespace nibble::formats {

/// Which of four inputs are stored; first < second in a valid weight.
struct KeptPair {
  int first = 0;
  int second = 0;
};
KeptPair kept_pair(const PackedWeight& weight, std::int64_t row, std::int64_t four);

/// Writes the codes that are stored for inputs [begin, begin + codes.size()) of a row to their
/// places. `begin` and the size are multiples of 4.
void put_kept_codes(const PackedWeight& weight, std::int64_t row, std::int64_t begin,
                    std::span<std::uint8_t> codes);

/// A row of floats: out[k].
void decode_kept_values(const PackedWeight& weight, std::int64_t row, std::span<float> out);

/// A valid weight, dense or with codes, that stores what is not 0 of it; weights with codes are 0
/// where they equal their zero. Throws kInvalidModel where there is no such scheme, and naming row
/// and inputs of four weights of which more than two are not 0.
PackedWeight to_two_of_four(const PackedWeight& full);

}  // namespace nibble::formats
