#include <string>

#include "core/tensor.h"
#include "ops/cuda/cuda_layers_for_tests.h"
#include "ops/cuda/elementwise/elementwise.h"
#include "ops/input_transform.h"

namespace nibble::ops::cuda {
namespace {

// Layers that read their inputs in an order, behind each operator, beside layers without one behind
// a matrix that stands in it: the same bits.
class OrderedCudaLayers : public CudaLayers {
 protected:
  enum class Operator { kInput, kNorm, kAddNorm, kGated };

  /// Two parts, in one order or each in its own.
  static LinearSet in_order(const std::string& scheme, std::int64_t k, bool same) {
    LinearSet set;
    set.id = 0;
    for (const std::uint64_t seed : {1, 2}) {
      set.parts.push_back({"layer", cpu::testing::random_weight(scheme, 72, k, seed), {}});
    }
    if (same) {
      set.parts[1].weight.permutation = set.parts[0].weight.permutation;
    }
    return set;
  }

  /// What the operator makes of x [m, k], as a matrix, and (with a set) what the layers make of it.
  std::vector<float> made(CudaOps& ops, Operator kind, const std::vector<float>& x, std::int64_t m,
                          const LinearSet* set) {
    Norm norm;
    norm.weight = cpu::testing::random_input(1, std::ssize(x) / m, 7);
    std::vector<float> twice = x;
    twice.insert(twice.end(), x.begin(), x.end());
    DeviceMatrix rows = upload(ops, x, m);
    const DeviceMatrix delta = upload(ops, x, m);
    const DeviceMatrix gate_up = upload(ops, twice, m);
    if (set == nullptr) {
      if (kind == Operator::kAddNorm) {
        ops.add(rows, delta);
      }
      if (kind == Operator::kGated) {
        gated_activation_matrix({gate_up.data()}, MlpActivation::kSilu, rows.data(), m,
                                rows.columns(), ops.stream());
      }
      const bool normed = kind == Operator::kNorm || kind == Operator::kAddNorm;
      return download(ops, normed ? ops.norm_matrix(rows, norm) : std::move(rows));
    }
    CudaOps::Input input = kind == Operator::kInput  ? ops.input(rows, *set)
                           : kind == Operator::kNorm ? ops.norm(rows, norm, *set)
                           : kind == Operator::kAddNorm
                               ? ops.add_norm(rows, delta, norm, *set)
                               : ops.gated_activation(gate_up, MlpActivation::kSilu, *set);
    return download(ops, ops.linear(input, *set));
  }

  /// The results of parts [first, last), which have one order, of x [m, k] in theirs.
  std::vector<float> apart(const LinearSet& set, std::size_t first, std::size_t last,
                           std::vector<float> x, std::int64_t m) {
    const InputTransform transform(set.parts[first].weight.permutation);
    const auto k = static_cast<std::size_t>(set.k());
    for (std::size_t at = 0; at < x.size(); at += k) {
      transform.reorder(std::span(x).subspan(at, k));
    }
    LinearSet plain;
    plain.id = 0;
    for (std::size_t part = first; part < last; ++part) {
      plain.parts.push_back(set.parts[part]);
      plain.parts.back().weight.scheme.inputs.ordered = false;
      plain.parts.back().weight.permutation = core::Tensor();
    }
    CudaOps ops({}, nullptr, 0, {.chained = false});  // as a layer with an order
    return run(ops, plain, x, m);
  }

  void expect_equal(const LinearSet& set, bool same, Operator kind, std::int64_t m,
                    const std::string& what) {
    const std::vector<float> x = cpu::testing::random_input(m, set.k(), 5);
    CudaOps ops({});
    UnitPacker packer(pool_, kStaging);
    ops.prepare(set, packer);
    const std::vector<float> y = made(ops, kind, x, m, &set);
    const std::vector<float> inputs = made(ops, kind, x, m, nullptr);
    const std::size_t parts = same ? set.parts.size() : 1;
    const auto row = static_cast<std::size_t>(set.n());
    std::size_t column = 0;
    for (std::size_t first = 0; first < set.parts.size(); first += parts) {
      const std::vector<float> expected = apart(set, first, first + parts, inputs, m);
      const std::size_t n = expected.size() / static_cast<std::size_t>(m);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(y[i / n * row + column + i % n], expected[i]) << what << ": " << i;
      }
      column += n;
    }
  }
};

TEST_F(OrderedCudaLayers, HaveTheBitsOfOrderedInputs) {
  constexpr Operator kOperators[] = {Operator::kInput, Operator::kNorm, Operator::kAddNorm,
                                     Operator::kGated};
  for (const std::string scheme : {"int4-sym-g128-order", "int4-asym-g32-order",
                                   "int4-sym-row-a8-order", "int4-sym-g128-a4g128-tail128"}) {
    for (const std::int64_t k : {416, 1152, 4096}) {
      for (const bool same : {true, false}) {
        const LinearSet set = in_order(scheme, k, same);
        for (const std::int64_t m : {1, 3, 4, 7, 21, 70, 300}) {
          for (const Operator kind : kOperators) {
            expect_equal(set, same, kind, m,
                         scheme + ", k = " + std::to_string(k) + ", " + std::to_string(m) +
                             " tokens, operator " + std::to_string(static_cast<int>(kind)) +
                             (same ? ", one order" : ""));
          }
        }
      }
    }
  }
}

// An adapter reads what no order has touched, and the layer the same in its own.
TEST_F(OrderedCudaLayers, StandBesideAdapters) {
  constexpr std::int64_t kInputs = 416;
  constexpr std::int64_t kRank = 8;
  LinearSet set = in_order("int4-sym-g128-order", kInputs, true);
  const auto dense = [](std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
    return formats::dense_weight(core::from_float32(cpu::testing::random_input(rows, columns, seed),
                                                    {rows, columns}, core::DType::kBF16));
  };
  Linear& last = set.parts.back();
  last.low_rank = LowRank{dense(kRank, kInputs, 3), dense(last.weight.n, kRank, 4), 0.125f};
  for (const std::int64_t m : {1, 21}) {
    const std::vector<float> x = cpu::testing::random_input(m, kInputs, 5);
    CudaOps ops({});
    const std::vector<float> y = run(ops, set, x, m);
    std::vector<double> expected(static_cast<std::size_t>(m * last.weight.n));
    std::vector<double> down(static_cast<std::size_t>(m * kRank));
    add_products(last.low_rank->a, x, m, 1.0, down);
    add_products(last.low_rank->b, {down.begin(), down.end()}, m, last.low_rank->scale, expected);
    LinearSet without = set;
    without.parts.back().low_rank.reset();
    CudaOps others({});
    const std::vector<float> layers = run(others, without, x, m);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto n = static_cast<std::size_t>(last.weight.n);
      const std::size_t at = i / n * static_cast<std::size_t>(set.n()) + n + i % n;
      ASSERT_NEAR(y[at], layers[at] + expected[i], 1e-3) << m << " tokens, " << i;
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
