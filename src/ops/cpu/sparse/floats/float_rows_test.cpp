#include "ops/cpu/sparse/floats/float_rows.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/random_values_for_tests.h"
#include "formats/block_sparse.h"
#include "formats/format.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/dense/dense_linear.h"
#include "ops/cpu/linear/linear_kernels.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cpu/sparse/floats/grouped_rows.h"
#include "ops/cpu/sparse/sparse_weights_for_tests.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {
namespace {

using formats::PackedWeight;

constexpr std::int64_t kSizes[] = {8, 16, 32, 64};  // of groups

// Rows, and groups of a row.
struct Shape {
  std::int64_t n;
  std::int64_t groups;
};
constexpr Shape kShapes[] = {{1, 1}, {1, 2}, {2, 3}, {7, 5}, {17, 7}, {33, 12}, {40, 9}, {9, 300}};

// A weight stored in groups, and the same with its zeros.
struct Weights {
  PackedWeight rows;
  PackedWeight dense;
};

// Every fifth row keeps all groups, every third none, the others about `share`.
Weights random_rows(Shape shape, std::int64_t group, std::uint64_t seed, double share = 0.5) {
  core::Random random(seed);
  const std::int64_t k = shape.groups * group;
  std::vector<float> values(static_cast<std::size_t>(shape.n * k));
  for (std::int64_t at = 0; at < shape.n * shape.groups; ++at) {
    const double wanted = testing::mixed_share(share, 1)(at / shape.groups);
    const bool kept = random.uniform() < wanted;
    for (std::int64_t i = 0; i < group; ++i) {
      const float value = random.normal();
      values[static_cast<std::size_t>(at * group + i)] = kept ? value : 0.0f;
    }
  }
  const auto rounded = [&](const std::string& scheme) {
    return formats::round_to_nearest(values, shape.n, k, formats::parse_scheme(scheme));
  };
  return {rounded(fmt::format("f16-g{}-bsr", group)), rounded("f16")};
}

// What one row of x gives with each row of the dense weight, by the kernels' own dot product.
std::vector<float> dots(const VectorKernels& kernels, const std::vector<float>& x, std::int64_t m,
                        std::int64_t ldx, const PackedWeight& dense) {
  std::vector<float> y;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t row = 0; row < dense.n; ++row) {
      const core::Fp16* const w = dense.dense.data<core::Fp16>().data() + row * dense.k;
      kernels.dot_f16(x.data() + i * ldx, ldx, 1, w, dense.k, &y.emplace_back());
    }
  }
  return y;
}

TEST(FloatRows, HaveTheBitsOfDenseRowsOnEveryInstructionSet) {
  for (const VectorKernels* const kernels : runnable_vector_kernels()) {
    for (const std::int64_t group : kSizes) {
      for (const Shape& shape : kShapes) {
        const Weights weights = random_rows(shape, group, 3);
        const PackedWeight ordered = in_order_of_sums(weights.rows);
        const std::int64_t k = weights.dense.k;
        const std::int64_t ldx = k + 3;
        for (const std::int64_t m : {1, 2, 3, 4, 5, 9, 33}) {
          const std::vector<float> x = core::normal_values(m * ldx, 7);
          const std::vector<float> expected = dots(*kernels, x, m, ldx, weights.dense);
          for (const PackedWeight* const stored : {&weights.rows, &ordered}) {
            // In the order of this machine's vectors sums of other vectors have another order.
            if (stored == &ordered && kernels->block != vector_kernels().block) {
              continue;
            }
            std::vector<float> y(expected.size(), std::nanf(""));
            kernels->multiply_groups(x.data(), ldx, m, grouped_rows(*stored), 0, shape.n, y.data(),
                                     shape.n);
            ASSERT_EQ(y, expected) << kernels->isa << " g" << group << " " << shape.n << " x " << k
                                   << " m " << m << (stored == &ordered ? " in order" : "");
          }
        }
      }
    }
  }
}

TEST(FloatRows, GetTheirZerosBackOnEveryInstructionSet) {
  for (const VectorKernels* const kernels : runnable_vector_kernels()) {
    for (const std::int64_t group : kSizes) {
      const Weights weights = random_rows({9, 5}, group, 3);
      const auto k = static_cast<std::size_t>(weights.dense.k);
      for (std::int64_t row = 0; row < 9; ++row) {
        std::vector<float> got(k + 1, 7.0f);
        std::vector<float> expected(k);
        kernels->widen_groups(grouped_rows(weights.rows), row, got.data());
        formats::decode_row(weights.dense, row, expected);
        EXPECT_EQ(got.back(), 7.0f) << "written behind the row";
        got.pop_back();
        EXPECT_EQ(got, expected) << kernels->isa << " g" << group << " row " << row;
      }
    }
  }
}

