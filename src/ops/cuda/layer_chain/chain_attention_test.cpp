#include <bit>
#include <cmath>
#include <string>

#include "device/cuda/gpu_for_tests.h"
#include "ops/cuda/attention/attention_dress_for_tests.h"
#include "ops/cuda/attention/attention_trial_for_tests.h"
#include "ops/cuda/layer_chain/chain_reference.h"
#include "ops/cuda/layer_chain/chain_weight_for_tests.h"

/// Attentions of a chain beside append() and attend_decode(): the same keys and values, bit for
/// bit, and nearly the same results, which the layer behind them reads.
namespace nibble::ops::cuda {
namespace {

class ChainAttentionTest : public device::GpuTest {
 protected:
  void SetUp() override {
    device::GpuTest::SetUp();
    if (!IsSkipped() && !chains_run()) {
      GTEST_SKIP() << "this GPU runs no chains";
    }
  }
};

constexpr std::int64_t kHidden = 256;
constexpr std::int64_t kOutputs = 272;

struct Case {
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;
  std::int64_t context;
  std::int64_t window = 0;
  std::int64_t rotary = 0;
  bool norms = false;
  bool centred = false;
};

std::string name_of(const Case& c, KvType type) {
  return std::to_string(static_cast<int>(type)) + ": " + std::to_string(c.heads) + "/" +
         std::to_string(c.kv_heads) + " heads of " + std::to_string(c.head_dim) + ", context " +
         std::to_string(c.context) + ", window " + std::to_string(c.window);
}

// What goes from layer to layer has lost its lowest bit.
std::vector<float> as_sent(std::vector<float> values) {
  for (float& value : values) {
    value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & ~1u);
  }
  return values;
}

// q|k|v, attention and the layer behind it.
class ChainTrial {
 public:
  ChainTrial(const Case& c, KvType type, const char* scheme = "int4-sym-g128")
      : problem_{KvTypes(type), c.heads,          c.kv_heads, c.head_dim,
                 c.window,      {{c.context, 1}}, 1.0f,       c.centred},
        apart_(problem_),
        joint_(problem_),
        dress_of_apart_(apart_.layer(), c.rotary, c.norms),
        dress_of_joint_(joint_.layer(), c.rotary, c.norms),
        qkv_(joint_.width(), kHidden, 31, true, scheme),
        out_(kOutputs, c.heads * c.head_dim, 32, true, scheme),
        row_(on_device(normal_values(kHidden, 33))),
        y_of_qkv_(poisoned<float>(joint_.width())),
        y_of_attention_(poisoned<float>(c.heads * c.head_dim)),
        y_(poisoned<float>(kOutputs)) {
    if (c.context > 0) {
      const std::vector<float> context = apart_.values(c.context, 5);
      apart_.append_rows(context, true);
      joint_.append_rows(context, true);
    }
    joint_.upload_plan(false);
  }

  std::vector<ChainLink> links() {
    ChainedLayer qkv = qkv_.layer();
    qkv.row = row_.as<float>();
    qkv.y = y_of_qkv_.as<float>();
    const ChainedAttention attention{joint_.layer(), qkv.y, joint_.step_plan(), joint_.pages(),
                                     y_of_attention_.as<float>()};
    ChainedLayer out = out_.layer();
    out.row = attention.y;
    out.y = y_.as<float>();
    return {qkv, attention, out};
  }
  void run(LayerChain& chain, const std::vector<ChainLink>& links) {
    chain.run(links, joint_.stream().get());
    joint_.stream().synchronize();
  }

  std::vector<float> of_attention() const { return y_of_attention_.values<float>(); }
  std::vector<float> of_out() const { return y_.values<float>(); }

  // Of the q, k and v that the chain has written.
  std::vector<float> expected_of_attention() {
    apart_.append_rows(as_sent(y_of_qkv_.values<float>()), false);
    return apart_.attend(1);
  }
  bool has_same_pages() const { return joint_.blocks() == apart_.blocks(); }
  void expect_of_out(const std::vector<float>& attended) {
    const std::vector<double> x(attended.begin(), attended.end());
    std::vector<double> magnitude;
    const std::vector<double> expected = chained_reference({&out_.weight, out_.bias}, x, magnitude);
    const std::vector<float> got = of_out();
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], 5e-4 * magnitude[i]) << "row " << i;
    }
  }

 private:
  Problem problem_;
  Trial apart_;
  Trial joint_;
  Dress dress_of_apart_;
  Dress dress_of_joint_;
  TestWeight qkv_;
  TestWeight out_;
  Buffer row_;
  Buffer y_of_qkv_;
  Buffer y_of_attention_;
  Buffer y_;
};

