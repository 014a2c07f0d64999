#include "ops/gradient/linear_gradient.h"

#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "formats/format.h"
#include "ops/gradient/gradient_ops.h"

namespace nibble::ops::gradient {
namespace {

constexpr std::int64_t kInputs = 64;
constexpr std::int64_t kOutputs = 3;

// Whole numbers from -8 to 7, which int4-sym-row keeps exactly: the scale of a row is 1.
std::vector<float> whole_numbers() {
  std::vector<float> w(kOutputs * kInputs);
  for (std::size_t i = 0; i < w.size(); ++i) {
    w[i] = static_cast<float>(static_cast<int>(i * 5 % 16) - 8);
  }
  return w;
}

LinearSet set_of(formats::PackedWeight weight) {
  LinearSet set;
  set.id = 0;
  set.parts.push_back({"model.layers.0.mlp.down_proj", std::move(weight), {}});
  return set;
}

formats::PackedWeight rounded(const std::string& scheme) {
  return formats::round_to_nearest(whole_numbers(), kOutputs, kInputs,
                                   formats::parse_scheme(scheme));
}

formats::PackedWeight with_tail() {
  formats::PackedWeightBuilder builder(formats::parse_scheme("int4-sym-row-a4-tail16"), kOutputs,
                                       kInputs);
  std::vector<std::int32_t> order(kInputs);
  std::iota(order.rbegin(), order.rend(), 0);
  builder.set_permutation(order);
  for (std::int64_t row = 0; row < kOutputs; ++row) {
    builder.set_group(row, 0, {1.0f, 8});
    builder.set_group(row, 1, {1.0f, 128});
    builder.set_codes(row, std::vector<std::uint8_t>(kInputs, 9));
  }
  return builder.finish();
}

LinearSet with_adapter() {
  LinearSet set = set_of(rounded("int4-sym-row"));
  const auto dense = [](std::int64_t n, std::int64_t k) {
    const std::vector<float> values(static_cast<std::size_t>(n * k), 1.0f);
    return formats::dense_weight(core::from_float32(values, {n, k}, core::DType::kF32));
  };
  set.parts[0].low_rank = LowRank{dense(2, kInputs), dense(kOutputs, 2), 1.0f};
  return set;
}

// Both the gradient alone and the forward call that would need it.
void expect_refused(const LinearSet& set, const std::string& what) {
  cpu::CpuOps ops({1, ActivationPrecision::kFloat});
  const auto expect_message = [&](auto call) {
    try {
      call();
      ADD_FAILURE() << "not refused: " << what;
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kFailed);
      EXPECT_NE(std::string(error.what()).find("model.layers.0.mlp.down_proj, which has " + what),
                std::string::npos)
          << error.what();
    }
  };
  expect_message([&] {
    const cpu::Matrix dy = ops.zeros(1, kOutputs);
    cpu::Matrix dx = ops.zeros(1, kInputs);
    add_linear_gradient(set, dy, dx, ops.pool());
  });
  expect_message([&] {
    GradientOps tape(ops);
    (void)tape.linear(tape.variable(ops.zeros(1, kInputs)), set);
  });
}

TEST(LinearGradient, IsTheProductWithTheWeights) {
  const std::vector<float> w = whole_numbers();
  for (const char* scheme : {"f32", "int4-sym-row"}) {
    LinearSet set = set_of(rounded(scheme));
    set.parts.push_back(set.parts[0]);
    cpu::CpuOps ops({1, ActivationPrecision::kFloat});
    cpu::Matrix dy = ops.zeros(2, 2 * kOutputs);
    dy.row(0)[1] = 2.0f;             // output 1 of the first part
    dy.row(1)[kOutputs + 2] = 3.0f;  // output 2 of the second
    cpu::Matrix dx = ops.zeros(2, kInputs);
    add_linear_gradient(set, dy, dx, ops.pool());
    for (std::int64_t i = 0; i < kInputs; ++i) {
      EXPECT_EQ(dx.row(0)[i], 2.0f * w[static_cast<std::size_t>(kInputs + i)]) << scheme;
      EXPECT_EQ(dx.row(1)[i], 3.0f * w[static_cast<std::size_t>(2 * kInputs + i)]) << scheme;
    }
  }
}

TEST(LinearGradient, RefusesWhatIsNotAPlainWeight) {
  expect_refused(with_adapter(), "an adapter");
  expect_refused(set_of(rounded("int4-sym-row-h16")), "an online Hadamard");
  expect_refused(set_of(with_tail()), "a tail in INT8");
}

}  // namespace
}  // namespace nibble::ops::gradient
