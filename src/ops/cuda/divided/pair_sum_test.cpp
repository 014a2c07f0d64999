#include "ops/cuda/divided/pair_sum.h"

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/divided/pair_norm.h"
#include "ops/cuda/elementwise/input_targets_for_tests.h"

// Sums that products have begun, of which the other rank's part has come already.
namespace nibble::ops::cuda {
namespace {

using device::cuda::Buffer;
using testing::HalfTarget;
using testing::IntegerTarget;

std::vector<WireBlock> in_blocks(const std::vector<float>& values) {
  std::vector<WireBlock> blocks;
  for (std::size_t first = 0; first < values.size(); first += kWireBlock) {
    std::uint32_t bits[kWireBlock];
    std::memcpy(bits, values.data() + first, sizeof(bits));
    blocks.push_back(to_wire_block(bits));
  }
  return blocks;
}

std::vector<float> from_blocks(const std::vector<WireBlock>& blocks) {
  std::vector<float> values;
  for (const WireBlock& block : blocks) {
    float eight[kWireBlock];
    from_wire_block(block, eight);
    values.insert(values.end(), eight, eight + kWireBlock);
  }
  return values;
}

// What a rank has of two, whose other one has given.
struct Pair {
  std::int64_t blocks;
  Buffer given;  // to this rank
  Buffer sums;
  Buffer ended;
  std::vector<WireBlock> mine;
  std::vector<WireBlock> other;
  Buffer mine_here;
  PairMemory memory;

  explicit Pair(std::int64_t count)
      : blocks(count / kWireBlock + 3),
        given(on_device(std::vector<WireBlock>(static_cast<std::size_t>(2 * blocks)))),
        sums(on_device(std::vector<std::uint32_t>(kPairBlocks, 6))),
        ended(on_device(std::vector<std::int32_t>{0})),
        mine(in_blocks(normal_values(count, 51))),
        other(in_blocks(normal_values(count, 52))),
        mine_here(on_device(mine)) {
    memory.of_rank[0] = given.as<WireBlock>();
    memory.blocks = blocks;
    memory.sums = sums.as<std::uint32_t>();
    memory.ended = ended.as<std::int32_t>();
  }

  PairSum begin(cudaStream_t stream) {
    begin_over_pair(memory, stream);
    std::vector<WireBlock> all(static_cast<std::size_t>(2 * blocks));
    std::copy(other.begin(), other.end(), all.begin() + ++begun_ % 2 * blocks);
    given.upload(all.data(), given.bytes());
    return {mine_here.as<WireBlock>(), memory.of_rank[0], blocks, memory.sums, memory.ended};
  }

  std::vector<float> added_to(std::vector<float> x) const {
    const std::vector<float> a = from_blocks(mine);
    const std::vector<float> b = from_blocks(other);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] += a[i] + b[i];
    }
    return x;
  }

  void expect_ended() const {
    EXPECT_EQ(sums.values<std::uint32_t>(),
              std::vector<std::uint32_t>(kPairBlocks, static_cast<std::uint32_t>(begun_)));
    for (const WireBlock& block : given.values<WireBlock>()) {
      ASSERT_EQ(block.words[0] | block.words[1] | block.words[2] | block.words[3], 0u);
    }
  }

 private:
  std::int64_t begun_ = 6;
};

class PairSumTest : public device::GpuTest {
 protected:
  // The same bits as by a sum and a norm, and the same x, for every form.
  void expect_norm(std::int64_t m, std::int64_t columns, const NormWeights& norm) {
    const testing::Shape shape{m, columns};
    expect_target(HalfTarget(shape, true), HalfTarget(shape, true), shape, norm);
    formats::Activation activation{.bits = 8};
    expect_target(IntegerTarget(shape, activation), IntegerTarget(shape, activation), shape, norm);
    activation.group = 128;
    expect_target(IntegerTarget(shape, activation), IntegerTarget(shape, activation), shape, norm);
    activation = {.bits = 8, .symmetric = false};
    expect_target(IntegerTarget(shape, activation), IntegerTarget(shape, activation), shape, norm);
  }

 private:
  static const Buffer& bytes_of(const HalfTarget& target) { return target.values; }
  static const Buffer& bytes_of(const IntegerTarget& target) { return target.codes; }

  template <typename Target>
  void expect_target(const Target& fused, const Target& apart, const testing::Shape& shape,
                     const NormWeights& norm) {
    const device::cuda::Stream stream;
    const std::int64_t count = shape.m * shape.columns;
    Pair pair(count);
    const std::vector<float> before = normal_values(count, 53);
    const Buffer x = on_device(before);
    add_begun_norm(pair.begin(stream.get()), x.as<float>(), norm, fused.target, shape.m,
                   shape.columns, stream.get());
    stream.synchronize();
    pair.expect_ended();
    EXPECT_EQ(x.values<float>(), pair.added_to(before));
    cuda::norm(x.as<float>(), norm, apart.target, shape.m, shape.columns, stream.get());
    stream.synchronize();
    EXPECT_EQ(bytes_of(fused).template values<std::uint8_t>(),
              bytes_of(apart).template values<std::uint8_t>());
    if constexpr (requires { fused.scales; }) {
      EXPECT_EQ(fused.scales.template values<float>(), apart.scales.template values<float>());
    }
  }
};

TEST_F(PairSumTest, AddsWhatHasCome) {
  for (const std::int64_t count : {8, 24, 4096, 270344, 2500000, 8 * 512 * 264 * 3 + 8}) {
    SCOPED_TRACE(count);
    const device::cuda::Stream stream;
    Pair pair(count);
    std::vector<float> x = normal_values(count, 54);
    const Buffer there = on_device(x);
    for (int round = 0; round < 3; ++round) {
      add_begun(pair.begin(stream.get()), there.as<float>(), count, stream.get());
      stream.synchronize();
      x = pair.added_to(x);
      EXPECT_EQ(there.values<float>(), x);
      pair.expect_ended();
    }
  }
}

// Rows that threads hold once, several times and not at all; padded or not; many and few.
TEST_F(PairSumTest, NormsWhatHasCome) {
  for (const testing::Shape& shape : {testing::Shape{3, 128},
                                      {300, 200},
                                      {5, 4096},
                                      {290, 4096},
                                      {301, 5128},
                                      {2, 8200},
                                      {270, 12288},
                                      {3, 20008}}) {
    SCOPED_TRACE(std::to_string(shape.m) + " x " + std::to_string(shape.columns));
    const Buffer weight = on_device(normal_values(shape.columns, 55));
    const Buffer bias = on_device(normal_values(shape.columns, 56));
    expect_norm(shape.m, shape.columns, {NormKind::kRms, weight.as<float>()});
    expect_norm(shape.m, shape.columns, {NormKind::kLayer, weight.as<float>(), bias.as<float>()});
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
