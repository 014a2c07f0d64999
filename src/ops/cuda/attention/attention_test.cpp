#include "ops/cuda/attention/attention.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/graph.h"
#include "ops/cpu/attention/rope.h"
#include "ops/cuda/attention/attention_trial_for_tests.h"

namespace nibble::ops::cuda {
namespace {

using CudaAttention = device::GpuTest;

constexpr KvType kF32 = KvType::kF32;
constexpr KvType kF16 = KvType::kF16;
constexpr KvType kInt8 = KvType::kInt8;
constexpr KvType kInt4 = KvType::kInt4;
constexpr KvType kFp8 = KvType::kFp8;

// Decode, prefill and both; sequences shorter than a page, ragged, with several splits, windows
// inside a page and across; groups of 1, 3, 4 and more than a pass of heads.
std::vector<Problem> problems(KvTypes types) {
  const float small = types.values == kFp8 ? 0.02f : 1e-4f;  // most E4M3 of it are subnormal
  std::vector<Problem> all = {
      {types, 8, 2, 128, 0, {{0, 1}, {1, 1}, {15, 1}, {16, 1}, {17, 1}, {100, 1}, {700, 1}}},
      {types, 3, 1, 64, 0, {{40, 1}, {530, 1}}},
      {types, 4, 4, 128, 20, {{3, 1}, {50, 1}, {600, 1}}},
      {types, 20, 2, 64, 0, {{77, 1}}},
      {types, 8, 2, 128, 0, {{0, 5}, {33, 70}, {10, 1}, {0, 64}}},
      {types, 6, 2, 64, 24, {{100, 40}, {0, 90}}},
      {types, 4, 1, 128, 0, {{30, 1}, {5, 20}}, small},
      {types, 8, 2, 128, 0, {{100, 1}, {33, 20}}, 1.0f, true},
      {types, 6, 2, 64, 24, {{100, 40}, {16, 1}}, 1.0f, true},
      {types, 9, 9, 128, 0, short_sequences(30)},
  };
  if (types.keys != kF32) {
    all.push_back({types, 32, 32, 128, 0, many_sequences()});
    all.push_back({types, 32, 32, 128, 40, many_sequences()});
  }
  if (types.keys == kF32 || types.keys == kFp8 || (types.keys == kInt4 && types.values == kF16)) {
    all.push_back({types, 2, 1, 80, 0, {{0, 1}, {40, 1}, {3, 9}}});
    all.push_back({types, 4, 2, 24, 7, {{20, 1}, {0, 19}}});
    all.push_back({types, 2, 1, 256, 0, {{30, 3}}, 1.0f, true});
  }
  return all;
}

std::string name_of(const Problem& p) {
  return std::to_string(static_cast<int>(p.types.keys)) + "-" +
         std::to_string(static_cast<int>(p.types.values)) + ", " + std::to_string(p.heads) + "/" +
         std::to_string(p.kv_heads) + " heads of " + std::to_string(p.head_dim) + ", window " +
         std::to_string(p.window) + ", " + std::to_string(p.sequences.size()) + " sequences";
}

const KvTypes kTypes[] = {{kF16, kF16},   {kInt8, kInt8}, {kInt4, kInt4}, {kInt8, kInt4},
                          {kInt4, kInt8}, {kF16, kInt4},  {kInt4, kF16},  {kF16, kInt8},
                          {kInt8, kF16},  {kF32, kF32},   {kF32, kInt4},  {kFp8, kFp8}};

TEST_F(CudaAttention, MatchesTheReferenceOnTheCpusOwnCache) {
  for (const KvTypes types : kTypes) {
    for (const Problem& problem : problems(types)) {
      Trial trial(problem);
      const std::vector<float> qkv = trial.fill();
      EXPECT_EQ(trial.differences(), 0) << name_of(problem);
      const std::vector<float> expected = trial.reference(qkv);
      const std::vector<float> out = trial.attend(trial.rows(false));
      // Weights are rounded to float16 before they meet codes of up to 15 steps, and the smallest
      // value, which may cancel most of the product, is added after that.
      const double tolerance = !trial.layer().layout.fragments() ? 1e-5
                               : types.values == kInt4           ? 4e-3
                                                                 : 1e-3;
      EXPECT_LT(worst_difference(out, expected), tolerance) << name_of(problem);
      EXPECT_EQ(out, trial.attend(trial.rows(false))) << "a second time: " << name_of(problem);
    }
  }
}

// A sequence's rows have the same bits alone and beside others.
TEST_F(CudaAttention, SequencesDoNotDependOnTheBatch) {
  for (const KvTypes types : {KvTypes(kInt4), KvTypes(kF16), KvTypes(kFp8)}) {
    Problem alone{types, 8, 2, 128, 0, {{700, 1}}};
    Trial single(alone);
    single.fill();
    const std::vector<float> right = single.attend(1);
    Problem together = alone;
    together.sequences = {{700, 1}, {900, 1}, {64, 1}, {3, 30}};
    Trial batch(together);
    // The first sequence's values are those of the single run: rows are drawn in order.
    batch.fill();
    Trial again(together);
    again.fill();
    const std::vector<float> all = batch.attend(batch.rows(false));
    EXPECT_EQ(all, again.attend(again.rows(false)));
    EXPECT_TRUE(std::equal(right.begin(), right.end(), all.begin()));
  }
}

TEST_F(CudaAttention, WritesEachFormOfOutput) {
  Problem problem{KvTypes(kInt4), 3, 1, 64, 0, {{40, 1}, {9, 5}}};  // 192 columns of 256
  Trial trial(problem);
  trial.fill();
  const std::int64_t m = trial.rows(false);
  const std::vector<float> right = trial.attend(m);
  for (const bool tiles : {false, true}) {
    const Buffer halves = poisoned<core::Fp16>(m * 256);
    AttentionOutput output;
    output.target.form = tiles ? InputForm::kFloat16Tiles : InputForm::kFloat16;
    output.target.values = halves.as<core::Fp16>();
    trial.launch_attend(output);
    trial.stream().synchronize();
    const auto got = halves.values<core::Fp16>();
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t k = 0; k < 256; ++k) {
        const auto at = static_cast<std::size_t>(i * 256 + (tiles ? float16_tile_position(k) : k));
        const core::Fp16 expected =
            k < 192 ? core::to_fp16(right[static_cast<std::size_t>(i * 192 + k)]) : core::Fp16{};
        wrong += !(got[at] == expected);
      }
    }
    EXPECT_EQ(wrong, 0) << tiles;
  }
}