TEST(FloatRows, AreReorderedSoThatRegistersAlternate) {
  const std::int64_t group = vector_kernels().block;
  if (group < 8) {
    GTEST_SKIP() << "these vectors hold one float";
  }
  const Weights weights = random_rows({40, 31}, group, 4);
  const PackedWeight ordered = in_order_of_sums(weights.rows);
  std::int64_t pairs = 0;
  for (std::int64_t row = 0; row < ordered.n; ++row) {
    std::int64_t odd = 0;
    const auto [begin, end] = formats::stored_groups_of(ordered, row);
    for (std::int64_t at = begin; at < end; ++at) {
      odd += formats::stored_group(weights.rows, at) % 2;
    }
    const std::int64_t count = std::min(odd, end - begin - odd);
    for (std::int64_t at = begin; at < begin + 2 * count; ++at) {
      EXPECT_EQ(formats::stored_group(ordered, at) % 2, (at - begin) % 2) << "row " << row;
    }
    pairs += count;
    std::vector<float> values(static_cast<std::size_t>(ordered.k));
    std::vector<float> expected(values.size());
    formats::decode_row(ordered, row, values);
    formats::decode_row(weights.dense, row, expected);
    EXPECT_EQ(values, expected);
  }
  EXPECT_GT(pairs, 100);
}

// y [m, n] of dense or grouped weights in rows with room behind them, which must stay as it was.
std::vector<float> run(const PackedWeight& weight, std::int64_t m, core::ThreadPool& pool) {
  constexpr std::int64_t kRoom = 3;
  const std::int64_t ldx = weight.k + 5;
  const std::int64_t ldy = weight.n + kRoom;
  const std::vector<float> x = core::normal_values(m * ldx, 11);
  std::vector<float> wide(static_cast<std::size_t>(m * ldy), std::nanf(""));
  if (formats::is_dense(weight.scheme)) {
    dense_linear(x.data(), m, ldx, weight, wide.data(), ldy, pool);
  } else {
    const PackedWeight* const alone = &weight;
    float_rows_linear(x.data(), m, ldx, {&alone, 1}, wide.data(), ldy, pool);
  }
  std::vector<float> y;
  for (std::int64_t i = 0; i < m; ++i) {
    const auto row = wide.begin() + i * ldy;
    y.insert(y.end(), row, row + weight.n);
    for (std::int64_t j = weight.n; j < ldy; ++j) {
      EXPECT_TRUE(std::isnan(row[j])) << "written behind the row";
    }
  }
  return y;
}

TEST(FloatRows, AreTheDenseLayerForAnyNumberOfTokens) {
  core::ThreadPool pool(2);
  for (const std::int64_t group : kSizes) {
    for (const Shape& shape : {Shape{1, 3}, {97, 6}, {130, 23}}) {
      const Weights weights = random_rows(shape, group, 5);
      const PackedWeight ordered = in_order_of_sums(weights.rows);
      for (std::int64_t m = 1; m <= kFewGroupedRows + 5; ++m) {
        ASSERT_EQ(run(ordered, m, pool), run(weights.dense, m, pool))
            << "g" << group << " " << shape.n << " x " << weights.dense.k << " m " << m;
      }
      EXPECT_EQ(run(ordered, 100, pool), run(weights.dense, 100, pool));
    }
  }
}

TEST(FloatRows, AreWithinTheRoundingOfTheReference) {
  core::ThreadPool pool(2);
  for (const std::int64_t group : kSizes) {
    const Weights weights = random_rows({50, 11}, group, 6);
    const std::int64_t k = weights.dense.k;
    const std::int64_t ldx = k + 5;
    for (const std::int64_t m : {1, 6, 33}) {
      const std::vector<float> x = core::normal_values(m * ldx, 11);  // that of run()
      std::vector<double> expected(static_cast<std::size_t>(m * 50));
      dense_linear_reference(x.data(), m, ldx, weights.rows, expected.data(), 50);
      const std::vector<float> y = run(weights.rows, m, pool);
      for (std::size_t i = 0; i < y.size(); ++i) {
        ASSERT_NEAR(y[i], expected[i], 2e-6 * static_cast<double>(k)) << i;
      }
    }
  }
}

