#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/tensor.h"
#include "formats/packed_weight.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/packed/test_problems.h"

// Operators that feed layers of rounded inputs write integers while a row is in the cache, and no
// matrix of floats. What the layers make of them must be what they make of the floats.
namespace nibble::ops::cpu {
namespace {

using Values = std::vector<float>;

constexpr std::int64_t kRows = 21;  // more than two chunks of rows
constexpr std::int64_t kInputs = 256;

formats::PackedWeight weight_of(const std::string& scheme, std::int64_t n, std::int64_t k,
                                std::uint64_t seed) {
  return scheme == "f16" ? formats::dense_weight(core::from_float32(
                               testing::random_input(n, k, seed), {n, k}, core::DType::kF16))
                         : testing::random_weight(scheme, n, k, seed);
}

LinearSet set_of(const std::string& first, const std::string& second = "") {
  LinearSet set;
  set.id = 0;
  set.parts.push_back({"first", weight_of(first, 48, kInputs, 1), testing::random_input(1, 48, 2)});
  if (!second.empty()) {
    set.parts.push_back({"second", weight_of(second, 19, kInputs, 3), {}});
  }
  return set;
}

Norm norm_of(NormKind kind) {
  Norm norm;
  norm.kind = kind;
  norm.weight = testing::random_input(1, kInputs, 4);
  if (kind == NormKind::kLayer) {
    norm.bias = testing::random_input(1, kInputs, 5);
  }
  return norm;
}

Matrix random_matrix(CpuOps& ops, std::int64_t columns, std::uint64_t seed) {
  Matrix x = ops.matrix(kRows, columns);
  const Values values = testing::random_input(kRows, columns, seed);
  for (std::int64_t i = 0; i < kRows * columns; ++i) {
    x.data()[i] = 4.0f * values[static_cast<std::size_t>(i)];  // some are outliers
  }
  return x;
}

Values values_of(const Matrix& x) {
  return {x.values().begin(), x.values().end()};
}

struct Operator {
  const char* name;
  std::int64_t columns;  // of x
  std::function<CpuOps::Input(CpuOps&, Matrix& x, const Matrix& delta, const LinearSet&)> run;
};

const std::vector<Operator>& operators() {
  static const std::vector<Operator> all = {
      {"norm", kInputs,
       [](CpuOps& ops, Matrix& x, const Matrix&, const LinearSet& set) {
         return ops.norm(x, norm_of(NormKind::kRms), set);
       }},
      {"add_norm", kInputs,
       [](CpuOps& ops, Matrix& x, const Matrix& delta, const LinearSet& set) {
         return ops.add_norm(x, delta, norm_of(NormKind::kRms), set);
       }},
      {"post_norm", kInputs,
       [](CpuOps& ops, Matrix& x, const Matrix& delta, const LinearSet& set) {
         return ops.post_norm(x, delta, norm_of(NormKind::kLayer), set);
       }},
      {"mlp_activation", kInputs,
       [](CpuOps& ops, Matrix& x, const Matrix&, const LinearSet& set) {
         return ops.mlp_activation(x, MlpActivation::kGelu, set);
       }},
      {"gated_activation", 2 * kInputs,
       [](CpuOps& ops, Matrix& x, const Matrix&, const LinearSet& set) {
         return ops.gated_activation(x, MlpActivation::kSilu, set);
       }},
      {"input", kInputs, [](CpuOps& ops, Matrix& x, const Matrix&, const LinearSet& set) {
         return ops.input(x, set);
       }}};
  return all;
}

struct Result {
  Values y;
  Values x;  // behind the operator
  bool has_values = false;
};

bool has_values(const CpuOps::Input& input) {
  try {
    return !input.values().empty();
  } catch (const core::Error&) {
    return false;
  }
}

Result run(const Operator& op, const LinearSet& set, const CpuOptions& options, bool keep) {
  CpuOps ops(options);
  ops.prepare(set);
  ops.keep_values(keep);
  Matrix x = random_matrix(ops, op.columns, 6);
  const Matrix delta = random_matrix(ops, op.columns, 7);
  CpuOps::Input input = op.run(ops, x, delta, set);
  Result result;
  result.has_values = has_values(input);
  EXPECT_EQ(input.rows(), kRows);
  EXPECT_EQ(input.columns(), kInputs);
  result.y = values_of(ops.linear(input, set));
  result.x = values_of(x);
  return result;
}

void compare(const LinearSet& set, const CpuOptions& options, const std::string& name) {
  for (const Operator& op : operators()) {
    const Result floats = run(op, set, options, true);
    const Result codes = run(op, set, options, false);
    EXPECT_TRUE(floats.has_values);
    EXPECT_FALSE(codes.has_values) << op.name << ", " << name;
    EXPECT_EQ(codes.y, floats.y) << op.name << ", " << name;
    EXPECT_EQ(codes.x, floats.x) << op.name << ", " << name;
  }
}

TEST(RoundedRows, GiveWhatFloatsGive) {
  for (const char* scheme :
       {"int8-sym-row-a8", "int4-sym-g128", "int8-sym-row-a8o", "int8-sym-row-a8-asym",
        "int4-asym-g32-a8o", "int4-sym-g128-a4g128c0.9-tail16", "int4-asym-g64-a4-h64",
        "int4-asym-g32-order", "int8-sym-row-a8s", "lut4-fp4-g32-afp4o"}) {
    compare(set_of(scheme), {2, ActivationPrecision::kInt8}, scheme);
  }
  compare(set_of("int4-sym-g64"), {2, ActivationPrecision::kInt16}, "16 bits");
  compare(set_of("int4-sym-g128", "int8-sym-g128"), {1, ActivationPrecision::kInt8}, "two layers");
}

// Layers that read floats, or not the same integers, get floats.
TEST(RoundedRows, AreMadeOnlyForLayersThatReadThemAlike) {
  const Operator& op = operators().front();
  const CpuOptions options = {2, ActivationPrecision::kInt8};
  LinearSet adapted = set_of("int8-sym-row-a8");
  adapted.parts[0].low_rank = LowRank{weight_of("f16", 4, kInputs, 8), weight_of("f16", 48, 4, 9)};
  for (const LinearSet& set : {set_of("f16"), set_of("int8-sym-row-a8", "int4-sym-g128"),
                               set_of("int8-sym-row-a8", "f16"), adapted}) {
    EXPECT_TRUE(run(op, set, options, false).has_values);
  }
}

TEST(RoundedRows, AreNotMadeWhileAnObserverLooks) {
  CpuOps ops({2, ActivationPrecision::kInt8});
  const LinearSet set = set_of("int8-sym-row-a8");
  ops.prepare(set);
  Values seen;
  ops.set_observer([&](const LinearSet&, const Matrix& x) { seen = values_of(x); });
  const Matrix x = random_matrix(ops, kInputs, 6);
  CpuOps::Input input = ops.input(x, set);
  ops.linear(input, set);
  EXPECT_EQ(seen, values_of(x));
}

TEST(RoundedRows, AreRefusedInAnotherForm) {
  CpuOps ops({1, ActivationPrecision::kInt8});
  LinearSet set = set_of("int8-sym-row-a8");
  LinearSet other = set_of("int4-sym-g64");
  other.id = 1;
  ops.prepare(set);
  ops.prepare(other);
  CpuOps::Input input = ops.input(random_matrix(ops, kInputs, 6), set);
  EXPECT_THROW(ops.linear(input, other), core::Error);
}

}  // namespace
}  // namespace nibble::ops::cpu