// The new token first and last in a page and alone; windows inside a page and across; groups of
// one head and of several; one part of a head and several, with pages for all warps or for some.
const Case kCases[] = {{8, 8, 128, 0, 0, 128},
                       {8, 2, 128, 1, 0, 64, true},
                       {32, 32, 128, 15, 0, 128},
                       {4, 4, 128, 16, 20, 32},
                       {12, 2, 64, 17, 0, 64, true},
                       {6, 2, 64, 100, 24, 0, false, true},
                       {32, 8, 128, 130, 0, 128},
                       {64, 8, 128, 255, 0, 128, true},
                       {32, 32, 128, 256, 0, 128},
                       {12, 4, 64, 300, 0, 64},
                       {8, 2, 128, 700, 0, 128, true, true},
                       {2, 1, 128, 1500, 0, 0},
                       {64, 64, 64, 1100, 700, 64},
                       {100, 4, 128, 600, 0, 128}};

TEST_F(ChainAttentionTest, AttendsAsKernelsOfItsOwn) {
  LayerChain chain;
  ASSERT_TRUE(chain.hold());
  for (const KvType type : {KvType::kF16, KvType::kInt8, KvType::kFp8, KvType::kInt4}) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(name_of(c, type));
      ChainTrial trial(c, type);
      std::vector<ChainLink> links = trial.links();
      trial.run(chain, links);
      const std::vector<float> first = trial.of_out();
      const std::vector<float> expected = trial.expected_of_attention();
      EXPECT_TRUE(trial.has_same_pages());
      trial.expect_of_out(expected);
      // Without anything behind it.
      links.pop_back();
      trial.run(chain, links);
      // Weights of values are float16. With 4 bits their errors meet in the first element of a
      // head, where the Hadamard turn brings what all elements have in common.
      const double most = type == KvType::kInt4 ? 5e-3 : 1e-3;
      EXPECT_LT(worst_difference(trial.of_attention(), expected), most);
      EXPECT_TRUE(trial.has_same_pages());
      for (int round = 0; round < 3; ++round) {
        trial.run(chain, trial.links());
        ASSERT_TRUE(trial.of_out() == first) << "other bits";
      }
      if (HasFailure()) {
        return;
      }
    }
  }
}

// A short context needs fewer parts of a head than a long one. What the others sent before must not
// be taken for what they send next.
TEST_F(ChainAttentionTest, PartsThatRestedAreNotReadAgain) {
  LayerChain chain;
  ASSERT_TRUE(chain.hold());
  ChainTrial first({8, 2, 128, 1500}, KvType::kF16);
  ChainTrial rest({8, 2, 128, 40}, KvType::kF16);
  ChainTrial last({8, 2, 128, 1100}, KvType::kF16);
  first.run(chain, first.links());
  for (int round = 0; round < 4; ++round) {
    rest.run(chain, rest.links());
    last.run(chain, last.links());
    if (round == 0) {
      last.expect_of_out(last.expected_of_attention());
    }
    rest.run(chain, rest.links());
    first.run(chain, first.links());
  }
  first.expect_of_out(first.expected_of_attention());
}

TEST_F(ChainAttentionTest, BetweenWeightsOfEachKind) {
  LayerChain chain;
  ASSERT_TRUE(chain.hold());
  for (const char* const scheme : {"int4-asym-g128", "lut4-row-g128", "int4-sym-g32"}) {
    for (const Case& c : {kCases[1], kCases[8], kCases[10]}) {
      SCOPED_TRACE(name_of(c, KvType::kF16) + ", " + scheme);
      ChainTrial trial(c, KvType::kF16, scheme);
      trial.run(chain, trial.links());
      const std::vector<float> expected = trial.expected_of_attention();
      EXPECT_TRUE(trial.has_same_pages());
      trial.expect_of_out(expected);
    }
  }
}

TEST_F(ChainAttentionTest, RefusesWhatDoesNotFollow) {
  const Case c{8, 8, 128, 40};
  ChainTrial trial(c, KvType::kF16);
  std::vector<ChainLink> links = trial.links();
  EXPECT_TRUE(LayerChain::fits(links));
  EXPECT_FALSE(LayerChain::fits(std::span(links).subspan(1))) << "nothing writes q, k and v";
  auto& attention = std::get<ChainedAttention>(links[1]);
  attention.layer.rotary = 4;
  EXPECT_FALSE(LayerChain::fits(links));
  attention.layer.rotary = 0;
  attention.layer.layout.types.keys = KvType::kInt8;
  EXPECT_FALSE(LayerChain::fits(links)) << "keys and values of two types";
  attention.layer.layout.types.keys = KvType::kF16;
  const NormWeights norm{NormKind::kRms, nullptr, nullptr, 1e-5f};
  std::get<ChainedLayer>(links[2]).norm = &norm;
  EXPECT_FALSE(LayerChain::fits(links)) << "a norm behind attention";
}

}  // namespace
}  // namespace nibble::ops::cuda
