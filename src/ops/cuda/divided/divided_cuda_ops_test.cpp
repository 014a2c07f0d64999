#include "ops/cuda/divided/divided_cuda_ops.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/threads.h"
#include "device/cuda/check.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/divided/two_gpus_for_tests.h"

// The residual stream behind layers that are divided by inputs: in halves of the rows or not, all
// that comes of it has the same bits on both ranks as where kernels add all rows.
namespace nibble::ops::cuda {
namespace {

constexpr std::int64_t kWidth = 1024;
constexpr std::int64_t kInputs = 512;
constexpr std::int64_t kOutputs = 256;

// Attention output, what is behind the norm, and down.
struct Sets {
  LinearSet out;
  LinearSet up;
  LinearSet down;

  Sets(int rank, const std::string& scheme, const std::string& behind)
      : out(set(0, scheme, kWidth, kInputs, static_cast<unsigned>(10 + rank))),
        up(set(1, behind, kOutputs, kWidth, 20)),
        down(set(2, scheme, kWidth, kInputs, static_cast<unsigned>(30 + rank))) {}

  static Division division() {
    Division division;
    division.sets.resize(3);
    division.sets[0].adds = division.sets[2].adds = true;
    return division;
  }

 private:
  static LinearSet set(int id, const std::string& scheme, std::int64_t n, std::int64_t k,
                       unsigned seed) {
    LinearSet set;
    set.id = id;
    set.parts.push_back({"layer", cpu::testing::random_weight(scheme, n, k, seed), {}});
    return set;
  }
};

class DividedOps : public TwoGpus {
 protected:
  using Matrix = DividedCudaOps::Matrix;

  static Matrix uploaded(DividedCudaOps& ops, const std::vector<float>& values, std::int64_t m) {
    Matrix x = ops.matrix(m, std::ssize(values) / m);
    device::cuda::check(
        cudaMemcpy(x.data(), values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice),
        "cudaMemcpy");
    return x;
  }

  static void append(DividedCudaOps& ops, const Matrix& x, std::vector<float>& to) {
    ops.synchronize();
    std::vector<float> values(static_cast<std::size_t>(x.count()));
    device::cuda::check(
        cudaMemcpy(values.data(), x.data(), values.size() * sizeof(float), cudaMemcpyDeviceToHost),
        "cudaMemcpy");
    to.insert(to.end(), values.begin(), values.end());
  }

  // What `up` makes, and the stream behind `down`, three times.
  std::vector<float> run(const std::shared_ptr<ranks::Communicator>& ranks, const Sets& sets,
                         std::int64_t m, bool by_kernels) {
    if (by_kernels) {
      setenv("NIBBLE_PEER_SUMS", "kernels", 1);
    }
    auto collectives = std::make_unique<Collectives>(ranks);
    unsetenv("NIBBLE_PEER_SUMS");
    DividedCudaOps ops({}, nullptr, ranks->rank());
    ops.make_current();
    ops.divide(std::move(collectives), Sets::division());
    UnitPacker packer(pool_);
    for (const LinearSet* set : {&sets.out, &sets.up, &sets.down}) {
      ops.prepare(*set, packer);
    }
    Norm norm;
    norm.weight = normal_values(kWidth, 70);
    Matrix x = uploaded(ops, normal_values(m * kWidth, 71), m);
    const Matrix heads = uploaded(
        ops, normal_values(m * kInputs, static_cast<std::uint64_t>(72 + ranks->rank())), m);
    std::vector<float> results;
    for (int round = 0; round < 3; ++round) {
      auto of_heads = ops.input(heads, sets.out);
      const auto delta = ops.linear(of_heads, sets.out, Residual<Matrix>{x});
      auto input = delta ? ops.add_norm(x, *delta, norm, sets.up) : ops.norm(x, norm, sets.up);
      append(ops, ops.linear(input, sets.up), results);
      auto middle = ops.input(heads, sets.down);
      if (const auto behind = ops.linear(middle, sets.down, Residual<Matrix>{x})) {
        ops.add(x, *behind);
      }
      append(ops, x, results);
    }
    ops.end();
    return results;
  }

  core::ThreadPool pool_{2};
};

// Layers behind the norm that read what it writes, and such that need the whole stream.
TEST_F(DividedOps, HaveTheBitsOfWholeSums) {
  const std::shared_ptr<ranks::Communicator> ranks = join_both();
  struct Case {
    const char* scheme;
    const char* behind;
  };
  for (const Case& each : {Case{"int8-sym-row-a8", "int8-sym-row-a8"},
                           {"int4-sym-g128", "int4-sym-g128"},
                           {"int8-sym-row-a8", "int8-sym-row-a8o"},
                           {"int8-sym-row-a8-asym", "int4-sym-g128"}}) {
    const Sets sets(ranks->rank(), each.scheme, each.behind);
    for (const std::int64_t m : {300, 301}) {
      SCOPED_TRACE(std::string(each.scheme) + ", " + each.behind + ", " + std::to_string(m));
      const std::vector<float> halves = run(ranks, sets, m, false);
      EXPECT_EQ(halves, run(ranks, sets, m, true));
      EXPECT_TRUE(std::all_of(halves.begin(), halves.end(),
                              [](float value) { return std::isfinite(value); }));
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
