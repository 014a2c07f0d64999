#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/divided/wire_block.h"
#include "ops/cuda/gemm/gemm.h"
#include "ops/cuda/gemm/gemm_on_device_for_tests.h"
#include "ops/cuda/gemm/gemm_test_data.h"

// Results as blocks of a sum over two GPUs, against those of the same product as float32. Both
// places of the other GPU are memory of this one.
namespace nibble::ops::cuda {
namespace {

struct Shape {
  int tokens;
  int rows;
  int columns;
};

// Rows are multiples of 8, of 16 and 64 or not; tokens fill tiles or don't.
constexpr Shape kShapes[] = {{1, 8, 128},     {75, 328, 416},   {64, 512, 1152},
                             {290, 280, 256}, {520, 96, 768},   {200, 1048, 384},
                             {33, 40, 128},   {1100, 264, 200}, {130, 136, 128}};

class GemmBlocksTest : public device::GpuTest {
 protected:
  void check_int8(const WeightKind& kind, int input_group) {
    std::mt19937 random(41);
    for (const Shape& shape : kShapes) {
      const OnDevice weights(make_weights(kind, shape.rows, shape.columns, random));
      const PlainInt8Inputs inputs =
          make_int8_inputs(shape.tokens, shape.columns, input_group, -8, 7, random);
      const Int8OnDevice there(inputs);
      check_plans(shape, gemm_plans(weights.view, there.kind),
                  [&](const GemmPlan& plan, const GemmOutput& to, cudaStream_t stream) {
                    gemm_int8(plan, weights.view, nullptr, there.view, to, stream);
                  });
    }
  }

  void check_half(const WeightKind& kind) {
    std::mt19937 random(42);
    for (const Shape& shape : kShapes) {
      const OnDevice weights(make_weights(kind, shape.rows, shape.columns, random));
      const auto inputs = make_half_inputs(shape.tokens, shape.columns, random);
      const int width = padded(shape.columns);
      const Buffer values =
          Buffer::of<__half>(in_tile_order(inputs, shape.tokens, shape.columns, width));
      const HalfInputs view{
          .values = values.data(), .tokens = shape.tokens, .row_bytes = 2 * width};
      check_plans(shape, gemm_plans(weights.view, GemmInputs::kHalf),
                  [&](const GemmPlan& plan, const GemmOutput& to, cudaStream_t stream) {
                    gemm_half(plan, weights.view, view, to, stream);
                  });
    }
  }

 private:
  // All plans, also with two blocks of threads that take many tiles each. Two rows have a bias that
  // is not finite, one of them a NaN of all ones.
  template <class Run>
  void check_plans(const Shape& shape, std::vector<GemmPlan> plans, Run&& run) {
    std::vector<float> bias = normal_values(shape.rows, 43);
    bias[static_cast<std::size_t>(shape.rows) / 2] = std::numeric_limits<float>::infinity();
    const std::uint32_t all_ones = 0x7fffffff;
    std::memcpy(&bias.back(), &all_ones, sizeof(all_ones));
    const Buffer biases = on_device(bias);
    for (std::size_t i = 0, count = plans.size(); i < count; ++i) {
      plans.push_back(plans[i]);
      plans.back().blocks = 2;
    }
    for (const GemmPlan& plan : plans) {
      SCOPED_TRACE(std::string(plan.wgmma ? "wgmma " : "mma ") + std::to_string(plan.row_tile) +
                   " x " + std::to_string(plan.token_tile) + " in " + std::to_string(plan.cluster) +
                   (plan.divides_k ? " that divide k, " : ", ") + std::to_string(plan.blocks) +
                   " blocks; " + std::to_string(shape.tokens) + " tokens, " +
                   std::to_string(shape.rows) + " rows, " + std::to_string(shape.columns) +
                   " columns");
      const auto run_to = [&](GemmOutput to) {
        const device::cuda::Stream stream;
        to.bias = biases.as<float>();
        run(plan, to, stream.get());
        stream.synchronize();
      };
      const Buffer y = poisoned<float>(std::int64_t{shape.tokens} * shape.rows);
      run_to({.y = y.as<float>(), .stride = shape.rows});
      expect_blocks(y.values<float>(), shape, run_to);
    }
  }