// Norm and RoPE of every rotary size against the CPU's functions, in float32.
TEST_F(CudaAttention, NormsAndTurnsQueriesAndKeys) {
  for (const std::int64_t dim : {128, 80}) {
    for (const std::int64_t rotary : {dim, dim / 4, std::int64_t{6}}) {
      Problem problem{KvTypes(kF32), 4, 2, dim, 0, {{37, 1}, {5000, 2}}};
      Trial trial(problem);
      std::vector<float> frequency;
      for (std::int64_t i = 0; i < rotary / 2; ++i) {
        frequency.push_back(
            std::pow(10000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(rotary)));
      }
      const std::vector<float> q_norm = normal_values(dim, 8);
      const std::vector<float> k_norm = normal_values(dim, 9);
      const Buffer device_frequency = on_device(frequency);
      const Buffer device_q = on_device(q_norm);
      const Buffer device_k = on_device(k_norm);
      AttentionLayer& layer = trial.layer();
      layer.inverse_frequency = device_frequency.as<float>();
      layer.rotary = rotary;
      layer.rope_factor = 1.1f;
      layer.q_norm = device_q.as<float>();
      layer.k_norm = device_k.as<float>();
      if (trial.rows(true) > 0) {
        trial.append_rows(trial.values(trial.rows(true), 5), true);
      }
      std::vector<float> qkv = trial.values(trial.rows(false), 6);
      trial.append_rows(qkv, false);
      // The same on the CPU.
      const std::vector<std::int64_t> positions = {37, 5000, 5001};
      for (std::size_t i = 0; i < positions.size(); ++i) {
        cpu::Rotation rotation;
        rotation.set(frequency, positions[i], layer.rope_factor);
        for (std::int64_t head = 0; head < 6; ++head) {
          float* x = &qkv[i * static_cast<std::size_t>(trial.width()) +
                          static_cast<std::size_t>(head * dim)];
          double squares = 0;
          for (std::int64_t d = 0; d < dim; ++d) {
            squares += static_cast<double>(x[d]) * static_cast<double>(x[d]);
          }
          const double factor = 1 / std::sqrt(squares / static_cast<double>(dim) +
                                              static_cast<double>(layer.norm_eps));
          for (std::int64_t d = 0; d < dim; ++d) {
            x[d] = static_cast<float>(x[d] * factor) *
                   (head < 4 ? q_norm : k_norm)[static_cast<std::size_t>(d)];
          }
          cpu::rotate(x, rotation);
        }
      }
      const std::vector<std::byte> bytes = trial.blocks();
      double worst = 0;
      const auto sequences = trial.planned(false);
      for (std::size_t i = 0; i < positions.size(); ++i) {
        const PlannedSequence& sequence = sequences[i == 0 ? 0 : 1];
        const std::int32_t page =
            sequence.pages[static_cast<std::size_t>(positions[i] / kPageTokens)];
        for (std::int64_t head = 0; head < 2; ++head) {
          const std::byte* block =
              bytes.data() + page * layer.layout.page_bytes() + head * layer.layout.block_bytes();
          for (std::int64_t d = 0; d < dim; ++d) {
            const double right = qkv[i * static_cast<std::size_t>(trial.width()) +
                                     static_cast<std::size_t>((4 + head) * dim + d)];
            worst = std::max(
                worst, std::fabs(read_block(layer.layout, block, true, positions[i] % 16, d).value -
                                 right));
          }
        }
      }
      EXPECT_LT(worst, 2e-5) << dim << " " << rotary;
      EXPECT_LT(worst_difference(trial.queries(), trial.heads_of(qkv)), 5e-6)
          << dim << " " << rotary;
    }
  }
}

