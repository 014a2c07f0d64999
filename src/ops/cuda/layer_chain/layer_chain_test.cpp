#include "ops/cuda/layer_chain/layer_chain.h"

#include <cmath>
#include <cstring>
#include <deque>
#include <string>
#include <tuple>

#include "core/error.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cuda/layer_chain/chain_reference.h"
#include "ops/cuda/layer_chain/chain_weight_for_tests.h"

namespace nibble::ops::cuda {
namespace {

using device::cuda::Buffer;

constexpr float kEps = 1e-5f;
const char* const kSchemes[] = {"int4-sym-g128", "int4-asym-g128", "lut4-row-g128", "lut4-fp4-g128",
                                "int4-sym-g32",  "int4-asym-g64",  "lut4-nf4-g64",  "int4-min-g32"};

class LayerChainTest : public device::GpuTest {
 protected:
  void SetUp() override {
    device::GpuTest::SetUp();
    if (!IsSkipped() && !chains_run()) {
      GTEST_SKIP() << "this GPU runs no chains";
    }
  }
};

// What stands between two attentions: out, gate|up, down, q|k|v.
class TestBlock {
 public:
  TestBlock(std::int64_t hidden, std::int64_t middle, std::int64_t qkv, std::uint64_t seed,
            const std::string& scheme = "int4-sym-g128")
      : hidden_(hidden),
        out_(hidden, hidden, seed, seed % 2 == 0, scheme),
        gate_up_(2 * middle, hidden, seed + 10, seed % 3 == 0, scheme),
        down_(hidden, middle, seed + 20, false, scheme),
        qkv_(qkv, hidden, seed + 30, true, scheme),
        norms_{weights_of_norm(seed + 40), weights_of_norm(seed + 41)},
        device_norms_{on_device(norms_[0]), on_device(norms_[1])},
        views_{{NormKind::kRms, device_norms_[0].as<float>(), nullptr, kEps},
               {NormKind::kRms, device_norms_[1].as<float>(), nullptr, kEps}},
        stream_(normal_values(hidden, seed + 50)),
        x_(random_activations(1, hidden, 2, seed + 60)),
        codes_(on_device(x_.in_lane_order())),
        scales_(on_device(x_.scales)),
        device_stream_(hidden * 4),
        middle_(poisoned<float>(middle)),
        y_(poisoned<float>(qkv)) {}

  // Fresh memory for a run.
  std::vector<ChainLink> layers(MlpActivation activation = MlpActivation::kSilu) {
    device_stream_.upload(stream_.data(), device_stream_.bytes());
    ChainedLayer out = out_.layer();
    out.codes = {2, codes_.as<std::int8_t>(), scales_.as<float>()};
    out.y = device_stream_.as<float>();
    out.adds = true;
    ChainedLayer gate_up = gate_up_.layer();
    gate_up.row = out.y;
    gate_up.norm = &views_[0];
    gate_up.y = middle_.as<float>();
    gate_up.gate = activation;
    ChainedLayer down = down_.layer();
    down.row = gate_up.y;
    down.y = device_stream_.as<float>();
    down.adds = true;
    ChainedLayer qkv = qkv_.layer();
    qkv.row = down.y;
    qkv.norm = &views_[1];
    qkv.y = y_.as<float>();
    return {out, gate_up, down, qkv};
  }

  struct Results {
    std::vector<float> stream;
    std::vector<float> middle;
    std::vector<float> y;
    friend bool operator==(const Results&, const Results&) = default;
  };
  Results results() const {
    return {device_stream_.values<float>(), middle_.values<float>(), y_.values<float>()};
  }

