#include "ops/cuda/divided/collectives.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "core/random_values_for_tests.h"
#include "device/cuda/graph.h"
#include "device/cuda/stream.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/divided/two_gpus_for_tests.h"
#include "ops/cuda/divided/wire_block.h"

namespace nibble::ops::cuda {
namespace {

using device::cuda::Buffer;
using device::cuda::Graph;
using device::cuda::Stream;

std::vector<float> values_of(int rank, std::int64_t count, int round) {
  return core::normal_values(count, static_cast<std::uint64_t>(1000 * round + rank));
}

class OfTwoGpus : public TwoGpus {
 protected:
  // As numbers of a sum of blocks travel.
  static std::vector<float> wired(std::vector<float> values) {
    for (std::size_t first = 0; first < values.size(); first += kWireBlock) {
      const std::size_t count = std::min<std::size_t>(kWireBlock, values.size() - first);
      std::uint32_t bits[kWireBlock] = {};
      float arrived[kWireBlock];
      std::memcpy(bits, values.data() + first, count * sizeof(float));
      from_wire_block(to_wire_block(bits), arrived);
      std::memcpy(values.data() + first, arrived, count * sizeof(float));
    }
    return values;
  }

  // In float32, of what travels in less as it travels. Two ranks have one order.
  static std::vector<float> sum(std::int64_t count, int round, const std::vector<float>& onto,
                                bool by_blocks) {
    std::vector<float> first = values_of(0, count, round);
    std::vector<float> second = values_of(1, count, round);
    if (by_blocks) {
      first = wired(first);
      second = wired(second);
    }
    std::vector<float> total(first.size());
    for (std::size_t i = 0; i < total.size(); ++i) {
      total[i] = first[i] + second[i] + (onto.empty() ? 0.0f : onto[i]);
    }
    return total;
  }

