#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "device/cuda/check.h"
#include "device/cuda/graph.h"
#include "device/cuda/stream.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/divided/collectives.h"
#include "ops/cuda/divided/pair_rows.h"
#include "ops/cuda/divided/pair_sum.h"
#include "ops/cuda/divided/two_gpus_for_tests.h"
#include "ops/cuda/divided/wire_block.h"
#include "ops/cuda/gemm/gemm.h"
#include "ops/cuda/gemm/gemm_on_device_for_tests.h"
#include "ops/cuda/gemm/gemm_test_data.h"

// Sums whose parts products send, against the same sums by the kernel that reads both parts.
namespace nibble::ops::cuda {
namespace {

using device::cuda::Graph;
using device::cuda::Stream;

constexpr int kTokens = 1031;

// A product of INT8 numbers of one rank.
struct Product {
  int rows;
  OnDevice weights;
  Buffer codes;
  Buffer scales;
  Int8Inputs inputs;

  Product(int rank, int n, int k) : rows(n), weights(made(rank, n, k)) {
    std::mt19937 random(static_cast<unsigned>(100 + rank));
    const PlainInt8Inputs plain = make_int8_inputs(kTokens, k, 0, -127, 127, random);
    codes = Buffer::of<std::int8_t>(in_tile_order(plain, padded(k)));
    scales = Buffer::of<float>(plain.scales);
    inputs = {.codes = codes.as<std::int8_t>(),
              .tokens = kTokens,
              .row_bytes = padded(k),
              .scales = scales.as<float>()};
  }

  std::int64_t count() const { return std::int64_t{kTokens} * rows; }
  void run(const GemmOutput& to, cudaStream_t stream) const {
    gemm_int8(plan_gemm(weights.view, GemmInputs::kInt8, kTokens), weights.view, nullptr, inputs,
              to, stream);
  }
  // As it travels.
  std::vector<float> sent() const {
    const Buffer y(count() * std::int64_t{sizeof(float)});
    const Stream stream;
    run({.y = y.as<float>(), .stride = rows}, stream.get());
    stream.synchronize();
    std::vector<float> values = y.values<float>();
    for (std::size_t first = 0; first < values.size(); first += kWireBlock) {
      std::uint32_t bits[kWireBlock];
      float arrived[kWireBlock];
      std::memcpy(bits, values.data() + first, sizeof(bits));
      from_wire_block(to_wire_block(bits), arrived);
      std::memcpy(values.data() + first, arrived, sizeof(arrived));
    }
    return values;
  }

 private:
  static TestWeights made(int rank, int n, int k) {
    std::mt19937 random(static_cast<unsigned>(rank));
    return make_weights({.codes = CodeKind::kInt8, .group = 0}, n, k, random);
  }
};

class SentSums : public TwoGpus {
 protected:
  // x += both products, by this rank's product or by a kernel behind it.
  static void add(Collectives& collectives, const Product& product, bool sends, const Buffer& x,
                  const Buffer& y, cudaStream_t stream) {
    if (sends) {
      auto* const mine = y.as<WireBlock>();
      product.run({.blocks = collectives.begin_sum(mine, kTokens, false, stream)}, stream);
      add_begun(collectives.end_sum(mine), x.as<float>(), product.count(), stream);
    } else {
      product.run({.y = y.as<float>(), .stride = product.rows}, stream);
      collectives.add_onto(x.as<float>(), y.as<float>(), product.count(), stream);
    }
  }
};

// Each rank by its product or not, whatever the other does; one sum behind the other, at once and
// from a graph of an odd number of sums.
TEST_F(SentSums, AreThoseOfKernels) {
  Collectives collectives(join_both());
  for (const int rows : {264, 1000}) {
    SCOPED_TRACE(rows);
    const Product product(collectives.rank(), rows, 640);
    ASSERT_TRUE(collectives.by_products(product.count())) << collectives.how();
    const std::vector<float> first = Product(0, rows, 640).sent();
    const std::vector<float> second = Product(1, rows, 640).sent();
    std::vector<float> expected = normal_values(product.count(), 61);
    const Buffer x = on_device(expected);
    const Buffer y(product.count() * std::int64_t{sizeof(float)});
    const Stream stream;
    const auto add_some = [&](int rounds) {
      for (int round = 0; round < rounds; ++round) {
        add(collectives, product, ((round >> collectives.rank()) & 1) == 0, x, y, stream.get());
      }
    };
    add_some(4);
    const Graph graph = Graph::record(stream.get(), [&] { add_some(7); });
    for (int i = 0; i < 3; ++i) {
      graph.launch(stream.get());
    }
    collectives.wait(stream.get());
    for (int round = 0; round < 4 + 3 * 7; ++round) {
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] += first[i] + second[i];
      }
    }
    EXPECT_EQ(x.values<float>(), expected);
  }
}

