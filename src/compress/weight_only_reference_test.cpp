// The methods as recipes run them, against NumPy transcriptions of the papers
// (tests/reference/make_weight_only.py, which describes the layer).

#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "compress/layer_for_tests.h"
#include "compress/pass.h"
#include "compress/recipe.h"
#include "formats/split_mix.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kOutputs = 24;
constexpr std::int64_t kInputs = 256;
constexpr std::int64_t kTokens = 1024;

class WeightOnlyReference : public testing::Test {
 protected:
  void SetUp() override {
    weights_ = formats::split_mix_normals(1, kOutputs * kInputs);
    for (float& w : weights_) {
      w = w * (1 + w * w / 4);
    }
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
    statistics_.add(x, ops_.pool());
    output_ = symmetric_hessian(statistics_.hessian());
    diagonal_.assign(output_.size(), 0.0f);
    for (std::size_t i = 0; i < kInputs; ++i) {
      diagonal_[i * kInputs + i] = output_[i * kInputs + i];
    }
    std::ifstream file(NIBBLE_SOURCE_DIR "/tests/reference/weight_only.json");
    golden_ = core::parse_json(std::string{std::istreambuf_iterator<char>(file), {}}, "golden");
  }

  static std::vector<float> symmetric_hessian(std::vector<float> h) {
    for (std::size_t i = 0; i < kInputs; ++i) {
      for (std::size_t j = i + 1; j < kInputs; ++j) {
        h[i * kInputs + j] = h[j * kInputs + i];
      }
    }
    return h;
  }

  formats::PackedWeight run(const std::string& scheme, std::vector<RecipeStep> steps) {
    ops::Linear linear;
    linear.weight.n = kOutputs;
    linear.weight.k = kInputs;
    SetWork work;
    work.statistics = &statistics_;
    LayerWork layer;
    layer.layer = &linear;
    layer.target = weights_;
    layer.weights = weights_;
    layer.scheme = formats::parse_scheme(scheme);
    work.layers.push_back(std::move(layer));
    for (const RecipeStep& step : steps) {
      make_pass(step.pass, step.options)->apply(work, ops_.pool());
    }
    return *work.layers.front().packed;
  }

  double relative(const formats::PackedWeight& packed, const std::vector<float>& hessian) const {
    double whole = 0;
    for (std::size_t i = 0; i < kOutputs; ++i) {
      for (std::size_t a = 0; a < kInputs; ++a) {
        for (std::size_t b = 0; b < kInputs; ++b) {
          whole += static_cast<double>(weights_[i * kInputs + a]) * weights_[i * kInputs + b] *
                   hessian[a * kInputs + b];
        }
      }
    }
    return loss(weights_, packed, hessian) / whole;
  }

  double golden(const std::string& scheme, const std::string& method) const {
    return golden_.at(scheme).at(method).get<double>();
  }

  ops::cpu::CpuOps ops_{{2, ops::cpu::ActivationPrecision::kFloat}};
  std::vector<float> weights_;
  InputStatistics statistics_{StatisticsKind::kHessian, kInputs};
  std::vector<float> output_;    // X^T X
  std::vector<float> diagonal_;  // of it, zeros elsewhere
  core::Json golden_;
};

TEST_F(WeightOnlyReference, RoundToNearestAndGptqLoseWhatNumpyLoses) {
  for (const char* scheme : {"int3-asym-g64", "int4-asym-g64"}) {
    const double rtn = golden(scheme, "rtn diagonal");
    EXPECT_NEAR(relative(run(scheme, {{"rtn"}}), diagonal_), rtn, 0.005 * rtn) << scheme;
    const double gptq = golden(scheme, "gptq output");
    EXPECT_NEAR(relative(run(scheme, {{"gptq"}}), output_), gptq, 0.005 * gptq) << scheme;
  }
}

TEST_F(WeightOnlyReference, SearchLosesNoMoreThanTheRangeSearchOfNumpy) {
  for (const char* scheme : {"int3-asym-g64", "int4-asym-g64"}) {
    EXPECT_LE(relative(run(scheme, {{"search"}, {"rtn"}}), diagonal_),
              1.005 * golden(scheme, "search diagonal"))
        << scheme;
    EXPECT_LE(relative(run(scheme, {{"search"}, {"gptq"}}), output_),
              1.005 * golden(scheme, "search gptq output"))
        << scheme;
    EXPECT_LE(relative(run(scheme, {{"search"}, {"gptq"}, {"refine"}}), output_),
              1.005 * golden(scheme, "search gptq descent output"))
        << scheme;
  }
}

TEST_F(WeightOnlyReference, LearnedBooksLoseNoMoreThanThoseOfNumpy) {
  const char* scheme = "lut4-row-g64";
  const RecipeStep plain{"any4", {{"rounds", 0}}};  // what NumPy does
  const double rtn = golden(scheme, "rtn diagonal");
  EXPECT_NEAR(relative(run(scheme, {plain, {"rtn"}}), diagonal_), rtn, 0.005 * rtn);
  const double gptq = golden(scheme, "gptq output");
  EXPECT_LE(relative(run(scheme, {plain, {"gptq"}}), output_), 1.005 * gptq);
  EXPECT_LE(relative(run(scheme, {{"any4"}, {"rtn"}}), diagonal_), rtn);
  EXPECT_LE(relative(run(scheme, {{"any4"}, {"gptq"}}), output_), gptq);
  EXPECT_LE(relative(run(scheme, {{"any4"}, {"gptq"}, {"refine"}}), output_),
            golden(scheme, "gptq descent output"));
}

}  // namespace
}  // namespace nibble::compress
