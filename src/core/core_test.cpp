#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/float16.h"
#include "core/json.h"
#include "core/ordered_json.h"
#include "core/random.h"
#include "core/tensor.h"

namespace nibble::core {
namespace {

// IEEE binary16 of the compiler; GCC 12 for ARM knows it in C++ by its older name alone.
#if defined(__aarch64__)
using CompilerHalf = __fp16;
#else
using CompilerHalf = _Float16;
#endif

TEST(Float16, EveryValueSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Fp16 half{static_cast<std::uint16_t>(bits)};
    const float value = to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(to_fp16(value))));
    } else {
      EXPECT_EQ(to_fp16(value), half) << bits;
    }
  }
}

TEST(Float16, RoundsToNearestEvenLikeTheCompiler) {
  Random random(1);
  for (int i = 0; i < 200000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random.bits()));
    if (std::isnan(value)) {
      continue;
    }
    const auto expected = static_cast<CompilerHalf>(value);
    EXPECT_EQ(to_fp16(value).bits, std::bit_cast<std::uint16_t>(expected)) << value;
  }
  EXPECT_EQ(to_fp16(65519.9f).bits, 0x7bff);
  EXPECT_EQ(to_fp16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(to_fp16(0x1p-25f).bits, 0);  // tie to even
  EXPECT_EQ(to_fp16(0x1.8p-25f).bits, 1);
}

TEST(Bfloat16, RoundsToNearestEven) {
  EXPECT_EQ(to_bf16(1.0f).bits, 0x3f80);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f808000u)).bits, 0x3f80);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f818000u)).bits, 0x3f82);
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::nanf("")))));
}

TEST(Tensor, RowsShareTheBytes) {
  Tensor tensor = Tensor::zeros(DType::kF32, {4, 3});
  auto values = tensor.mutable_data<float>();
  std::iota(values.begin(), values.end(), 0.0f);
  const Tensor part = tensor.rows(1, 3);
  EXPECT_EQ(part.shape(), (Shape{2, 3}));
  EXPECT_EQ(part.data<float>()[0], 3.0f);
  values[3] = 9.0f;
  EXPECT_EQ(part.data<float>()[0], 9.0f);
  EXPECT_THROW((void)tensor.rows(2, 5), Error);
  EXPECT_THROW((void)tensor.data<Fp16>(), Error);
}

TEST(Tensor, RefusesShapesThatOverflow) {
  EXPECT_THROW((void)element_count({1LL << 40, 1LL << 40}), Error);
  EXPECT_THROW((void)element_count({-1, 2}), Error);
  EXPECT_EQ(element_count({0, 1LL << 40, 1LL << 20}), 0);
  EXPECT_EQ(element_count({}), 1);
}

TEST(Tensor, ConvertsBothWays) {
  const std::vector<float> values = {0.0f, -1.5f, 3.25f, 65504.0f};
  for (const DType type : {DType::kF32, DType::kF16}) {
    EXPECT_EQ(to_float32(from_float32(values, {2, 2}, type)), values);
  }
  EXPECT_THROW((void)from_float32(values, {3}, DType::kF32), Error);
}

TEST(Json, RefusesWhatIsMalformed) {
  const auto kind_of = [](const std::string& text) {
    try {
      (void)parse_json(text, "test.json");
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::kFailed;
  };
  for (const std::string text :
       {"", "{", "{\"a\":1,\"a\":2}", "[1,]", "{} {}", "\"\xff\"", "nul"}) {
    EXPECT_EQ(kind_of(text), ErrorKind::kInvalidModel) << text;
  }
  EXPECT_EQ(kind_of(std::string(1000, '[') + std::string(1000, ']')), ErrorKind::kInvalidModel);
  EXPECT_EQ(parse_json("{\"a\":[1,2.5,\"x\",null,true]}", "t").dump(),
            "{\"a\":[1,2.5,\"x\",null,true]}");
}

TEST(Json, KeepsTheOrderOfMembersWhereItIsAskedTo) {
  EXPECT_EQ(parse_ordered_json(R"({"z":1,"a":{"y":[true],"b":null}})", "t").dump(),
            R"({"z":1,"a":{"y":[true],"b":null}})");
  EXPECT_THROW((void)parse_ordered_json(R"({"z":1,"a":2,"z":3})", "t"), Error);
}

TEST(Json, FieldReadersCheckTypeAndRange) {
  const Json object =
      parse_json(R"({"n":4096,"f":1e5,"s":"x","big":18446744073709551615,"z":null})", "c");
  EXPECT_EQ(get_integer(object, "n", "c", 1, 1 << 20), 4096);
  EXPECT_EQ(find_integer(object, "f", "c", 1, 1 << 20), 100000);
  EXPECT_EQ(find_integer(object, "missing", "c", 0, 1), std::nullopt);
  EXPECT_EQ(find_integer(object, "z", "c", 0, 1), std::nullopt);
  EXPECT_THROW((void)get_integer(object, "n", "c", 1, 10), Error);
  EXPECT_THROW((void)get_integer(object, "big", "c", 0, 1 << 30), Error);
  EXPECT_THROW((void)get_integer(object, "s", "c", 0, 10), Error);
  EXPECT_THROW((void)find_bool(object, "n", "c"), Error);
  EXPECT_THROW((void)get_string(object, "missing", "c"), Error);
}

TEST(HeldJson, IsAValueOfItsOwn) {
  EXPECT_TRUE(HeldJson()->is_null());
  HeldJson first = HeldJson::object();
  (*first)["a"] = 1;
  HeldJson second = first;
  (*second)["a"] = 2;
  EXPECT_EQ((*first)["a"], 1);
  first = second;
  (*first)["a"] = 3;
  EXPECT_EQ((*second)["a"], 2);
  EXPECT_EQ(*first, Json({{"a", 3}}));
  second = Json{{"b", 4}};
  EXPECT_EQ(*second, Json({{"b", 4}}));
}

TEST(Printable, NeverEmitsControlCharactersOrBrokenUtf8) {
  EXPECT_EQ(printable("caf\xc3\xa9").str(), "caf\xc3\xa9");
  EXPECT_EQ(printable("a\nb\x1b[0m").str(), "a\\x0ab\\x1b[0m");
  EXPECT_EQ(printable("\xff\xc3").str(), "\\xff\\xc3");
  EXPECT_EQ(printable("abcdef", 3).str(), "abc...");
  EXPECT_EQ(printable("ab\n", 6).str(), "ab\\x0a");
  EXPECT_EQ(printable("ab\n", 5).str(), "ab...") << "never more bytes than were asked for";
  EXPECT_EQ(printable("ab\xc3\xa9", 3).str(), "ab...");
}

TEST(Require, MakesItsMessageWhenTheCheckFails) {
  int made = 0;
  const auto text = lazily([&] { return std::to_string(++made); });
  require(true, ErrorKind::kFailed, "made {} times", text);
  EXPECT_EQ(made, 0);
  try {
    require(false, ErrorKind::kUsage, "made {} times, {} {}", text, printable("a\n"),
            printable(Shape{2, 3}));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "made 1 times, a\\x0a [2, 3]");
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  }
}

TEST(Random, IsTheSameEverywhere) {
  Random random(42);
  EXPECT_EQ(random.bits(), 0x15780b2e0c2ec716u);  // xoshiro256** after splitmix64(42)
  double sum = 0;
  double squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double value = random.normal();
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 0.02);
  EXPECT_NEAR(squares / kCount, 1.0, 0.02);
}

}  // namespace
}  // namespace nibble::core