// A recorded graph follows the plan that lies in its buffers.
TEST_F(CudaAttention, RunsInAGraph) {
  Problem problem{KvTypes(kInt8, kInt4), 8, 2, 128, 0, {{600, 1}, {40, 1}}};
  Trial trial(problem);
  trial.fill();
  const std::vector<float> right = trial.attend(2);
  const Buffer out = poisoned<float>(2 * 8 * 128);
  AttentionOutput output;
  output.rows = out.as<float>();
  const auto graph =
      device::cuda::Graph::record(trial.stream().get(), [&] { trial.launch_attend(output); });
  for (int i = 0; i < 3; ++i) {
    graph.launch(trial.stream().get());
  }
  trial.stream().synchronize();
  EXPECT_EQ(out.values<float>(), right);
}

TEST_F(CudaAttention, BrokenVectorsReachOnlyTheirSequence) {
  for (const KvTypes types :
       {KvTypes(kInt4), KvTypes(kInt8), KvTypes(kF16), KvTypes(kF32), KvTypes(kFp8)}) {
    Problem problem{types, 8, 2, 128, 0, {{20, 1}, {20, 1}}};
    Trial trial(problem);
    std::vector<float> context = trial.values(trial.rows(true), 5);
    for (const std::int64_t head : {8, 9, 10, 11}) {  // a key and a value of each KV head
      context[static_cast<std::size_t>(3 * trial.width() + head * 128)] =
          std::numeric_limits<float>::quiet_NaN();
    }
    trial.append_rows(context, true);
    trial.append_rows(trial.values(2, 6), false);
    const std::vector<float> out = trial.attend(2);
    const auto is_nan = [](float value) { return std::isnan(value); };
    EXPECT_TRUE(std::all_of(out.begin(), out.begin() + 1024, is_nan));
    EXPECT_TRUE(std::none_of(out.begin() + 1024, out.end(), is_nan));
  }
}