  // Errors of results, as shares of what is summed, each layer fed with what the device has.
  void expect(const Results& got, MlpActivation activation = MlpActivation::kSilu) const {
    std::vector<double> x;
    for (std::int64_t k = 0; k < hidden_; ++k) {
      x.push_back(static_cast<double>(x_.scales[static_cast<std::size_t>(k / kUnitInputs)]) *
                  x_.codes[static_cast<std::size_t>(k)]);
    }
    std::vector<double> magnitude;
    const std::vector<double> before(stream_.begin(), stream_.end());
    const std::vector<double> attended =
        chained_reference({&out_.weight, out_.bias, {}, 0, {}, before}, x, magnitude);
    const std::vector<double> middle = chained_reference(
        {&gate_up_.weight, gate_up_.bias, norms_[0], kEps, activation}, attended, magnitude);
    expect_near(got.middle, middle, 3e-4, "middle");
    const std::vector<double> from_middle(got.middle.begin(), got.middle.end());
    const std::vector<double> stream =
        chained_reference({&down_.weight, down_.bias, {}, 0, {}, attended}, from_middle, magnitude);
    expect_near(got.stream, stream, 1e-4, "stream");
    const std::vector<double> from_stream(got.stream.begin(), got.stream.end());
    const std::vector<double> y =
        chained_reference({&qkv_.weight, qkv_.bias, norms_[1], kEps}, from_stream, magnitude);
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(got.y[i], y[i], 3e-5 * magnitude[i]) << "q|k|v " << i;
    }
  }

 private:
  std::vector<float> weights_of_norm(std::uint64_t seed) const {
    std::vector<float> weights = normal_values(hidden_, seed);
    for (float& weight : weights) {
      weight = 1.0f + 0.3f * weight;
    }
    return weights;
  }
  static void expect_near(const std::vector<float>& got, const std::vector<double>& expected,
                          double share, const char* what) {
    double error = 0.0;
    double all = 0.0;
    ASSERT_EQ(expected.size(), got.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      error += std::pow(static_cast<double>(got[i]) - expected[i], 2);
      all += std::pow(expected[i], 2);
    }
    EXPECT_LT(std::sqrt(error), share * std::sqrt(all)) << what;
  }

