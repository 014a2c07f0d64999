#include "ops/cuda/gemm/gemm_reference.h"

#include <algorithm>
#include <cmath>

#include <cuda_fp16.h>

namespace nibble::ops::cuda {
namespace {

constexpr int kBlockColumns = 128;

struct Cell {
  const PlainWeights& weights;
  const PlainInt8Inputs& inputs;
  int token;
  int row;
  int offset;  // of the weights' first column among the inputs

  std::int64_t sum(int begin, int end) const {
    std::int64_t total = 0;
    const std::int8_t* codes =
        inputs.codes.data() + static_cast<std::int64_t>(token) * inputs.columns + offset;
    for (int k = begin; k < end; ++k) {
      total += static_cast<std::int64_t>(weights.value(row, k)) * codes[k];
    }
    return total;
  }
  float input_scale(int k) const {
    const int groups = inputs.group == 0 ? 1 : (inputs.columns + inputs.group - 1) / inputs.group;
    const int group = inputs.group == 0 ? 0 : (offset + k) / inputs.group;
    return inputs.scales[static_cast<std::size_t>(token * groups + group)];
  }
};

// One group of 128 after the other, as the kernels do.
float add_groups(const Cell& cell, float y) {
  const int columns = cell.weights.columns;
  for (int k = 0; k < columns; k += kBlockColumns) {
    const auto sum = static_cast<float>(cell.sum(k, std::min(columns, k + kBlockColumns)));
    const float scale = cell.weights.scale(cell.row, k) * cell.weights.factor(cell.row);
    y = cell.inputs.group == 0 ? std::fma(sum, scale, y)
                               : std::fma(sum * scale, cell.input_scale(k), y);
  }
  return y;
}

float cell_of(const Cell& cell, const PlainWeights* tail) {
  if (cell.inputs.group == 0 && cell.weights.group == 0) {
    const auto sum = static_cast<float>(cell.sum(0, cell.weights.columns));
    return sum * cell.weights.scale(cell.row, 0) * cell.input_scale(0);
  }
  float y = add_groups(cell, 0.0f);
  if (tail != nullptr) {
    const int offset = (cell.weights.columns + kBlockColumns - 1) / kBlockColumns * kBlockColumns;
    y = add_groups({*tail, cell.inputs, cell.token, cell.row, offset}, y);
  }
  return cell.inputs.group == 0 ? y * cell.input_scale(0) : y;
}

}  // namespace

std::vector<float> reference_gemm_int8(const PlainWeights& weights, const PlainWeights* tail,
                                       const PlainInt8Inputs& inputs,
                                       const std::vector<float>& bias) {
  std::vector<float> y;
  for (int token = 0; token < inputs.tokens; ++token) {
    for (int row = 0; row < weights.rows; ++row) {
      const float added = bias.empty() ? 0.0f : bias[static_cast<std::size_t>(row)];
      y.push_back(cell_of({weights, inputs, token, row, 0}, tail) + added);
    }
  }
  return y;
}

HalfReference reference_gemm_half(const PlainWeights& weights, const std::vector<float>& inputs,
                                  int tokens, const std::vector<float>& bias) {
  const int columns = weights.columns;
  std::vector<float> rounded;
  for (int row = 0; row < weights.rows; ++row) {
    for (int k = 0; k < columns; ++k) {
      const double exact = static_cast<double>(weights.value(row, k)) * weights.scale(row, k) +
                           static_cast<double>(weights.shift(row, k));
      rounded.push_back(__half2float(__double2half(exact)));
    }
  }
  // Products are exact in float32. Each of the columns' additions errs by at most 2^-22 of the sum
  // of magnitudes: tensor cores cut where others round.
  const double error = (columns + 2) * std::ldexp(1.0, -22);
  HalfReference reference;
  for (int token = 0; token < tokens; ++token) {
    const float* x = inputs.data() + static_cast<std::int64_t>(token) * columns;
    for (int row = 0; row < weights.rows; ++row) {
      const float* w = rounded.data() + static_cast<std::int64_t>(row) * columns;
      double sum = 0.0;
      double magnitude = 0.0;
      for (int k = 0; k < columns; ++k) {
        const double product = static_cast<double>(x[k]) * w[k];
        sum += product;
        magnitude += std::abs(product);
      }
      const auto at = static_cast<std::size_t>(row);
      const double factor = weights.factor(row);
      const double added = bias.empty() ? 0.0 : bias[at];
      reference.y.push_back(sum * factor + added);
      reference.bounds.push_back((magnitude * std::abs(factor) + std::abs(added)) * error);
    }
  }
  return reference;
}

}  // namespace nibble::ops::cuda