// Every code, and what lies between codes: keys as they are stored, values as attention to a single
// token gives them back.
TEST_F(CudaAttention, Fp8IsTheE4m3OfTheCpu) {
  std::vector<float> values = {INFINITY, -INFINITY, NAN, 449.0f, -479.0f, 1e30f, 1e-30f, 0x1p-10f};
  for (int code = 0; code < 0x7e; ++code) {
    const float here = core::to_float(core::E4m3{static_cast<std::uint8_t>(code)});
    const float next = core::to_float(core::E4m3{static_cast<std::uint8_t>(code + 1)});
    const float middle = 0.5f * (here + next);
    for (const float value :
         {here, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e3f)}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  for (const std::int64_t dim : {64, 128, 80}) {
    for (const std::int64_t rows : {1, 2}) {  // decode; prefill, whose first row sees one token
      for (std::size_t from = 0; from < values.size(); from += static_cast<std::size_t>(dim)) {
        Trial trial({KvTypes(kFp8), 2, 2, dim, 0, {{0, rows}}});
        std::vector<float> qkv = trial.values(rows, 6);
        const auto in_row = [&](std::int64_t head, std::int64_t d) {
          return static_cast<std::size_t>(head * dim + d);
        };
        const auto value_of = [&](std::int64_t d) {
          return values[(from + static_cast<std::size_t>(d)) % values.size()];
        };
        for (std::int64_t d = 0; d < dim; ++d) {
          qkv[in_row(2, d)] = value_of(d);  // a key, whose head's results are not looked at
          qkv[in_row(5, d)] = value_of(d);
        }
        trial.append_rows(qkv, false);
        const std::vector<float> out = trial.attend(rows);
        const std::vector<std::byte> bytes = trial.blocks();
        for (std::int64_t d = 0; d < dim; ++d) {
          const float right = core::to_float(core::to_e4m3(value_of(d)));
          const double key = read_block(trial.layer().layout, bytes.data(), true, 0, d).value;
          EXPECT_TRUE(same(key, right)) << value_of(d) << " became " << key;
          EXPECT_TRUE(same(out[in_row(1, d)], right)) << value_of(d) << ", heads of " << dim;
        }
      }
    }
  }
}

TEST(CudaAttentionPlan, SplitsBySequenceAlone) {
  std::vector<std::int32_t> pages(600);
  std::iota(pages.begin(), pages.end(), 100);
  const std::vector<PlannedSequence> sequences = {
      {pages, 20, 0, 1}, {pages, 9000, 1, 1}, {pages, 5, 2, 70}};
  const AttentionPlan plan = plan_attention(sequences, 4, 0);
  EXPECT_EQ(plan.slots[0], 101 * 16 + 4);
  EXPECT_EQ(plan.positions[71], 74);
  EXPECT_EQ(plan.prefill.size(), 3u);  // 280 rows of heads
  std::int64_t covered = 0;
  for (const DecodeItem& item : plan.decode) {
    covered += item.row == 1 ? item.end - item.begin : 0;
    EXPECT_EQ(item.pages, (item.end - item.first + 15) / 16);
    EXPECT_EQ(plan.table[static_cast<std::size_t>(item.table)], 100 + item.first / 16);
    for (std::int32_t i = 0; i < std::min<std::int32_t>(item.pages, kLeadingPages); ++i) {
      EXPECT_EQ(item.leading[static_cast<std::size_t>(i)],
                plan.table[static_cast<std::size_t>(item.table + i)]);
    }
  }
  EXPECT_EQ(covered, 9001);
  EXPECT_EQ(plan.partials, 9);  // 563 pages in runs of 64
  const AttentionPlan windowed = plan_attention({&sequences[1], 1}, 4, 100);
  ASSERT_EQ(windowed.decode.size(), 1u);
  EXPECT_EQ(windowed.decode[0].begin, 8901);
  EXPECT_EQ(windowed.decode[0].first, 8896);
  const PlannedSequence beyond{pages, 9600, 0, 1};
  EXPECT_THROW(plan_attention({&beyond, 1}, 4, 0), core::Error);
}

TEST(CudaAttentionPlan, KeepsNothingOfAnotherStep) {
  std::vector<std::int32_t> pages(600);
  std::iota(pages.begin(), pages.end(), 100);
  const std::vector<PlannedSequence> sequences = {
      {pages, 20, 0, 1}, {pages, 9000, 1, 1}, {pages, 5, 2, 70}, {pages, 40, 72, 1}};
  AttentionPlan again = plan_attention(sequences, 4, 0);
  const std::vector<PlannedSequence> fewer = {{pages, 33, 0, 1}, {pages, 70, 1, 1}};
  const AttentionPlan plan = plan_attention(fewer, 4, 0);
  again.assign(fewer, 4, 0);
  EXPECT_EQ(again.positions, plan.positions);
  EXPECT_EQ(again.slots, plan.slots);
  EXPECT_EQ(again.table, plan.table);
  EXPECT_EQ(again.starts, plan.starts);
  EXPECT_EQ(again.prefill.size(), 0u);
  EXPECT_EQ(again.partials, 0);
  ASSERT_EQ(again.decode.size(), 2u);
  EXPECT_EQ(again.decode[0].row, 1);  // the longer one
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(again.decode[i].row, plan.decode[i].row);
    EXPECT_EQ(again.decode[i].table, plan.decode[i].table);
    EXPECT_EQ(again.decode[i].end, plan.decode[i].end);
    EXPECT_EQ(again.decode[i].leading, plan.decode[i].leading);
  }
}

TEST_F(CudaAttention, PoolsHaveTheBytesOfTheirFormat) {
  EXPECT_EQ(KvPool({KvTypes(kInt4), 2, 64}, 3, 10).bytes(), 3 * 10 * 2 * (512 + 512 + 128));
  EXPECT_EQ(KvPool({KvTypes(kFp8), 2, 64}, 3, 10).bytes(), 3 * 10 * 2 * (1024 + 1024));
  EXPECT_THROW(KvPool({KvTypes(kFp8, kF16), 2, 64}, 1, 1), core::Error);
  EXPECT_THROW(KvPool({KvTypes(kInt8, kFp8), 2, 64}, 1, 1), core::Error);
  EXPECT_THROW(KvPool({KvTypes(kInt4), 2, 63}, 1, 1), core::Error);
}

}  // namespace
}  // namespace nibble::ops::cuda
