#include "ops/cuda/attention/memory/memory_attention.h"

#include <cmath>
#include <optional>
#include <string>

#include "device/cuda/check.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/graph.h"
#include "device/cuda/stream.h"
#include "ops/cuda/attention/kv_pool.h"
#include "ops/cuda/attention/memory/memory_reference.h"
#include "ops/cuda/device_arrays_for_tests.h"

// Attention to memories beside its reference.
namespace nibble::ops::cuda {
namespace {

using CudaMemoryAttention = device::GpuTest;
using device::cuda::Buffer;
using Texts = std::vector<MemoryProblem::Text>;

constexpr std::int64_t kItems = 4096;

MemoryProblem problem_of(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
                         const Texts& texts) {
  MemoryProblem p{heads, kv_heads, head_dim, texts, {}, {}};
  p.q = normal_values(p.rows() * heads * head_dim, 3);
  p.kv = normal_values(p.tokens() * 2 * kv_heads * head_dim, 4);
  for (std::size_t i = 0; i < p.kv.size(); i += 19) {
    p.kv[i] *= 4.0f;  // outliers, so that weights differ
  }
  return p;
}

/// Texts whose keys and values lie on the device, in pages that are mixed and between which all is
/// NaN.
class Trial {
 public:
  Trial(const MemoryProblem& problem, KvType type)
      : p_(problem),
        layout_{type, p_.kv_heads, p_.head_dim},
        buffer_({std::max(p_.tokens() + kPadding, p_.rows()), 1 << 16, kItems, kItems}),
        partials_(poisoned<float>(partial_floats(kItems, p_.heads, p_.head_dim))) {
    std::int64_t count = 0;
    for (const auto& text : p_.texts) {
      pages_.emplace_back(static_cast<std::size_t>(pages_for(text.tokens)));
      count += std::ssize(pages_.back());
    }
    std::int64_t next = 0;  // every seventh page, again and again
    const std::int64_t all = count + (count % 7 == 0 ? 1 : 0);
    for (auto& own : pages_) {
      for (std::int32_t& page : own) {
        page = static_cast<std::int32_t>(next);
        next = (next + 7) % all;
      }
    }
    pool_.emplace(layout_, 2, all);
    const std::vector<std::uint8_t> poison(static_cast<std::size_t>(pool_->bytes()), 0xff);
    device::cuda::check(
        cudaMemcpy(pool_->layer(0), poison.data(), poison.size(), cudaMemcpyHostToDevice),
        "cudaMemcpy");
    store();
  }

  std::vector<float> attend() {
    const Buffer q = on_device(p_.q);
    const Buffer out = poisoned<float>(std::ssize(p_.q));
    begin_reading();
    launch(q.as<float>(), {out.as<float>(), {}});
    stream_.synchronize();
    return out.values<float>();
  }

  /// Recorded with the plan of this trial.
  std::vector<float> attend_recorded() {
    const Buffer q = on_device(p_.q);
    const Buffer out = poisoned<float>(std::ssize(p_.q));
    begin_reading();
    const auto graph = device::cuda::Graph::record(stream_.get(), [&] {
      launch(q.as<float>(), {out.as<float>(), {}});
    });
    graph.launch(stream_.get());
    stream_.synchronize();
    return out.values<float>();
  }

  /// In the form of layers that read float16.
  std::vector<core::Fp16> attend_in_halves(std::int64_t columns) {
    const Buffer q = on_device(p_.q);
    const Buffer out = poisoned<core::Fp16>(p_.rows() * columns);
    AttentionOutput output;
    output.target.form = InputForm::kFloat16;
    output.target.values = out.as<core::Fp16>();
    begin_reading();
    launch(q.as<float>(), output);
    stream_.synchronize();
    return out.values<core::Fp16>();
  }

 private:
  static constexpr std::int64_t kPadding = 5;  // rows of no text

  void put(const AttentionPlan& plan) {
    upload_.begin();
    buffer_.put(plan, upload_);
    upload_.start(stream_.get());
    splits_ = plan.partials > 0;
  }

  std::vector<MemoryRows> rows(bool of_texts) const {
    std::vector<MemoryRows> all;
    std::int64_t row = 0;
    for (std::size_t i = 0; i < pages_.size(); ++i) {
      const auto& text = p_.texts[i];
      const std::int64_t own = of_texts ? text.tokens : text.rows;
      all.push_back({pages_[i], text.tokens, row, own});
      row += own;
    }
    return all;
  }

  void store() {
    const std::int64_t width = 2 * p_.kv_heads * p_.head_dim;
    std::vector<float> kv = p_.kv;
    kv.resize(kv.size() + static_cast<std::size_t>(kPadding * width), NAN);
    const Buffer values = on_device(kv);
    const std::int64_t m = p_.tokens() + kPadding;
    put(plan_storing(rows(true), m));
    store_memory(layout_, values.as<float>(), buffer_.plan(), m, pool_->layer(1), stream_.get());
    stream_.synchronize();
  }

  void begin_reading() { put(plan_reading(rows(false))); }

