#include "compress/trellis/trellis_rounding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "compress/trellis/viterbi.h"
#include "core/error.h"
#include "core/float16.h"
#include "formats/finite.h"
#include "formats/fp16_scale.h"
#include "formats/trellis/trellis_code.h"

namespace nibble::compress {
namespace {

using formats::kRunInputs;
using formats::kRunRows;
using formats::kRunWeights;

constexpr std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

/// Deviation of the values of the book, whose mean is 0.
double book_deviation() {
  double squares = 0;
  for (const std::int8_t value : formats::kTrellisBook) {
    squares += static_cast<double>(value) * value;
  }
  return std::sqrt(squares / formats::kTrellisBook.size());
}

/// Rows [first, first + 16) of a layer.
class RunRows {
 public:
  RunRows(std::span<const float> weights, std::int64_t k, int bits, const InverseFactor& factor,
          std::span<const float> hessian, Viterbi& viterbi)
      : weights_(weights),
        k_(k),
        bits_(bits),
        factor_(factor),
        hessian_(hessian),
        viterbi_(viterbi),
        updated_(weights.begin(), weights.end()),
        values_(weights.size()),
        bytes_(index(kRunRows * k / 8 * bits)) {
    for (std::int64_t row = 0; row < kRunRows; ++row) {
      clear_dead(row);
      scales_[index(row)] = first_scale(row);
    }
  }

  void round() {
    for (std::int64_t begin = 0; begin < k_; begin += kRunInputs) {
      code(begin);
      make_up(begin);
    }
    for (std::int64_t row = 0; row < kRunRows; ++row) {
      fit_scale(row);
    }
  }

  std::span<const std::uint8_t> bytes() const { return bytes_; }
  std::span<const float> scales() const { return scales_; }

 private:
  float* updated(std::int64_t row) { return updated_.data() + row * k_; }
  float* values(std::int64_t row) { return values_.data() + row * k_; }

  void clear_dead(std::int64_t row) {
    for (std::int64_t input = 0; input < k_; ++input) {
      if (factor_.dead[index(input)]) {
        updated(row)[input] = 0;
      }
    }
  }

  float first_scale(std::int64_t row) {
    static const double deviation = book_deviation();
    double squares = 0;
    for (std::int64_t input = 0; input < k_; ++input) {
      squares += static_cast<double>(updated(row)[input]) * updated(row)[input];
    }
    const double own = std::sqrt(squares / static_cast<double>(k_));
    return formats::round_scale(own * trellis_spread(bits_) / deviation);
  }

  // The run of inputs from `begin` on.
  void code(std::int64_t begin) {
    std::array<float, kRunWeights> targets{};
    std::array<std::uint16_t, kRunWeights> states{};
    for (std::int64_t row = 0; row < kRunRows; ++row) {
      for (std::int64_t i = 0; i < kRunInputs; ++i) {
        targets[index(formats::run_place(row, i))] = updated(row)[begin + i] / scales_[index(row)];
      }
    }
    viterbi_.encode(targets, states);
    const std::int64_t bytes = formats::run_bytes(bits_);
    formats::pack_run(states, bits_,
                      std::span(bytes_).subspan(index(begin / kRunInputs * bytes), index(bytes)));
    for (std::int64_t row = 0; row < kRunRows; ++row) {
      for (std::int64_t i = 0; i < kRunInputs; ++i) {
        values(row)[begin + i] = formats::trellis_value(states[index(formats::run_place(row, i))]);
      }
    }
  }

  // E U_bb = W - W' for the inputs b of a run, and then W[:, later] -= E U[b, later].
  void make_up(std::int64_t begin) {
    std::array<float, kRunInputs> error{};
    for (std::int64_t row = 0; row < kRunRows; ++row) {
      float* const w = updated(row);
      for (std::int64_t i = 0; i < kRunInputs; ++i) {
        const float* const u = factor_.upper.data() + (begin + i) * k_;
        float left = w[begin + i] - scales_[index(row)] * values(row)[begin + i];
        for (std::int64_t j = 0; j < i; ++j) {
          left -= error[index(j)] * factor_.upper[index((begin + j) * k_ + begin + i)];
        }
        error[index(i)] = left / u[begin + i];
      }
      for (std::int64_t i = 0; i < kRunInputs; ++i) {
        const float* const u = factor_.upper.data() + (begin + i) * k_;
        for (std::int64_t later = begin + kRunInputs; later < k_; ++later) {
          w[later] -= error[index(i)] * u[later];
        }
      }
    }
  }

  // The s of the smallest (w - s v) H (w - s v)^T.
  void fit_scale(std::int64_t row) {
    const float* const v = values(row);
    const float* const w = weights_.data() + row * k_;
    double product = 0;
    double square = 0;
    for (std::int64_t i = 0; i < k_; ++i) {
      const float* const h = hessian_.data() + i * k_;
      double sum_v = 0;
      double sum_w = 0;
      for (std::int64_t j = 0; j < i; ++j) {
        sum_v += static_cast<double>(h[j]) * v[j];
        sum_w += static_cast<double>(h[j]) * w[j];
      }
      product += v[i] * (sum_w + static_cast<double>(h[i]) * w[i]) + w[i] * sum_v;
      square += v[i] * (2 * sum_v + static_cast<double>(h[i]) * v[i]);
    }
    if (product > 0 && square > 0) {
      scales_[index(row)] = formats::round_scale(product / square);
    }
  }

  std::span<const float> weights_;  // [16, k]
  std::int64_t k_;
  int bits_;
  const InverseFactor& factor_;
  std::span<const float> hessian_;
  Viterbi& viterbi_;
  std::vector<float> updated_;  // [16, k]: weights with what makes up for errors so far
  std::vector<float> values_;   // [16, k]: what codes stand for, in units of the scales
  std::vector<std::uint8_t> bytes_;
  std::array<float, kRunRows> scales_{};
};

}  // namespace

float trellis_spread(int bits) {
  static constexpr std::array kSpread = {1.02f, 1.05f, 1.10f};
  return kSpread[static_cast<std::size_t>(bits - 2)];
}

formats::PackedWeight round_to_trellis(std::span<const float> weights, std::int64_t n,
                                       std::int64_t k, const formats::Scheme& scheme,
                                       const InverseFactor& factor, std::span<const float> hessian,
                                       core::ThreadPool& pool) {
  formats::require_finite(weights);
  formats::require_shape(scheme, n, k);
  std::vector<std::uint8_t> codes(index(n * k / 8 * scheme.code.bits));
  std::vector<float> scales(index(n));
  const Trellis& trellis = code_trellis(scheme.code.bits);
  pool.parallel_for(n / kRunRows, 1, [&](std::int64_t begin, std::int64_t end) {
    Viterbi viterbi(trellis, kRunWeights, fastest_costs(trellis));
    for (std::int64_t at = begin; at < end; ++at) {
      RunRows rows(weights.subspan(index(at * kRunRows * k), index(kRunRows * k)), k,
                   scheme.code.bits, factor, hessian, viterbi);
      rows.round();
      std::copy(rows.bytes().begin(), rows.bytes().end(),
                codes.begin() + at * std::ssize(rows.bytes()));
      std::copy(rows.scales().begin(), rows.scales().end(), scales.begin() + at * kRunRows);
    }
  });
  return formats::make_trellis_weight(scheme, n, k, codes, scales);
}

}  // namespace nibble::compress