  void expect_sums(Collectives& collectives, std::int64_t count) {
    SCOPED_TRACE(count);
    const Stream stream;
    const bool by_blocks = collectives.by_peers(count) && count > (1 << 18);
    for (int round = 0; round < 4; ++round) {
      const Buffer y = on_device(values_of(collectives.rank(), count, round));
      const std::vector<float> onto = values_of(7, count, round);
      const Buffer x = on_device(onto);
      if (collectives.by_peers(count)) {
        collectives.add_onto(x.as<float>(), y.as<float>(), count, stream.get());
      }
      collectives.add(y.as<float>(), count, stream.get());
      collectives.wait(stream.get());
      EXPECT_EQ(y.values<float>(), sum(count, round, {}, by_blocks));
      if (collectives.by_peers(count)) {
        EXPECT_EQ(x.values<float>(), sum(count, round, onto, by_blocks));
      }
    }
  }
};

// Of sizes that fill no packet, no block, more than one round of all threads, and more than the
// memory for blocks; and one that is NCCL's.
TEST_F(OfTwoGpus, AddTheSame) {
  Collectives collectives(join_both());
  EXPECT_TRUE(collectives.by_peers(4096)) << collectives.how();
  for (const std::int64_t count :
       {1, 2, 3, 511, 4096, 4097, 65535, 65536, 131073, 262143, 262144, 262145, 262148, 270340,
        1 << 20, 2500004, 2048 * 6656 + 4 * 4096 + 4}) {
    expect_sums(collectives, count);
  }
}

TEST_F(OfTwoGpus, AddTheSameByNccl) {
  setenv("NIBBLE_PEER_SUMS", "0", 1);
  Collectives collectives(join_both());
  unsetenv("NIBBLE_PEER_SUMS");
  EXPECT_FALSE(collectives.by_peers(1));
  for (const std::int64_t count : {1, 3, 4096, 524289}) {
    expect_sums(collectives, count);
  }
}

TEST_F(OfTwoGpus, GatherWhatEachHas) {
  Collectives collectives(join_both());
  constexpr std::int64_t kCount = 5003;
  const Stream stream;
  std::vector<float> all(2 * kCount);
  const std::vector<float> mine = values_of(collectives.rank(), kCount, 0);
  std::copy(mine.begin(), mine.end(), all.begin() + collectives.rank() * kCount);
  const Buffer buffer = on_device(all);
  collectives.gather(buffer.as<float>(), kCount, stream.get());
  collectives.wait(stream.get());
  std::vector<float> expected = values_of(0, kCount, 0);
  const std::vector<float> second = values_of(1, kCount, 0);
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(buffer.values<float>(), expected);
}

// A hundred sums of both kinds one behind the other in one graph, many times: x = 2 x each time.
TEST_F(OfTwoGpus, AreRecordedIntoGraphs) {
  Collectives collectives(join_both());
  const Stream stream;
  constexpr std::int64_t kSmall = 4096;
  constexpr std::int64_t kLarge = 700000;
  const Buffer small = on_device(std::vector<float>(kSmall, 1.0f));
  const Buffer large = on_device(std::vector<float>(kLarge, 1.0f));
  const auto add_both = [&] {
    collectives.add(small.as<float>(), kSmall, stream.get());
    collectives.add(large.as<float>(), kLarge, stream.get());
  };
  add_both();  // NCCL may prepare something when it is first called
  const Graph graph = Graph::record(stream.get(), [&] {
    for (int i = 0; i < 10; ++i) {
      add_both();
    }
  });
  for (int i = 0; i < 11; ++i) {
    graph.launch(stream.get());
  }
  collectives.wait(stream.get());
  EXPECT_EQ(small.values<float>(), std::vector<float>(kSmall, std::ldexp(1.0f, 111)));
  EXPECT_EQ(large.values<float>(), std::vector<float>(kLarge, std::ldexp(1.0f, 111)));
}

// NCCL awaits the end of all graphs that hold its operations; who ends does not.
TEST_F(OfTwoGpus, EndWhileAGraphHoldsThem) {
  auto collectives = std::make_unique<Collectives>(join_both());
  const Stream stream;
  const Buffer all = on_device(std::vector<float>(2 * 4096, 1.0f));
  const auto gather = [&] { collectives->gather(all.as<float>(), 4096, stream.get()); };
  gather();
  auto graph = std::make_unique<Graph>(Graph::record(stream.get(), gather));
  graph->launch(stream.get());
  collectives->wait(stream.get());
  const auto start = std::chrono::steady_clock::now();
  collectives->end();
  graph.reset();
  collectives.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

class LossOfARank : public TwoGpus {
 protected:
  // The second rank ends without a word after a sum; the first waits for the next one in vain.
  void expect_an_end(std::int64_t count) {
    const std::shared_ptr<ranks::Communicator> communicator = join_both();
    Collectives collectives(communicator);
    const Stream stream;
    const Buffer x = on_device(std::vector<float>(static_cast<std::size_t>(count), 1.0f));
    collectives.add(x.as<float>(), count, stream.get());
    collectives.wait(stream.get());
    if (!leads()) {
      _exit(9);
    }
    const auto start = std::chrono::steady_clock::now();
    collectives.add(x.as<float>(), count, stream.get());
    try {
      collectives.wait(stream.get());
      ADD_FAILURE() << "a sum ended without a rank";
    } catch (const ranks::RankEnded& ended) {
      EXPECT_EQ(ended.rank(), 1);
      EXPECT_EQ(ended.how(), ranks::End::kDied);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
    EXPECT_NE(cudaStreamQuery(stream.get()), cudaErrorNotReady) << "the device still waits";
    EXPECT_EQ(end_of_other(), 9);
  }
};

// As above, of what a graph holds.
TEST_F(LossOfARank, EndsAGraph) {
  Collectives collectives(join_both());
  const Stream stream;
  const Buffer all = on_device(std::vector<float>(2 * 4096, 1.0f));
  const auto sum_and_gather = [&] {
    collectives.add(all.as<float>(), 4096, stream.get());
    collectives.gather(all.as<float>(), 4096, stream.get());
  };
  sum_and_gather();
  const Graph graph = Graph::record(stream.get(), sum_and_gather);
  collectives.wait(stream.get());
  if (!leads()) {
    _exit(9);
  }
  graph.launch(stream.get());
  EXPECT_THROW(collectives.wait(stream.get()), ranks::RankEnded);
  EXPECT_NE(cudaStreamQuery(stream.get()), cudaErrorNotReady) << "the device still waits";
  EXPECT_EQ(end_of_other(), 9);
}

TEST_F(LossOfARank, EndsASumIntoPeers) {
  expect_an_end(4096);
}

TEST_F(LossOfARank, EndsASumOfBlocks) {
  expect_an_end(1 << 22);
}

TEST_F(LossOfARank, EndsASumByNccl) {
  expect_an_end((1 << 22) + 1);
}

}  // namespace
}  // namespace nibble::ops::cuda
