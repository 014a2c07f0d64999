#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "engine/fixed_sequences.h"
#include "engine/runner.h"
#include "formats/block_sparse.h"
#include "formats/format.h"
#include "formats/ordered_weight_for_tests.h"
#include "ops/input_transform.h"

/// Models rounded by every scheme, and what they make of a text, on a GPU and on the CPU, for
/// tests.
namespace nibble::engine {

inline std::shared_ptr<const models::Model> demo() {
  static const std::shared_ptr<const models::Model> model =
      models::open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) / "models" / "demo");
  return model;
}

/// Each 32 inputs between their extremes, in the steps of int4-min-g32.
inline formats::PackedWeight with_minima(const std::vector<float>& w, std::int64_t n,
                                         std::int64_t k) {
  constexpr std::int64_t kGroup = 32;
  constexpr float kSteps = 15.0f;
  formats::PackedWeight weight;
  weight.scheme = formats::parse_scheme("int4-min-g32");
  weight.n = n;
  weight.k = k;
  weight.codes = core::Tensor::zeros(core::DType::kU8, {n, k / 2});
  weight.scales = core::Tensor::zeros(core::DType::kF16, {n, k / kGroup});
  weight.minima = core::Tensor::zeros(core::DType::kF16, {n, k / kGroup});
  for (std::int64_t group = 0; group < n * k / kGroup; ++group) {
    const auto at = static_cast<std::size_t>(group);
    const auto values = std::span(w).subspan(at * kGroup, kGroup);
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    weight.scales.mutable_data<core::Fp16>()[at] = core::to_fp16((*most - *least) / kSteps);
    weight.minima.mutable_data<core::Fp16>()[at] = core::to_fp16(*least);
    const float scale = core::to_float(weight.scales.data<core::Fp16>()[at]);
    const float minimum = core::to_float(weight.minima.data<core::Fp16>()[at]);
    for (std::size_t i = 0; i < kGroup; ++i) {
      const float steps = scale == 0.0f ? 0.0f : std::round((values[i] - minimum) / scale);
      const auto code = static_cast<unsigned>(std::clamp(steps, 0.0f, kSteps));
      weight.codes.mutable_data<std::uint8_t>()[at * kGroup / 2 + i / 2] |=
          static_cast<std::uint8_t>(code << (i % 2 * 4));
    }
  }
  formats::validate(weight, "with_minima");
  return weight;
}

/// Rounded to nearest: what is stored is turned where inputs are, and has its tail where the scheme
/// has one, of the inputs in the middle. Block-sparse rows, or their tiles, keep every other group.
inline formats::PackedWeight rounded(std::vector<float> w, std::int64_t n, std::int64_t k,
                                     const formats::Scheme& scheme) {
  if (formats::has_minima(scheme)) {
    return with_minima(w, n, k);
  }
  if (formats::is_block_sparse(scheme)) {
    const std::int64_t group = scheme.scale.group;
    for (std::int64_t i = 0; i < n * k; ++i) {
      if ((i / k / formats::pattern_rows(scheme) + i % k / group) % 2 != 0) {
        w[static_cast<std::size_t>(i)] = 0.0f;
      }
    }
    return formats::round_to_nearest(w, n, k, scheme);
  }
  const std::int64_t head = head_inputs(scheme, k);
  std::vector<std::int32_t> order(static_cast<std::size_t>(k));
  std::iota(order.begin(), order.end(), 0);
  if (scheme.inputs.tail > 0) {
    std::rotate(order.begin() + k / 4, order.begin() + k / 4 + scheme.inputs.tail, order.end());
  }
  const ops::InputTransform turn(scheme, k);
  std::vector<float> of_head;
  std::vector<float> of_tail;
  std::vector<float> row(order.size());
  for (std::int64_t r = 0; r < n; ++r) {
    std::transform(order.begin(), order.end(), row.begin(),
                   [&](std::int32_t input) { return w[static_cast<std::size_t>(r * k + input)]; });
    turn.apply(row);
    of_head.insert(of_head.end(), row.begin(), row.begin() + head);
    of_tail.insert(of_tail.end(), row.begin() + head, row.end());
  }
  formats::Scheme without_tail = scheme;
  without_tail.inputs.tail = 0;
  formats::PackedWeight weight = formats::round_to_nearest(of_head, n, head, without_tail);
  if (scheme.inputs.tail > 0) {
    const auto tail =
        formats::round_to_nearest(of_tail, n, scheme.inputs.tail, formats::tail_scheme());
    weight.scheme = scheme;
    weight.k = k;
    weight.tail_codes = tail.codes;
    weight.tail_scales = tail.scales;
    weight.permutation = core::Tensor::zeros(core::DType::kI32, {1, k});
    std::copy(order.begin(), order.end(), weight.permutation.mutable_data<std::int32_t>().begin());
    formats::validate(weight, "rounded");
  }
  return weight;
}

