#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include <cuda_fp16.h>

#include "ops/cuda/gemm/gemm.h"
#include "ops/cuda/gemm/gemm_reference.h"

/// Random problems for the tests of the GEMM kernels, as numbers and in the kernels' layouts.
namespace nibble::ops::cuda {

/// What weights look like.
struct WeightKind {
  CodeKind codes = CodeKind::kInt4;
  int group = 128;  // 0: one scale for each row
};

struct TestWeights {
  PlainWeights plain;
  std::vector<int> codes;           // unsigned, [rows][columns]
  std::vector<int> zeros;           // of unsigned codes, [rows][groups]
  std::vector<std::int8_t> tables;  // of books: [row groups * 64][16]
  std::vector<std::uint8_t> units;  // packed
  GemmWeights view;                 // with no addresses yet
};

TestWeights make_weights(const WeightKind& kind, int rows, int columns, std::mt19937& random);

/// Codes in [low, high], scales around 0.01.
PlainInt8Inputs make_int8_inputs(int tokens, int columns, int group, int low, int high,
                                 std::mt19937& random);

/// Values that float16 holds.
std::vector<float> make_half_inputs(int tokens, int columns, std::mt19937& random);

/// Rows of k_padded values in tile order.
std::vector<std::int8_t> in_tile_order(const PlainInt8Inputs& inputs, int padded);
std::vector<__half> in_tile_order(const std::vector<float>& inputs, int tokens, int columns,
                                  int padded);

/// The first place where two results differ in a bit, or -1.
std::int64_t first_difference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace nibble::ops::cuda