TEST(FloatRows, HaveTheSameBitsForAnyThreads) {
  const PackedWeight weight = in_order_of_sums(random_rows({300, 40}, 16, 7).rows);
  core::ThreadPool one(1);
  core::ThreadPool three(3);
  for (const std::int64_t m : {1, 9, 40}) {
    EXPECT_EQ(run(weight, m, three), run(weight, m, one)) << m;
  }
}

// A fault in any part of a weight is seen.
TEST(FloatRows, TestsSeePlantedFaults) {
  core::ThreadPool pool(2);
  const std::vector<float> expected = run(random_rows({17, 8}, 16, 8).dense, 2, pool);
  const auto seen = [&](const std::function<void(PackedWeight&)>& damage) {
    PackedWeight bad = random_rows({17, 8}, 16, 8).rows;
    damage(bad);
    return run(bad, 2, pool) != expected;
  };
  EXPECT_FALSE(seen([](PackedWeight&) {}));
  EXPECT_TRUE(seen([](PackedWeight& w) { w.values.mutable_data<core::Fp16>()[77].bits ^= 1; }));
  EXPECT_TRUE(seen([](PackedWeight& w) { w.groups.mutable_data<std::uint8_t>()[9] ^= 1; }));
  EXPECT_TRUE(seen([](PackedWeight& w) { w.row_index.mutable_data<std::int32_t>()[1] -= 1; }));
}

// What is not finite in the inputs reaches the rows that keep a group of them, and no other.
TEST(FloatRows, ReadOnlyWhatIsKept) {
  const PackedWeight weight = random_rows({30, 11}, 16, 9).rows;
  std::vector<float> x = core::normal_values(weight.k, 9);
  x[0] = std::numeric_limits<float>::quiet_NaN();
  for (const VectorKernels* const kernels : runnable_vector_kernels()) {
    std::vector<float> y(30);
    kernels->multiply_groups(x.data(), weight.k, 1, grouped_rows(weight), 0, 30, y.data(), 30);
    for (std::int64_t row = 0; row < weight.n; ++row) {
      const auto [begin, end] = formats::stored_groups_of(weight, row);
      const bool reads = begin < end && formats::stored_group(weight, begin) == 0;
      EXPECT_EQ(std::isnan(y[static_cast<std::size_t>(row)]), reads) << kernels->isa << " " << row;
    }
  }
}

class FloatRowLayers : public ::testing::Test {
 protected:
  /// The weight in float32: no other kernel multiplies such ones than dense_linear().
  static formats::PackedWeight widened(const formats::PackedWeight& dense) {
    return formats::dense_weight(
        core::from_float32(core::to_float32(dense.dense), {dense.n, dense.k}, core::DType::kF32));
  }
  // Two layers side by side, and one of another scheme.
  static std::vector<float> run_layers(ActivationPrecision activations, bool grouped,
                                       std::int64_t m) {
    const Weights first = random_rows({24, 6}, 16, 1);
    const Weights second = random_rows({8, 6}, 16, 2, 0.7);
    LinearSet set;
    set.id = 0;
    set.parts.push_back({"a", grouped ? first.rows : widened(first.dense), {}});
    set.parts.push_back({"b", grouped ? second.rows : widened(second.dense), {}});
    set.parts.push_back({"c", random_rows({5, 6}, 16, 3).dense, {}});
    CpuOps ops({2, activations});
    ops.prepare(set);
    const std::int64_t bytes =
        formats::stored_bytes(set.parts[0].weight) + formats::stored_bytes(set.parts[1].weight);
    EXPECT_EQ(ops.prepared_bytes(), grouped ? bytes : 0);
    Matrix x = ops.matrix(m, 96);
    const auto values = testing::random_input(m, 96, 3);
    std::copy(values.begin(), values.end(), x.data());
    CpuOps::Input input(std::move(x));
    const Matrix y = ops.linear(input, set);
    return {y.values().begin(), y.values().end()};
  }
};

TEST_F(FloatRowLayers, RunAsDenseOnesInEveryPrecision) {
  for (const auto activations :
       {ActivationPrecision::kInt8, ActivationPrecision::kInt16, ActivationPrecision::kFloat}) {
    for (const std::int64_t m : {1, 5, 16, 50}) {
      EXPECT_EQ(run_layers(activations, true, m), run_layers(activations, false, m)) << m;
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
