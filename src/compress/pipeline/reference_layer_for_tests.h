#pragma once

#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "compress/block/layer_for_tests.h"
#include "compress/recipe/apply_for_tests.h"
#include "compress/recipe/pass.h"
#include "compress/recipe/recipe.h"
#include "core/json.h"
#include "formats/split_mix.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {

/// The layer that tests/reference/make_weight_only.py describes, and what the transcriptions lose
/// on it.
class ReferenceLayer : public testing::Test {
 protected:
  /// `goldens`: a file of tests/reference.
  explicit ReferenceLayer(const std::string& goldens) {
    std::ifstream file(NIBBLE_SOURCE_DIR "/tests/reference/" + goldens);
    golden_ = core::parse_json(std::string{std::istreambuf_iterator<char>(file), {}}, goldens);
  }

  static constexpr std::int64_t kOutputs = 24;
  static constexpr std::int64_t kInputs = 256;
  static constexpr std::int64_t kTokens = 1024;

  void SetUp() override {
    weights_ = formats::split_mix_normals(1, kOutputs * kInputs);
    for (float& w : weights_) {
      w = w * (1 + w * w / 4);
    }
    statistics_.add(inputs(), ops_.pool());
    output_ = symmetric_hessian(statistics_.hessian());
    diagonal_.assign(output_.size(), 0.0f);
    for (std::size_t i = 0; i < kInputs; ++i) {
      diagonal_[i * kInputs + i] = output_[i * kInputs + i];
    }
  }

  ops::cpu::Matrix inputs() {
    const auto noise = formats::split_mix_normals(2, kTokens * kInputs);
    ops::cpu::Matrix x = ops_.matrix(kTokens, kInputs);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      double shared = 0;
      for (std::int64_t j = 0; j < kInputs; ++j) {
        shared =
            0.5 * shared + static_cast<double>(noise[static_cast<std::size_t>(t * kInputs + j)]);
        x.row(t)[j] = static_cast<float>(shared * (j % 11 == 0 ? 4.0 : 1.0));
      }
    }
    return x;
  }

  static std::vector<float> symmetric_hessian(std::vector<float> h) {
    for (std::size_t i = 0; i < kInputs; ++i) {
      for (std::size_t j = i + 1; j < kInputs; ++j) {
        h[i * kInputs + j] = h[j * kInputs + i];
      }
    }
    return h;
  }

  /// The layer after the steps of a recipe.
  LayerWork run_steps(const std::string& scheme, const std::vector<RecipeStep>& steps) {
    linear_.weight.n = kOutputs;
    linear_.weight.k = kInputs;
    SetWork work;
    work.statistics = &statistics_;
    put_behind_norm(work);
    LayerWork layer;
    layer.layer = &linear_;
    layer.target = weights_;
    layer.weights = weights_;
    layer.scheme = formats::parse_scheme(scheme);
    work.layers.push_back(std::move(layer));
    for (const RecipeStep& step : steps) {
      apply_on_cpu(*make_pass(step.pass, *step.options), work, ops_.pool());
    }
    return std::move(work.layers.front());
  }

  /// Lets passes scale the inputs of the set through norm_.
  void put_behind_norm(SetWork& work) {
    norm_.weight.assign(kInputs, 1.0f);
    work.source.norm = &norm_;
    work.source.scales = kInputs;
    work.source.scale_of.resize(kInputs);
    std::iota(work.source.scale_of.begin(), work.source.scale_of.end(), 0);
  }

  formats::PackedWeight run(const std::string& scheme, const std::vector<RecipeStep>& steps) {
    return *run_steps(scheme, steps).packed;
  }

  double relative(const formats::PackedWeight& packed, const std::vector<float>& hessian) const {
    return relative(weights_, packed, hessian);
  }

  /// Of a layer whose inputs the steps have changed.
  double relative_as_changed(const LayerWork& layer) const {
    return relative(layer.target, *layer.packed, symmetric_hessian(statistics_.hessian()));
  }

  static double relative(const std::vector<float>& target, const formats::PackedWeight& packed,
                         const std::vector<float>& hessian) {
    double whole = 0;
    for (std::size_t i = 0; i < kOutputs; ++i) {
      for (std::size_t a = 0; a < kInputs; ++a) {
        for (std::size_t b = 0; b < kInputs; ++b) {
          whole += static_cast<double>(target[i * kInputs + a]) * target[i * kInputs + b] *
                   hessian[a * kInputs + b];
        }
      }
    }
    return loss(target, packed, hessian) / whole;
  }

  double golden(const std::string& scheme, const std::string& method) const {
    return golden_.at(scheme).at(method).get<double>();
  }

  ops::Linear linear_;
  ops::Norm norm_;
  ops::cpu::CpuOps ops_{{2, ops::ActivationPrecision::kFloat}};
  std::vector<float> weights_;
  InputStatistics statistics_{StatisticsKind::kHessian, kInputs};
  std::vector<float> output_;    // X^T X
  std::vector<float> diagonal_;  // of it, zeros elsewhere
  core::Json golden_;
};

}  // namespace nibble::compress