  std::int64_t hidden_;
  TestWeight out_;
  TestWeight gate_up_;
  TestWeight down_;
  TestWeight qkv_;
  std::vector<float> norms_[2];
  Buffer device_norms_[2];
  NormWeights views_[2];
  std::vector<float> stream_;
  IntegerActivations x_;
  Buffer codes_;
  Buffer scales_;
  Buffer device_stream_;
  Buffer middle_;
  Buffer y_;
};

TestBlock::Results run(LayerChain& chain, TestBlock& block,
                       MlpActivation activation = MlpActivation::kSilu) {
  const device::cuda::Stream stream;
  chain.run(block.layers(activation), stream.get());
  stream.synchronize();
  return block.results();
}

TEST_F(LayerChainTest, BlocksOfManyShapes) {
  struct Size {
    std::int64_t hidden;
    std::int64_t middle;
    std::int64_t qkv;
  };
  const Size sizes[] = {{128, 128, 16},     {128, 384, 48},       {256, 640, 400},
                        {512, 1408, 768},   {1024, 2816, 3072},   {1152, 4352, 1536},
                        {2048, 5632, 2560}, {4096, 11008, 12288}, {3200, 8704, 160}};
  LayerChain chain;
  ASSERT_TRUE(chain.hold());
  std::uint64_t seed = 0;
  for (const Size& size : sizes) {
    SCOPED_TRACE("hidden " + std::to_string(size.hidden));
    TestBlock block(size.hidden, size.middle, size.qkv, seed += 101);
    const TestBlock::Results first = run(chain, block);
    block.expect(first);
    EXPECT_TRUE(first == run(chain, block)) << "other bits";
  }
}

TEST_F(LayerChainTest, EachKindOfWeights) {
  LayerChain chain;
  ASSERT_TRUE(chain.hold());
  std::uint64_t seed = 11;
  for (const char* const scheme : kSchemes) {
    for (const auto& [hidden, middle, qkv] : {std::tuple{256, 640, 400}, {1152, 4352, 1536}}) {
      SCOPED_TRACE(std::string(scheme) + ", hidden " + std::to_string(hidden));
      TestBlock block(hidden, middle, qkv, seed += 101, scheme);
      const TestBlock::Results first = run(chain, block);
      block.expect(first);
      EXPECT_TRUE(first == run(chain, block)) << "other bits";
    }
  }
}

TEST_F(LayerChainTest, EachActivation) {
  LayerChain chain;
  ASSERT_TRUE(chain.hold());
  TestBlock block(256, 512, 128, 7);
  for (const MlpActivation activation : {MlpActivation::kSilu, MlpActivation::kGelu,
                                         MlpActivation::kGeluTanh, MlpActivation::kRelu}) {
    block.expect(run(chain, block, activation), activation);
  }
}

// Rows of one size are sent at different places of chains; what a run before left must never be
// taken for what is to come.
TEST_F(LayerChainTest, RunsFollowOneAnother) {
  LayerChain chain;
  ASSERT_TRUE(chain.hold());
  std::deque<TestBlock> blocks;
  blocks.emplace_back(256, 256, 256, 1);
  blocks.emplace_back(256, 512, 256, 2);
  blocks.emplace_back(512, 256, 64, 3);
  std::vector<TestBlock::Results> first;
  for (TestBlock& block : blocks) {
    first.push_back(run(chain, block));
    block.expect(first.back());
  }
  core::Random random(5);
  const device::cuda::Stream stream;
  for (int round = 0; round < 300; ++round) {
    const std::size_t i = random.below(blocks.size());
    std::vector<ChainLink> layers = blocks[i].layers();
    const std::size_t count = 1 + random.below(layers.size());
    layers.resize(count);
    chain.run(layers, stream.get());
    stream.synchronize();
    if (count == 4) {
      ASSERT_TRUE(first[i] == blocks[i].results()) << "round " << round;
    }
  }
}

TEST_F(LayerChainTest, CodesAreMultipliedExactly) {
  LayerChain chain;
  ASSERT_TRUE(chain.hold());
  std::uint64_t seed = 20;
  const auto is_exact = [&](const char* scheme, int n, int k) {
    ++seed;
    const TestWeight weight(n, k, seed, seed % 2 == 0, scheme);
    const IntegerActivations x = random_activations(1, k, 2, ++seed);
    const Buffer codes = on_device(x.in_lane_order());
    const Buffer scales = on_device(x.scales);
    const Buffer y = poisoned<float>(n);
    ChainedLayer layer = weight.layer();
    layer.codes = {2, codes.as<std::int8_t>(), scales.as<float>()};
    layer.y = y.as<float>();
    const device::cuda::Stream stream;
    chain.run(std::vector<ChainLink>{layer}, stream.get());
    stream.synchronize();
    std::vector<double> magnitude;
    const std::vector<double> expected = reference(weight.weight, x, weight.bias, magnitude);
    const std::vector<float> got = y.values<float>();
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], 2e-6 * magnitude[i])
          << scheme << ": " << n << " x " << k << ", row " << i;
    }
  };
  for (const char* const scheme : kSchemes) {
    if (std::string(scheme).find("min") != std::string::npos) {
      continue;  // shifts are no integers
    }
    for (const auto& [n, k] : {std::pair{16, 128}, {48, 1024}, {4096, 4096}, {2128, 1152}}) {
      is_exact(scheme, n, k);
    }
  }
}

// What one layer makes of a row.
std::vector<float> of_row(LayerChain& chain, const TestWeight& weight,
                          const std::vector<float>& row) {
  const Buffer device_row = on_device(row);
  const Buffer y = on_device(std::vector<float>(static_cast<std::size_t>(weight.weight.n), -7.0f));
  ChainedLayer layer = weight.layer();
  layer.row = device_row.as<float>();
  layer.y = y.as<float>();
  const device::cuda::Stream stream;
  chain.run(std::vector<ChainLink>{layer}, stream.get());
  stream.synchronize();
  return y.values<float>();
}

// `share`: of what is summed, at the most, for an error.
void expect_of_row(LayerChain& chain, const TestWeight& weight, const std::vector<float>& row,
                   double share) {
  const std::vector<double> x(row.begin(), row.end());
  std::vector<double> magnitude;
  const std::vector<double> expected = chained_reference({&weight.weight}, x, magnitude);
  const std::vector<float> got = of_row(chain, weight, row);
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], share * magnitude[i]) << "row " << i;
  }
}