/// Every layer of the blocks rounded, but for routers; each set in an order of its own, where the
/// scheme has one.
inline std::shared_ptr<models::Model> rounded(const models::Model& dense,
                                              const std::string& scheme_text) {
  auto model = std::make_shared<models::Model>(dense);
  const formats::Scheme scheme = formats::parse_scheme(scheme_text);
  for (models::Block& block : model->network.decoder.blocks) {
    for (ops::LinearSet* set : models::linear_sets(block)) {
      for (ops::Linear& part : set->parts) {
        if (!block.router || set != &*block.router) {
          const std::vector<float> w = core::to_float32(part.weight.dense);
          const auto [n, k] = std::pair(part.weight.n, part.weight.k);
          part.weight =
              scheme.inputs.ordered
                  ? formats::ordered_weight(w, n, k, scheme, static_cast<std::uint64_t>(set->id))
                  : rounded(w, n, k, scheme);
        }
      }
    }
  }
  return model;
}

inline std::shared_ptr<models::Model> rounded(const std::string& scheme_text) {
  return rounded(*demo(), scheme_text);
}

/// A random adapter beside every other layer.
inline void add_adapters(models::Model& model) {
  core::Random random(3);
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    std::vector<float> values(static_cast<std::size_t>(rows * columns));
    for (float& value : values) {
      value = 0.1f * random.normal();
    }
    return formats::dense_weight(core::from_float32(values, {rows, columns}, core::DType::kBF16));
  };
  constexpr std::int64_t kRank = 4;
  for (models::Block& block : model.network.decoder.blocks) {
    for (ops::LinearSet* set : models::linear_sets(block)) {
      ops::Linear& part = set->parts.back();
      part.low_rank =
          ops::LowRank{matrix(kRank, part.weight.k), matrix(part.weight.n, kRank), 0.5f};
    }
  }
}

inline std::shared_ptr<const models::Model> family(const char* name) {
  return models::open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests" / "families" / name);
}

/// 60 tokens of the families' vocabulary.
inline std::vector<std::int32_t> family_ids() {
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < 60; ++i) {
    tokens.push_back(i * 37 % 64);
  }
  return tokens;
}

inline constexpr device::Place kCpu{device::Kind::kCpu, 0};
inline constexpr device::Place kCuda{device::Kind::kCuda, 0};

/// On the GPU with exact dense layers, such as the output layer: what differs from the CPU is what
/// a test is about.
inline std::unique_ptr<Runner> open(const std::shared_ptr<const models::Model>& model,
                                    device::Place place, ops::KvTypes kv = ops::KvType::kF16,
                                    bool alike_steps = false) {
  RunnerOptions options;
  options.alike_steps = alike_steps;
  options.place = place;
  options.cpu.threads = 2;
  options.cpu.activations = place.kind == device::Kind::kCpu ? ops::ActivationPrecision::kInt16
                                                             : ops::ActivationPrecision::kFloat;
  options.kv_types = kv;
  return make_runner(model, options);
}

inline const std::string kText =
    "A library is a place where books are kept and read. The first of them";

inline std::vector<std::int32_t> ids() {
  return demo()->tokenizer->encode(kText);
}

inline double nll(Runner& runner, std::span<const std::int32_t> tokens) {
  double sum = 0.0;
  runner.score(tokens, [&](std::int64_t first, const LogitsView& logits) {
    for (std::int64_t i = 0; i < logits.rows; ++i) {
      const auto next = static_cast<std::size_t>(first + i + 1);
      if (next < tokens.size()) {
        double total = 0.0;
        for (const float value : logits.row(i)) {
          total += std::exp(static_cast<double>(value));
        }
        sum += std::log(total) - logits.row(i)[static_cast<std::size_t>(tokens[next])];
      }
    }
  });
  return sum / static_cast<double>(tokens.size() - 1);
}

inline std::vector<std::int32_t> greedy(Runner& runner, std::vector<std::int32_t> next, int count) {
  FixedSequences sequences(runner, 1, std::ssize(next) + count);
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < count; ++i) {
    const Slice slice = sequences.next(0, next);
    const auto row = runner.forward({&slice, 1}).row(0);
    next = {static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin())};
    tokens.push_back(next.front());
  }
  return tokens;
}

}  // namespace nibble::engine