  void launch(const float* q, const AttentionOutput& output) {
    DevicePlan plan = buffer_.plan();
    if (!splits_) {
      plan.max_items = std::min(plan.max_items, p_.rows());
      plan.max_partials = 0;
    }
    attend_to_memory(memory_layer(layout_, p_.heads), q, halves_.as<core::Fp16>(), plan, p_.rows(),
                     pool_->layer(1), partials_.as<float>(), output, stream_.get());
  }

  MemoryProblem p_;
  KvLayout layout_;
  std::vector<std::vector<std::int32_t>> pages_;
  std::optional<KvPool> pool_;
  PlanBuffer buffer_;
  StepUpload upload_;
  bool splits_ = false;
  Buffer partials_;
  Buffer halves_ = poisoned<core::Fp16>(std::ssize(p_.q));
  device::cuda::Stream stream_;
};

/// Largest difference beside the largest value.
double worst(const std::vector<float>& made, const std::vector<double>& expected) {
  double difference = made.size() == expected.size() ? 0 : INFINITY;
  double largest = 0;
  for (std::size_t i = 0; i < std::min(made.size(), expected.size()); ++i) {
    const double error = std::fabs(static_cast<double>(made[i]) - expected[i]);
    difference = std::isnan(error) ? INFINITY : std::max(difference, error);
    largest = std::max(largest, std::fabs(expected[i]));
  }
  return difference / largest;
}

bool fragments(const MemoryProblem& p, KvType type) {
  return KvLayout{type, p.kv_heads, p.head_dim}.fragments();
}

void expect_reference(const MemoryProblem& p) {
  for (const KvType type : {KvType::kF16, KvType::kF32}) {
    SCOPED_TRACE(type == KvType::kF16 ? "float16" : "float32");
    const auto expected = reference_memory_attention(p, type == KvType::kF16, fragments(p, type));
    Trial trial(p, type);
    const std::vector<float> made = trial.attend();
    EXPECT_LT(worst(made, expected), fragments(p, type) ? 1e-3 : 1e-5);
    EXPECT_EQ(made, trial.attend()) << "a second time";
    EXPECT_EQ(made, trial.attend_recorded());
  }
}

// Texts of 1 to 1,024 tokens in one batch, with pages that are full and pages that are not, and 1
// to 64 queries of each.
TEST_F(CudaMemoryAttention, IsThatOfTheReference) {
  const Texts texts = {{1, 1}, {15, 3}, {16, 1}, {17, 64}, {100, 5}, {512, 2}, {1024, 4}, {700, 1}};
  for (const std::int64_t head_dim : {16, 18, 32, 48, 64, 80, 96, 128}) {
    SCOPED_TRACE(testing::Message() << head_dim << " elements");
    expect_reference(problem_of(2, 2, head_dim, texts));
  }
}

TEST_F(CudaMemoryAttention, ServesManyHeadsAndSharedOnes) {
  const Texts texts = {{40, 3}, {600, 2}, {9, 16}};
  for (const auto& [heads, kv_heads] : {std::pair{1, 1}, {16, 16}, {12, 4}, {9, 1}}) {
    SCOPED_TRACE(testing::Message() << heads << "/" << kv_heads);
    expect_reference(problem_of(heads, kv_heads, 64, texts));
  }
}

// One query of one text, and so many that each warp has an item to itself.
TEST_F(CudaMemoryAttention, ServesOneRowAndManyShortTexts) {
  for (const std::int64_t tokens : {1, 2, 31, 1024}) {
    SCOPED_TRACE(testing::Message() << tokens << " tokens");
    expect_reference(problem_of(4, 4, 64, {{tokens, 1}}));
  }
  Texts texts;
  for (std::int64_t i = 0; i < 40; ++i) {
    texts.push_back({1 + i * 37 % 90, 1 + i % 5});
  }
  expect_reference(problem_of(16, 16, 64, texts));
}

// Where the queries' text alone counts, not what stands beside it.
TEST_F(CudaMemoryAttention, ATextHasTheSameBitsInEveryBatch) {
  for (const KvType type : {KvType::kF16, KvType::kF32}) {
    const MemoryProblem together = problem_of(4, 4, 64, {{700, 3}, {20, 2}, {1024, 1}});
    MemoryProblem alone = together;
    alone.texts = {{700, 3}};
    alone.q.resize(3 * 4 * 64);
    alone.kv.resize(700 * 2 * 4 * 64);
    const std::vector<float> expected = Trial(alone, type).attend();
    const std::vector<float> made = Trial(together, type).attend();
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), made.begin()));
  }
}

TEST_F(CudaMemoryAttention, WritesWhatLayersRead) {
  const MemoryProblem p = problem_of(3, 3, 64, {{40, 3}, {600, 2}});  // 192 columns of 256
  for (const KvType type : {KvType::kF16, KvType::kF32}) {
    Trial trial(p, type);
    const std::vector<float> floats = trial.attend();
    const std::vector<core::Fp16> halves = trial.attend_in_halves(256);
    for (std::size_t i = 0; i < halves.size(); ++i) {
      const std::size_t column = i % 256;
      const core::Fp16 expected =
          column < 192 ? core::to_fp16(floats[i / 256 * 192 + column]) : core::Fp16{};
      ASSERT_TRUE(halves[i] == expected) << i;
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