// Each rank makes its rows of the sum, and of the norm for both: the same as of the whole, whether
// its product sends or a kernel behind it.
TEST_F(SentSums, AreMadeInHalvesOfTheRows) {
  Collectives collectives(join_both());
  constexpr int kRows = 1000;
  ASSERT_TRUE(collectives.divides_rows(kTokens)) << collectives.how();
  const Product product(collectives.rank(), kRows, 640);
  const TokenRange own = collectives.own_rows(kTokens);
  EXPECT_EQ(own.begin, collectives.rank() == 0 ? 0 : 516);
  EXPECT_EQ(own.end, collectives.rank() == 0 ? 516 : kTokens);
  const Buffer weight = on_device(normal_values(kRows, 62));
  const NormWeights norm{NormKind::kRms, weight.as<float>()};
  const std::vector<float> before = normal_values(product.count(), 63);
  const Buffer x = on_device(before);
  const Buffer whole = on_device(before);
  const Buffer mine(product.count() * 2);
  const Buffer y(product.count() * std::int64_t{sizeof(float)});
  const Stream stream;
  constexpr std::int64_t kCodeBytes = std::int64_t{kTokens} * 1024;
  const Collectives::SharedInput memory = collectives.shared_input(kCodeBytes + 4 * kTokens);
  ASSERT_NE(memory.here, nullptr);
  const auto target_in = [&](std::byte* values) {
    InputTarget target{.form = InputForm::kByteTiles};
    target.codes = reinterpret_cast<std::int8_t*>(values);
    target.scales = reinterpret_cast<float*>(values + kCodeBytes);
    return target;
  };
  const Buffer apart(kCodeBytes + 4 * kTokens);
  for (int round = 0; round < 5; ++round) {
    SCOPED_TRACE(round);
    auto* const blocks = mine.as<WireBlock>();
    const BlockOutput output = collectives.begin_sum(blocks, kTokens, true, stream.get());
    if ((round + collectives.rank()) % 2 == 0) {
      product.run({.blocks = output}, stream.get());
    } else {
      product.run({.y = y.as<float>(), .stride = kRows}, stream.get());
      send_over_pair(y.as<float>(), kRows, output, stream.get());
    }
    add_begun_norm_rows(collectives.end_sum(blocks), x.as<float>(), norm, target_in(memory.here),
                        target_in(memory.there), own, kRows, stream.get());
    collectives.meet_on(stream.get());
    std::vector<std::uint8_t> got(static_cast<std::size_t>(apart.bytes()));
    device::cuda::check(
        cudaMemcpyAsync(got.data(), memory.here, got.size(), cudaMemcpyDeviceToHost, stream.get()),
        "cudaMemcpyAsync");
    product.run({.y = y.as<float>(), .stride = kRows}, stream.get());
    collectives.add_onto(whole.as<float>(), y.as<float>(), product.count(), stream.get());
    cuda::norm(whole.as<float>(), norm, target_in(apart.data()), kTokens, kRows, stream.get());
    collectives.wait(stream.get());
    EXPECT_EQ(got, apart.values<std::uint8_t>());
    const std::vector<float> halves = x.values<float>();
    const std::vector<float> all = whole.values<float>();
    EXPECT_TRUE(std::equal(halves.begin() + own.begin * kRows, halves.begin() + own.end * kRows,
                           all.begin() + own.begin * kRows));
  }
}

TEST_F(SentSums, AreNotForEveryCount) {
  const std::shared_ptr<ranks::Communicator> communicator = join_both();
  const Collectives collectives(communicator);
  EXPECT_FALSE(collectives.by_products(4096)) << "packets are sooner there";
  EXPECT_FALSE(collectives.by_products((1 << 20) + 4));
  EXPECT_FALSE(collectives.by_products(2048 * 6656 + 8));
  EXPECT_TRUE(collectives.by_products(2048 * 6656));
  EXPECT_TRUE(collectives.divides_rows(1025));
  EXPECT_FALSE(collectives.divides_rows(128));
  EXPECT_EQ(collectives.shared_input(std::int64_t{1} << 30).here, nullptr);
  setenv("NIBBLE_PEER_SUMS", "kernels", 1);
  const Collectives by_kernels(communicator);
  unsetenv("NIBBLE_PEER_SUMS");
  EXPECT_TRUE(by_kernels.by_peers(1 << 20));
  EXPECT_FALSE(by_kernels.by_products(1 << 20));
  EXPECT_FALSE(by_kernels.divides_rows(1024));
}

TEST_F(SentSums, EndBeforeAnotherBegins) {
  Collectives collectives(join_both());
  const Stream stream;
  const Buffer y(std::int64_t{1} << 22);
  collectives.begin_sum(y.as<WireBlock>(), 1024, false, stream.get());
  EXPECT_THROW(collectives.begin_sum(y.as<WireBlock>(), 1024, false, stream.get()), core::Error);
  EXPECT_THROW(collectives.add(y.as<float>(), 1 << 20, stream.get()), core::Error);
  collectives.end_sum(y.as<WireBlock>());
  EXPECT_THROW(collectives.end_sum(y.as<WireBlock>()), core::Error);
  collectives.wait(stream.get());
}

}  // namespace
}  // namespace nibble::ops::cuda
