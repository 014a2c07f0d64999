#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define NIBBLE_ON_BOTH __host__ __device__ __forceinline__
#else
#define NIBBLE_ON_BOTH inline
#endif

/// How many numbers travel between GPUs: float32 without its last eight bits, so 1 + 8 + 15. The
/// range is that of float32 and the error at most 2^-16 of a number, far below that of the 16 bits
/// in which activations are multiplied.
namespace nibble::ops::cuda {

/// The bits of a float32, rounded (halves away from 0), without the last eight, which are 0.
/// Infinities and NaN stay; numbers that round beyond the range become infinite.
NIBBLE_ON_BOTH std::uint32_t wire_bits(std::uint32_t bits) {
  const bool finite = (bits & 0x7f800000u) != 0x7f800000u;
  return (bits + (finite ? 0x80u : 0u)) & 0xffffff00u;
}

/// Four numbers in three words.
struct WireWords {
  std::uint32_t words[3];
};

NIBBLE_ON_BOTH WireWords to_wire(const std::uint32_t bits[4]) {
  const std::uint32_t last = wire_bits(bits[3]);  // its three bytes fill the others' last ones
  return {{wire_bits(bits[0]) | (last >> 24), wire_bits(bits[1]) | ((last >> 16) & 0xffu),
           wire_bits(bits[2]) | ((last >> 8) & 0xffu)}};
}

NIBBLE_ON_BOTH void from_wire(const WireWords& wire, std::uint32_t bits[4]) {
  bits[3] = 0;
  for (int i = 0; i < 3; ++i) {
    bits[i] = wire.words[i] & 0xffffff00u;
    bits[3] |= (wire.words[i] & 0xffu) << (24 - 8 * i);
  }
}

}  // namespace nibble::ops::cuda

#undef NIBBLE_ON_BOTH