  // That blocks of y lie here and in the place of the sum, of those tokens that should, and nothing
  // beside them.
  template <class Run>
  void expect_blocks(const std::vector<float>& y, const Shape& shape, Run&& run_to) {
    const std::int64_t count = std::ssize(y) / kWireBlock;
    const std::int64_t place = count + 3;
    std::vector<WireBlock> blocks;
    for (std::int64_t i = 0; i < count; ++i) {
      std::uint32_t bits[kWireBlock];
      std::memcpy(bits, y.data() + i * kWireBlock, sizeof(bits));
      blocks.push_back(to_wire_block(bits));
    }
    const std::uint32_t number = number_++;
    const Buffer sum = on_device(std::vector<std::uint32_t>{number});
    const Buffer here = poisoned<WireBlock>(place);
    const Buffer there = poisoned<WireBlock>(2 * place);
    const int half = shape.tokens / 2;
    const TokenRange kept{number % 3 == 0 ? half : 0, shape.tokens};
    const TokenRange sent{0, number % 3 == 1 ? half : shape.tokens};
    run_to({.blocks = {here.as<WireBlock>(), there.as<WireBlock>(), place, sum.as<std::uint32_t>(),
                       kept, sent}});
    const std::int64_t of_token = shape.rows / kWireBlock;
    EXPECT_EQ(first_other(here.values<WireBlock>(), blocks, 0, of_token, kept), -1) << "here";
    EXPECT_EQ(first_other(there.values<WireBlock>(), blocks, number % 2 * place, of_token, sent),
              -1)
        << "there";
  }

  // The first block that is not `blocks`, from `begin` on and of those tokens, nor what it was; or
  // -1.
  static std::int64_t first_other(const std::vector<WireBlock>& all,
                                  const std::vector<WireBlock>& blocks, std::int64_t begin,
                                  std::int64_t of_token, const TokenRange& tokens) {
    WireBlock poison;
    std::memset(&poison, 0xff, sizeof(poison));
    for (std::int64_t i = 0; i < std::ssize(all); ++i) {
      const bool inside = i >= begin && i < begin + std::ssize(blocks) &&
                          tokens.has(static_cast<int>((i - begin) / of_token));
      const WireBlock& wanted = inside ? blocks[static_cast<std::size_t>(i - begin)] : poison;
      if (std::memcmp(&all[static_cast<std::size_t>(i)], &wanted, sizeof(wanted)) != 0) {
        // What is not finite is NaN; with which codes does not matter.
        if (!inside || wanted.words[3] >> 24 != wire::kNotFinite ||
            all[static_cast<std::size_t>(i)].words[3] >> 24 != wire::kNotFinite) {
          return i;
        }
      }
    }
    return -1;
  }

  std::uint32_t number_ = 6;
};

TEST_F(GemmBlocksTest, OfInt8WeightsByRow) {
  check_int8({.codes = CodeKind::kInt8, .group = 0}, 0);
}
TEST_F(GemmBlocksTest, OfInt8WeightsByGroup) {
  check_int8({.codes = CodeKind::kInt8, .group = 128}, 0);
}
TEST_F(GemmBlocksTest, OfInt4WeightsByRow) {
  check_int8({.group = 0}, 0);
}
TEST_F(GemmBlocksTest, OfInt4WeightsByGroup) {
  check_int8({.group = 128}, 0);
  check_int8({.group = 128}, 128);
}
TEST_F(GemmBlocksTest, HalfFromInt4) {
  check_half({.group = 128});
  check_half({.codes = CodeKind::kInt4WithZeros, .group = 32});
}
TEST_F(GemmBlocksTest, HalfFromInt8) {
  check_half({.codes = CodeKind::kInt8, .group = 0});
}
TEST_F(GemmBlocksTest, HalfFromBook) {
  check_half({.codes = CodeKind::kBook, .group = 128});
}

}  // namespace
}  // namespace nibble::ops::cuda