// Rows of any size of numbers: their scales are powers of two near the largest.
TEST_F(LayerChainTest, RowsOfAnyMagnitude) {
  constexpr std::int64_t kInputs = 512;
  constexpr std::int64_t kRows = 64;
  LayerChain chain;
  ASSERT_TRUE(chain.hold());
  const TestWeight weight(kRows, kInputs, 77);
  for (const float size : {1.0f, 1e-30f, 1e30f, 0.0f}) {
    std::vector<float> row = normal_values(kInputs, 5);
    for (float& value : row) {
      value *= size;
    }
    SCOPED_TRACE(size);
    expect_of_row(chain, weight, row, 3e-5);
  }
}

// The first digit of a code ends at 127: numbers just below a power of two have the next scale.
TEST_F(LayerChainTest, RowsWhoseLargestIsNextToAPowerOfTwo) {
  constexpr std::int64_t kInputs = 128;
  constexpr std::int64_t kRows = 16;
  LayerChain chain;
  ASSERT_TRUE(chain.hold());
  const TestWeight weight(kRows, kInputs, 79);
  for (float code = 32630.0f; code <= 32768.0f; code += 0.5f) {
    std::vector<float> row(kInputs, 0.0f);
    row[17] = code / 16384.0f;
    row[90] = -code / 16384.0f;
    SCOPED_TRACE(code);
    expect_of_row(chain, weight, row, 1e-4);
  }
}

TEST_F(LayerChainTest, NumbersThatAreNoneStaySo) {
  LayerChain chain;
  ASSERT_TRUE(chain.hold());
  const TestWeight weight(64, 256, 78);
  for (const float broken : {NAN, INFINITY}) {
    std::vector<float> row = normal_values(256, 5);
    row[200] = broken;
    for (const float value : of_row(chain, weight, row)) {
      EXPECT_TRUE(std::isnan(value));
    }
  }
}

TEST_F(LayerChainTest, OnlyOneIsHeldForADevice) {
  LayerChain second;
  {
    LayerChain first;
    EXPECT_TRUE(first.hold());
    EXPECT_TRUE(first.hold()) << "again";
    EXPECT_FALSE(second.hold());
  }
  EXPECT_TRUE(second.hold());
}

TEST_F(LayerChainTest, RefusesLayersThatDoNotFollow) {
  LayerChain chain;
  TestBlock block(128, 128, 16, 9);
  const device::cuda::Stream stream;
  EXPECT_THROW(chain.run(block.layers(), stream.get()), core::Error) << "it is not held";
  ASSERT_TRUE(chain.hold());
  std::vector<ChainLink> layers = block.layers();
  std::swap(layers[1], layers[2]);
  EXPECT_THROW(chain.run(layers, stream.get()), core::Error);
  layers = block.layers();
  layers.push_back(layers.front());
  EXPECT_FALSE(LayerChain::fits(layers));
  EXPECT_THROW(chain.run(layers, stream.get()), core::Error);
  layers = block.layers();
  TestBlock other(128, 128, 16, 10, "int4-asym-g128");
  std::get<ChainedLayer>(layers[3]).weight = std::get<ChainedLayer>(other.layers()[3]).weight;
  EXPECT_FALSE(LayerChain::fits(layers)) << "weights of two kinds";
  EXPECT_FALSE(LayerChain::fits({}));
  EXPECT_THROW(chain.run({}, stream.get()), core::Error);
}

TEST_F(LayerChainTest, TakesFourBitsOfWholeTiles) {
  const auto takes = [](const char* scheme, std::int64_t n, std::int64_t k) {
    return is_chainable(OnDevice(cpu::testing::random_weight(scheme, n, k, 3)).view);
  };
  for (const char* const scheme : kSchemes) {
    EXPECT_TRUE(takes(scheme, 48, 384)) << scheme;
  }
  EXPECT_FALSE(takes("int4-sym-g128", 40, 384));
  EXPECT_FALSE(takes("int4-sym-g128", 48, 416));
  EXPECT_FALSE(takes("int4-sym-g16", 48, 384));
  EXPECT_FALSE(takes("mxfp4", 48, 384)) << "scales beyond float16";
  EXPECT_FALSE(takes("int8-sym-g128", 48, 384));
  EXPECT_FALSE(takes("lut3-row-g128", 48, 384));
}

}  // namespace
}  // namespace nibble::ops::cuda
