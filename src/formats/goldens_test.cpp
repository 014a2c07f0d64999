// Codes, scales, zero points and bytes against independent NumPy implementations.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/json.h"
#include "formats/format.h"
#include "formats/split_mix.h"

namespace nibble::formats {
namespace {

using Bytes = std::vector<std::uint8_t>;

core::Json read_json(const std::string& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return core::parse_json(text, path);
}

Bytes from_hex(const std::string& hex) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

void check_case(const core::Json& golden, const PackedWeight& packed) {
  const auto groups = static_cast<std::size_t>(groups_per_row(packed.scheme, packed.k));
  for (std::int64_t row = 0; row < packed.n; ++row) {
    const auto at = static_cast<std::size_t>(row);
    Bytes codes(static_cast<std::size_t>(packed.k));
    unpack_codes(packed, row, codes);
    EXPECT_EQ(codes, from_hex(golden.at("codes").at(at).get<std::string>()));
    std::vector<float> scales(groups);
    unpack_scales(packed, row, scales);
    EXPECT_EQ(scales, golden.at("scales").at(at).get<std::vector<float>>());
    if (is_integer(packed.scheme)) {
      Bytes zeros(groups);
      unpack_zeros(packed, row, zeros);
      EXPECT_EQ(zeros, golden.at("zeros").at(at).get<Bytes>());
    }
  }
}

TEST(Goldens, EveryConventionGivesTheCodesOfNumpy) {
  const core::Json goldens =
      read_json(NIBBLE_SOURCE_DIR "/src/formats/goldens/formats.json").at("matrices");
  int cases = 0;
  for (const core::Json& matrix : goldens) {
    const auto weights = matrix.at("weights").get<std::vector<float>>();
    for (const core::Json& golden : matrix.at("cases")) {
      const auto scheme = golden.at("scheme").get<std::string>();
      SCOPED_TRACE(scheme + ", " + matrix.at("name").get<std::string>());
      check_case(golden,
                 round_to_nearest(weights, matrix.at("n").get<std::int64_t>(),
                                  matrix.at("k").get<std::int64_t>(), parse_scheme(scheme)));
      ++cases;
    }
  }
  EXPECT_GT(cases, 50);
}

// Byte vectors of other projects' formats, where they mean the same codes.
class SharedPacks : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = NIBBLE_SOURCE_DIR "/../shared/goldens/packs.json";
    if (!std::filesystem::exists(path)) {
      GTEST_SKIP() << path << " is missing";
    }
    packs_ = read_json(path);
    weights_ = split_mix_normals(42, 8 * 256);
  }

  core::Json packs_;
  std::vector<float> weights_;  // [8, 256]
};

TEST_F(SharedPacks, MxFp4BytesAreThoseOfCompressedTensors) {
  const PackedWeight packed = round_to_nearest(weights_, 8, 256, parse_scheme("mxfp4"));
  const auto codes = packed.codes.data<std::uint8_t>();
  const auto scales = packed.scales.data<std::uint8_t>();
  const core::Json& golden = packs_.at("mxfp4_ct");
  EXPECT_EQ(Bytes(codes.begin(), codes.begin() + 16),
            from_hex(golden.at("row0_packed_16B").get<std::string>()));
  EXPECT_EQ(Bytes(scales.begin(), scales.begin() + 8),
            from_hex(golden.at("row0_e8m0").get<std::string>()));
}

// bitsandbytes keeps the even element in the high nibble and its scale in float32; with scales that
// fp16 holds exactly the codes agree.
TEST_F(SharedPacks, Nf4CodesAreThoseOfBitsandbytes) {
  const auto row = std::span(weights_).first(128);
  const auto format = make_format(parse_scheme("lut4-nf4-g64"));
  const Bytes golden = from_hex(packs_.at("bnb_nf4").at("bytes").get<std::string>());
  ASSERT_EQ(golden.size(), 64u);
  for (std::size_t i = 0; i < 128; ++i) {
    const auto absmax = packs_.at("bnb_nf4").at("absmax").at(i / 64).get<float>();
    const int expected = i % 2 == 0 ? golden[i / 2] >> 4 : golden[i / 2] & 15;
    EXPECT_EQ(format->encode(row[i], {absmax, 0}), expected) << i;
  }
}

// With the parameters of compressed-tensors the words are ours, read as bytes: 8 codes LSB first.
TEST_F(SharedPacks, NibblesLieInTheOrderOfCompressedTensorsWords) {
  const auto format = make_format(parse_scheme("int4-sym-g128"));
  PackedWeightBuilder builder(parse_scheme("int4-sym-g128"), 1, 32);
  Bytes codes;
  float absmax = 0;
  for (std::size_t i = 0; i < 128; ++i) {
    absmax = std::max(absmax, std::abs(weights_[i]));
  }
  for (std::size_t i = 0; i < 32; ++i) {
    codes.push_back(format->encode(weights_[i], {absmax / 7.5f, 8}));
  }
  builder.set_codes(0, codes);
  const PackedWeight packed = builder.finish();
  const auto bytes = packed.codes.data<std::uint8_t>();
  for (std::size_t word = 0; word < 4; ++word) {
    const auto golden = std::stoul(
        packs_.at("ct_pack").at("weight_packed_row0_4").at(word).get<std::string>(), nullptr, 16);
    unsigned long ours = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      ours |= static_cast<unsigned long>(bytes[word * 4 + i]) << (8 * i);
    }
    EXPECT_EQ(ours, golden) << word;
  }
}

}  // namespace
}  // namespace nibble::formats
