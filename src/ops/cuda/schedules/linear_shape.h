#pragma once

#include <cstdint>
#include <string>

#include "formats/scheme.h"
#include "ops/cuda/gemm/gemm.h"
#include "ops/cuda/packed/unit_format.h"
#include "ops/linear_kernel.h"

namespace nibble::ops::cuda {

/// Inputs of a stored activation scale of a layer whose weights lie in units of this format; 0: all
/// of a token. Of rounded activations, or 128 for those of 16 bits.
std::int64_t scale_step_of(const formats::Scheme& scheme, const UnitFormat& format);

/// All of a compressed linear layer that the speed of its kernels depends on.
struct LinearShape {
  UnitFormat format;
  bool row_scale = false;                 // all groups of a row have the same scale (and zero)
  GemmInputs inputs = GemmInputs::kHalf;  // of many tokens; with kHalf, few come in two digits
  std::int64_t tail = 0;                  // INT8 inputs behind the k others
  std::int64_t n = 0;
  std::int64_t k = 0;

  std::string code = {};  // of kBytes: the first word of the scheme, "fp8"

  int digits() const { return inputs == GemmInputs::kHalf ? 2 : 1; }
  /// Why medium_batch.h does not compute m tokens of it, where the device has kernels for the
  /// format.
  Refusal medium_refusal(std::int64_t m) const;
  bool is_medium(std::int64_t m) const { return !medium_refusal(m); }
  friend bool operator==(const LinearShape&, const LinearShape&) = default;
};

/// Of n rows and k inputs (with those of a tail) by a compressed scheme. Throws kUsage for one that
/// no kernel computes.
LinearShape linear_shape(const formats::Scheme& scheme, std::int64_t n, std::int64_t k);

/// "int4 g128, 16-bit inputs, 4096 x 11008": codes, the inputs that share a scale at the most (or
/// row), activations, n x k (+ tail).
std::string to_string(const LinearShape& shape);

}  // namespace nibble::ops::cuda
