#include <cmath>
#include <string>

#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/graph.h"
#include "formats/fp8/fp8_codes.h"
#include "ops/cuda/attention/attention_dress_for_tests.h"
#include "ops/cuda/attention/attention_trial_for_tests.h"
#include "ops/cuda/elementwise/elementwise.h"

/// append_attend() beside append() and attend_decode(), and what attention writes beside what
/// input() makes of its rows: bit for bit.
namespace nibble::ops::cuda {
namespace {

using CudaAppendAttend = device::GpuTest;

constexpr KvType kF32 = KvType::kF32;
constexpr KvType kF16 = KvType::kF16;
constexpr KvType kInt8 = KvType::kInt8;
constexpr KvType kInt4 = KvType::kInt4;
constexpr KvType kFp8 = KvType::kFp8;

const KvTypes kTypes[] = {{kF16, kF16},   {kInt8, kInt8}, {kInt4, kInt4}, {kInt8, kInt4},
                          {kInt4, kInt8}, {kF16, kInt4},  {kInt4, kF16},  {kF16, kInt8},
                          {kInt8, kF16},  {kFp8, kFp8}};

// The new token first and last in a page and alone; several splits, of which the last may be one
// page; windows inside a page and across; groups of 1, 3, 4 and more than a pass of heads.
// As many KV heads as a warp appends at a time, and fewer. Last, so many short sequences that a
// warp has one to itself.
std::vector<Problem> problems(KvTypes types) {
  return {
      {types, 8, 2, 128, 0, {{0, 1}, {1, 1}, {15, 1}, {16, 1}, {17, 1}, {47, 1}, {700, 1}}},
      {types, 3, 1, 64, 0, {{40, 1}, {530, 1}, {1, 1}}},
      {types, 4, 4, 128, 20, {{3, 1}, {50, 1}, {600, 1}}},
      {types, 20, 2, 64, 0, {{77, 1}, {5, 1}}},
      {types, 12, 1, 128, 0, {{1100, 1}, {512, 1}}},
      {types, 8, 2, 128, 0, {{100, 1}, {511, 1}}, 1.0f, true},
      {types, 6, 2, 64, 24, {{100, 1}, {16, 1}}, 1.0f, true},
      {types, 32, 32, 128, 0, {{15, 1}}},
      {types, 24, 8, 64, 0, {{21, 1}, {12, 1}}},
      {types, 18, 9, 128, 0, short_sequences(30)},
      {types, 10, 10, 64, 20, short_sequences(31)},
      {types, 10, 10, 128, 20, short_sequences(31)},
  };
}

std::string name_of(const Problem& p) {
  return std::to_string(static_cast<int>(p.types.keys)) + "-" +
         std::to_string(static_cast<int>(p.types.values)) + ", " + std::to_string(p.heads) + "/" +
         std::to_string(p.kv_heads) + " heads of " + std::to_string(p.head_dim) + ", window " +
         std::to_string(p.window) + ", " + std::to_string(p.sequences.size()) + " sequences";
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_F(CudaAppendAttend, GivesTheBitsOfTwoKernels) {
  for (const KvTypes types : kTypes) {
    for (const Problem& problem : problems(types)) {
      for (const std::int64_t part : {0, 1, 4}) {  // of the head that RoPE turns
        const std::int64_t rotary = part == 0 ? 0 : problem.head_dim / part;
        Trial apart(problem);
        Trial joint(problem);
        const Dress of_apart(apart.layer(), rotary, part != 1);
        const Dress of_joint(joint.layer(), rotary, part != 1);
        if (apart.rows(true) > 0) {
          const std::vector<float> context = apart.values(apart.rows(true), 5);
          apart.append_rows(context, true);
          joint.append_rows(context, true);
        }
        const std::int64_t m = apart.rows(false);
        const std::vector<float> step = apart.values(m, 6);
        apart.append_rows(step, false);
        const std::vector<float> right = apart.attend(m);
        const std::vector<float> got = joint.append_attend(step);
        const std::string what = name_of(problem) + ", rotary " + std::to_string(rotary);
        EXPECT_TRUE(same_bits(got, right)) << what;
        EXPECT_TRUE(joint.blocks() == apart.blocks()) << what;
        EXPECT_TRUE(std::none_of(right.begin(), right.end(), [](float x) { return std::isnan(x); }))
            << what;
      }
    }
  }
}

// Many rows at a time, of sequences that begin anywhere in a page, beside few at a time.
TEST_F(CudaAppendAttend, PromptsAppendTheBitsOfFewRows) {
  for (const std::int64_t dim : {64, 128}) {
    for (const std::int64_t rotary : {0, 16, 64, 128}) {
      if (rotary > dim) {
        continue;
      }
      for (const bool norms : {false, true}) {
        const Problem problem{KvTypes(kF16), 6,    2, dim, 0, {{0, 90}, {21, 1}, {37, 45}, {8, 13}},
                              1.0f,          norms};
        Trial many(problem);
        Trial few(problem);
        const Dress of_many(many.layer(), rotary, norms);
        const Dress of_few(few.layer(), rotary, norms);
        const std::vector<float> context = many.values(many.rows(true), 5);
        std::vector<float> step = many.values(many.rows(false), 6);
        step[5] = 1e6f;  // beyond float16, in a query and in a key
        step[static_cast<std::size_t>(many.width() + 6 * dim + 7)] = -1e6f;
        many.append_rows(context, true);
        few.append_rows(context, true, 32);
        many.append_rows(step, false);
        few.append_rows(step, false, 32);
        const std::string what = std::to_string(dim) + ", rotary " + std::to_string(rotary);
        EXPECT_TRUE(many.query_halves() == few.query_halves()) << what;
        EXPECT_TRUE(many.blocks() == few.blocks()) << what;
      }
    }
  }
}

// Vectors that are not finite, in queries, keys and values; of 4 KV heads, a warp appends four.
TEST_F(CudaAppendAttend, BrokenVectorsReachOnlyTheirSequence) {
  for (const std::int64_t kv_heads : {2, 4}) {
    for (const KvTypes types : kTypes) {
      const Problem problem{types, 8, kv_heads, 128, 0, {{20, 1}, {33, 1}, {0, 1}, {20, 1}}};
      Trial apart(problem);
      Trial joint(problem);
      const std::vector<float> context = apart.values(apart.rows(true), 5);
      apart.append_rows(context, true);
      joint.append_rows(context, true);
      std::vector<float> step = apart.values(4, 6);
      const auto at = [&](std::int64_t row, std::int64_t head) -> float& {
        return step[static_cast<std::size_t>(row * apart.width() + head * 128 + 7)];
      };
      at(0, 2) = NAN;
      at(1, 8) = INFINITY;
      at(2, 8 + kv_heads + 1) = NAN;
      apart.append_rows(step, false);
      const std::vector<float> right = apart.attend(4);
      const std::vector<float> got = joint.append_attend(step);
      for (std::size_t i = 0; i < right.size(); ++i) {
        ASSERT_TRUE(got[i] == right[i] || (std::isnan(got[i]) && std::isnan(right[i]))) << i;
        ASSERT_TRUE(i < right.size() / 4 * 3 || !std::isnan(right[i])) << i;
      }
      EXPECT_TRUE(joint.blocks() == apart.blocks());
    }
  }
}

TEST_F(CudaAppendAttend, LeavesToTwoKernelsWhatItDoesNotServe) {
  std::vector<Sequence> many(200, Sequence{3, 1});
  many.push_back({300, 1});  // or warps would have one each
  for (const Problem& problem : {Problem{KvTypes(kF32), 4, 2, 128, 0, {{3, 1}}},
                                 Problem{KvTypes(kF16), 4, 2, 80, 0, {{3, 1}}},
                                 Problem{KvTypes(kF16), 4, 4, 128, 0, many}}) {
    Trial trial(problem);
    EXPECT_TRUE(trial.append_attend(trial.values(trial.rows(false), 6)).empty())
        << name_of(problem);
  }
  Trial trial({KvTypes(kF16), 4, 2, 128, 0, {{3, 1}}});
  const Dress dress(trial.layer(), 12, false);
  EXPECT_TRUE(trial.append_attend(trial.values(1, 6)).empty());
}

// Recorded once, launched for one token after another.
TEST_F(CudaAppendAttend, RunsInAGraph) {
  const Problem problem{KvTypes(kInt8, kInt4), 8, 2, 128, 0, {{600, 1}, {40, 1}}};
  Trial apart(problem);
  Trial joint(problem);
  const std::vector<float> context = apart.values(640, 5);
  apart.append_rows(context, true);
  joint.append_rows(context, true);
  const std::vector<float> step = apart.values(2, 6);
  apart.append_rows(step, false);
  const std::vector<float> right = apart.attend(2);
  joint.upload_plan(false);
  const Buffer qkv = on_device(step);
  const Buffer out = poisoned<float>(2 * 8 * 128);
  AttentionOutput output;
  output.rows = out.as<float>();
  const auto graph = device::cuda::Graph::record(
      joint.stream().get(), [&] { joint.launch_append_attend(qkv.as<float>(), 2, output); });
  for (int i = 0; i < 3; ++i) {
    graph.launch(joint.stream().get());
  }
  joint.stream().synchronize();
  EXPECT_TRUE(same_bits(out.values<float>(), right));
  EXPECT_TRUE(joint.blocks() == apart.blocks());
}

/// Memory for m rows of k inputs in a form, and what lies there.
struct Target {
  Buffer values;
  Buffer scales;
  InputTarget target;

  Target(InputForm form, int bits, std::int64_t m, std::int64_t k) {
    const std::int64_t padded = padded_columns(k);
    target.form = form;
    if (has_values(form)) {
      values = poisoned<core::Fp16>(m * padded);
      scales = poisoned<float>(padded / kInputPadding * sum_stride_of(m));
      target.values = values.as<core::Fp16>();
      if (form == InputForm::kFloat16Summed) {
        target.sums = scales.as<float>();
        target.sum_stride = sum_stride_of(m);
      }
      return;
    }
    target.bits = bits;
    target.group = kInputPadding;
    values = poisoned<std::int8_t>(m * target.digits() * padded);
    scales = poisoned<float>(m * padded / target.group);
    target.codes = values.as<std::int8_t>();
    target.scales = scales.as<float>();
  }
  bool operator==(const Target& other) const {
    return values.values<std::uint8_t>() == other.values.values<std::uint8_t>() &&
           scales.values<std::uint32_t>() == other.scales.values<std::uint32_t>();
  }
};

TEST_F(CudaAppendAttend, WritesWhatLinearLayersRead) {
  struct Case {
    InputForm form;
    int bits;
  };
  for (const Problem& problem :
       {Problem{KvTypes(kF16), 8, 2, 128, 0, {{0, 1}, {17, 1}, {700, 1}}, 1e-5f},
        Problem{KvTypes(kInt4), 12, 1, 128, 0, {{600, 1}, {31, 1}}, 300.0f},
        Problem{KvTypes(kInt8), 4, 4, 128, 20, {{50, 1}}},
        Problem{KvTypes(kF16), 3, 1, 64, 0, {{40, 1}, {530, 1}}, 1e4f},
        Problem{KvTypes(kFp8), 8, 2, 128, 0, {{0, 1}, {17, 1}, {700, 1}}}}) {
    for (const Case form : {Case{InputForm::kInt8Lanes, 16}, Case{InputForm::kInt8Lanes, 8},
                            Case{InputForm::kInt8Lanes, 4}, Case{InputForm::kByteTiles, 8},
                            Case{InputForm::kInt4Tiles, 4}, Case{InputForm::kFloat16Tiles, 16},
                            Case{InputForm::kFloat16, 16}, Case{InputForm::kFloat16Summed, 16},
                            Case{InputForm::kBFloat16, 16}}) {
      Trial trial(problem);
      trial.append_rows(trial.values(trial.rows(true), 5), true);
      const std::int64_t m = trial.rows(false);
      const std::int64_t width = problem.heads * problem.head_dim;
      const std::vector<float> step = trial.values(m, 6);
      const bool summed = form.form == InputForm::kFloat16Summed;
      const bool half = has_values(form.form) && !summed;
      InputTarget target{.form = form.form, .group = kInputPadding};
      const bool writes = attention_writes(trial.layer(), target, true);
      EXPECT_EQ(writes, half || problem.head_dim == 128);
      EXPECT_EQ(attention_writes(trial.layer(), target, false), half);
      target.type = &formats::kFp8Codes;
      EXPECT_EQ(attention_writes(trial.layer(), target, true), half || (summed && writes));
      target.type = &formats::kIntegerCodes;
      target.group = 0;
      EXPECT_EQ(attention_writes(trial.layer(), target, true), half || (summed && writes));
      if (!writes) {
        continue;
      }
      const std::string what = name_of(problem) + ", form " +
                               std::to_string(static_cast<int>(form.form)) + " of " +
                               std::to_string(form.bits) + " bits";
      trial.append_rows(step, false);
      const Buffer rows = on_device(trial.attend(m));
      const Target right(form.form, form.bits, m, width);
      input(rows.as<float>(), right.target, m, width, trial.stream().get());
      const Target apart(form.form, form.bits, m, width);
      trial.launch_attend({nullptr, apart.target});
      const Target joint(form.form, form.bits, m, width);
      const Buffer qkv = on_device(step);
      EXPECT_TRUE(trial.launch_append_attend(qkv.as<float>(), m, {nullptr, joint.target})) << what;
      trial.stream().synchronize();
      EXPECT_TRUE(apart == right) << what;
      EXPECT_TRUE(joint == right) << what;
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
