// Each way in which a stored weight can be malformed is refused, naming the weight and the part.

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "formats/format.h"
#include "formats/stored_parts.h"

namespace nibble::formats {
namespace {

using core::DType;
using core::Fp16;
using core::Tensor;

PackedWeight valid_weight(const std::string& text, std::int64_t k = 67) {
  const Scheme scheme = parse_scheme(text);
  core::Random random(9);
  std::vector<float> w(static_cast<std::size_t>(3 * k));
  for (float& value : w) {
    value = core::to_float(core::to_fp16(random.normal()));
  }
  if (!has_learned_book(scheme)) {
    return round_to_nearest(w, 3, k, scheme);
  }
  PackedWeightBuilder builder(scheme, 3, k);
  for (std::int64_t row = 0; row < (scheme.code.book == Book::kPerRow ? 3 : 1); ++row) {
    const auto size = static_cast<std::size_t>(book_size(scheme));
    builder.set_book(row, std::span(w).subspan(static_cast<std::size_t>(row) * size, size));
  }
  return builder.finish();
}

// The message of the refusal; empty when the weight is accepted.
std::string refusal(PackedWeight weight, const std::function<void(PackedWeight&)>& damage) {
  damage(weight);
  try {
    validate(weight, "model.layers.0.q_proj");
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
    EXPECT_NE(std::string(error.what()).find("model.layers.0.q_proj"), std::string::npos);
    return error.what();
  }
  return "";
}

bool names(const std::string& message, const std::string& word) {
  return message.find(word) != std::string::npos;
}

TEST(Validate, AcceptsEveryFormat) {
  for (const std::string scheme :
       {"f32", "f16", "bf16", "int2-asym-g32", "int3-sym-g32", "int3-asym-g32", "int4-sym-row",
        "int8-asym-g32", "int8-sym-row-a8", "int8-sym-row-a8o", "int8-sym-row-a8s", "lut4-nf4-g32",
        "lut4-row-g32", "lut4-matrix-row", "lut3-row-g32", "lut2-matrix-g32"}) {
    EXPECT_EQ(refusal(valid_weight(scheme), [](PackedWeight&) {}), "") << scheme;
  }
  EXPECT_EQ(refusal(valid_weight("mxfp4", 64), [](PackedWeight&) {}), "");
}

TEST(Validate, RefusesMissingParts) {
  const auto integers = valid_weight("int4-asym-g32");
  EXPECT_TRUE(names(refusal(integers, [](PackedWeight& w) { w.codes = {}; }), ".codes: missing"));
  EXPECT_TRUE(names(refusal(integers, [](PackedWeight& w) { w.scales = {}; }), ".scales: missing"));
  EXPECT_TRUE(names(refusal(integers, [](PackedWeight& w) { w.zeros = {}; }), ".zeros: missing"));
  EXPECT_TRUE(names(refusal(valid_weight("lut4-row-g32"), [](PackedWeight& w) { w.book = {}; }),
                    ".book: missing"));
  EXPECT_TRUE(names(refusal(valid_weight("f16"), [](PackedWeight& w) { w.dense = {}; }),
                    ".weight: missing"));
}

// A weight of zeros; of schemes that no builder makes.
PackedWeight weight_of_zeros(const std::string& text, std::int64_t k) {
  PackedWeight weight;
  weight.scheme = parse_scheme(text);
  weight.n = 3;
  weight.k = k;
  for (const StoredPart& part : stored_parts(weight.scheme, 3, k)) {
    weight.*part.tensor = Tensor::zeros(part.dtype, {part.rows, part.columns});
  }
  return weight;
}

TEST(Validate, KnowsThePartsOfGgufBlocks) {
  const PackedWeight blocks = weight_of_zeros("int4-min-g32-s8", 512);
  EXPECT_EQ(refusal(blocks, [](PackedWeight&) {}), "");
  EXPECT_DOUBLE_EQ(bits_per_weight(blocks), 4.625);
  for (const auto& [part, name] : {std::pair{&PackedWeight::scales, ".scales: missing"},
                                   std::pair{&PackedWeight::supers, ".supers: missing"},
                                   std::pair{&PackedWeight::minima, ".minima: missing"},
                                   std::pair{&PackedWeight::min_supers, ".min_supers: missing"}}) {
    EXPECT_TRUE(names(refusal(blocks, [&](PackedWeight& w) { w.*part = {}; }), name)) << name;
  }
  constexpr core::Fp16 kInfinity{0x7c00};
  for (const auto& [part, name] :
       {std::pair{&PackedWeight::supers, ".supers: row 2, group 1 is not finite"},
        std::pair{&PackedWeight::min_supers, ".min_supers: row 2, group 1 is not finite"}}) {
    const std::string message = refusal(weight_of_zeros("int4-min-g32-s8", 512), [&](auto& w) {
      (w.*part).template mutable_data<core::Fp16>()[5] = kInfinity;
    });
    EXPECT_TRUE(names(message, name)) << message;
  }
  const std::string message = refusal(weight_of_zeros("int4-min-g32", 64), [&](PackedWeight& w) {
    w.minima.mutable_data<core::Fp16>()[3] = kInfinity;
  });
  EXPECT_TRUE(names(message, ".minima: row 1, group 1 is not finite")) << message;
  EXPECT_TRUE(names(refusal(weight_of_zeros("int8-sym-g16-s8", 256),
                            [](PackedWeight& w) { w.minima = w.scales; }),
                    ".minima: the scheme int8-sym-g16-s8 has no such part"));
  EXPECT_TRUE(names(refusal(weight_of_zeros("int8-sym-g16-s8", 128), [](PackedWeight&) {}),
                    "multiples of 256"));
}

TEST(Validate, RefusesPartsThatTheSchemeDoesNotHave) {
  const Tensor extra = Tensor::zeros(DType::kU8, {3, 2});
  const Tensor book = Tensor::zeros(DType::kF32, {3, 16});
  const auto symmetric = valid_weight("int4-sym-g32");
  EXPECT_TRUE(names(refusal(symmetric, [&](PackedWeight& w) { w.zeros = extra; }), ".zeros"));
  EXPECT_TRUE(names(refusal(symmetric, [&](PackedWeight& w) { w.book = book; }), ".book"));
  EXPECT_TRUE(names(refusal(symmetric, [&](PackedWeight& w) { w.dense = book; }), ".weight"));
  EXPECT_TRUE(names(refusal(valid_weight("lut4-nf4-g32"), [&](PackedWeight& w) { w.book = book; }),
                    ".book"));
  const auto dense = valid_weight("bf16");
  EXPECT_TRUE(names(refusal(dense, [&](PackedWeight& w) { w.codes = extra; }), ".codes"));
  EXPECT_TRUE(names(refusal(dense, [&](PackedWeight& w) { w.scales = extra; }), ".scales"));
  EXPECT_TRUE(names(refusal(dense, [&](PackedWeight& w) { w.zeros = extra; }), ".zeros"));
  EXPECT_TRUE(names(refusal(dense, [&](PackedWeight& w) { w.book = book; }), ".book"));
}

TEST(Validate, RefusesWrongShapes) {
  const auto weight = valid_weight("int4-asym-g32");  // codes [3, 34], scales [3, 3], zeros [3, 2]
  for (const core::Shape& shape :
       {core::Shape{3, 33}, {3, 35}, {2, 34}, {4, 34}, {102}, {3, 34, 1}, {34, 3}}) {
    EXPECT_TRUE(
        names(refusal(weight, [&](PackedWeight& w) { w.codes = Tensor::zeros(DType::kU8, shape); }),
              ".codes"));
  }
  for (const core::Shape& shape : {core::Shape{3, 2}, {3, 4}, {1, 3}, {9}}) {
    EXPECT_TRUE(names(
        refusal(weight, [&](PackedWeight& w) { w.scales = Tensor::zeros(DType::kF16, shape); }),
        ".scales"));
  }
  for (const core::Shape& shape : {core::Shape{3, 1}, {3, 3}, {2, 2}, {6}}) {
    EXPECT_TRUE(
        names(refusal(weight, [&](PackedWeight& w) { w.zeros = Tensor::zeros(DType::kU8, shape); }),
              ".zeros"));
  }
  const auto row_book = valid_weight("lut4-row-g32");
  const auto matrix_book = valid_weight("lut4-matrix-g32");
  EXPECT_TRUE(
      names(refusal(row_book, [&](PackedWeight& w) { w.book = matrix_book.book; }), ".book"));
  EXPECT_TRUE(
      names(refusal(matrix_book, [&](PackedWeight& w) { w.book = row_book.book; }), ".book"));
  EXPECT_TRUE(
      names(refusal(valid_weight("lut3-row-g32"), [&](PackedWeight& w) { w.book = row_book.book; }),
            ".book"));
  EXPECT_TRUE(names(refusal(valid_weight("f16"),
                            [](PackedWeight& w) {
                              w.dense = Tensor::zeros(DType::kF16, {67, 3});
                            }),
                    ".weight"));
}

TEST(Validate, RefusesWrongDtypes) {
  const auto weight = valid_weight("int4-asym-g32");
  EXPECT_TRUE(names(refusal(weight,
                            [](PackedWeight& w) {
                              w.codes = Tensor::zeros(DType::kI8, {3, 34});
                            }),
                    ".codes"));
  EXPECT_TRUE(names(refusal(weight,
                            [](PackedWeight& w) {
                              w.scales = Tensor::zeros(DType::kBF16, {3, 3});
                            }),
                    ".scales"));
  EXPECT_TRUE(names(refusal(weight,
                            [](PackedWeight& w) {
                              w.zeros = Tensor::zeros(DType::kF16, {3, 2});
                            }),
                    ".zeros"));
  EXPECT_TRUE(names(refusal(valid_weight("mxfp4", 64),
                            [](PackedWeight& w) {
                              w.scales = Tensor::zeros(DType::kF16, {3, 2});
                            }),
                    ".scales"));
  EXPECT_TRUE(names(refusal(valid_weight("lut4-row-g32"),
                            [](PackedWeight& w) {
                              w.book = Tensor::zeros(DType::kBF16, {3, 16});
                            }),
                    ".book"));
  EXPECT_TRUE(names(
      refusal(valid_weight("f16"), [](PackedWeight& w) { w.scheme.code.dense = DType::kBF16; }),
      ".weight"));
}

TEST(Validate, RefusesWrongExtents) {
  const auto weight = valid_weight("int4-asym-g32");
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t k : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{66}, huge}) {
    EXPECT_NE(refusal(weight, [k](PackedWeight& w) { w.k = k; }), "") << k;
    EXPECT_NE(refusal(weight, [k](PackedWeight& w) { w.n = k; }), "") << k;
  }
  EXPECT_TRUE(names(refusal(valid_weight("mxfp4", 64), [](PackedWeight& w) { w.k = 63; }), "32"));
}

TEST(Validate, RefusesScalesThatAreNotFinite) {
  for (const std::uint16_t bits : {0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xffff}) {
    const std::string message = refusal(valid_weight("int4-sym-g32"), [bits](PackedWeight& w) {
      w.scales.mutable_data<Fp16>()[4] = Fp16{bits};
    });
    EXPECT_TRUE(names(message, ".scales: row 1, group 1")) << message;
  }
  for (const std::uint8_t byte : {253, 254, 255}) {
    const std::string message = refusal(valid_weight("mxfp4", 64), [byte](PackedWeight& w) {
      w.scales.mutable_data<std::uint8_t>()[5] = byte;
    });
    EXPECT_TRUE(names(message, ".scales: row 2, group 1")) << message;
  }
}

TEST(Validate, RefusesScalesOfInputsThatAreNoneOrNotThere) {
  for (const float scale :
       {0.0f, -0.0f, -1.0f, std::nanf(""), INFINITY, -INFINITY, 1e-40f, 1e37f}) {
    const std::string message = refusal(valid_weight("int8-sym-row-a8s"), [scale](PackedWeight& w) {
      w.input_scale = Tensor::from<float>(std::array{scale}, {1, 1});
    });
    EXPECT_TRUE(names(message, ".input_scale: ")) << scale << " " << message;
  }
  const auto change = [](core::Tensor scale) {
    return [scale](PackedWeight& w) { w.input_scale = scale; };
  };
  const PackedWeight weight = valid_weight("int8-sym-row-a8s");
  EXPECT_EQ(refusal(weight, change(weight.input_scale)), "");
  EXPECT_TRUE(names(refusal(weight, change({})), ".input_scale: missing"));
  EXPECT_TRUE(names(refusal(weight, change(Tensor::zeros(DType::kF16, {1, 1}))), ".input_scale: "));
  EXPECT_TRUE(names(refusal(weight, change(Tensor::zeros(DType::kF32, {1, 2}))), ".input_scale: "));
  EXPECT_TRUE(names(refusal(valid_weight("int8-sym-row-a8"), change(weight.input_scale)),
                    ".input_scale: the scheme"));
  EXPECT_EQ(input_scale_of(with_input_scale(weight, 0.25f)), 0.25f);
  EXPECT_THROW((void)with_input_scale(weight, 0.0f), core::Error);
  EXPECT_THROW((void)with_input_scale(valid_weight("int8-sym-row-a8"), 1.0f), core::Error);
}

TEST(Validate, RefusesE4m3ScalesThatAreNanOrNegativeAndBadGlobalScales) {
  for (const std::uint8_t byte : {0x7f, 0x80, 0xb8, 0xff}) {
    const std::string message = refusal(valid_weight("nvfp4", 64), [byte](PackedWeight& w) {
      w.scales.mutable_data<std::uint8_t>()[5] = byte;
    });
    EXPECT_TRUE(names(message, ".scales: row 1, group 1")) << message;
  }
  for (const float global : {0.0f, -1.0f, std::nanf(""), INFINITY, 1e-40f, 1e37f}) {
    const std::string message = refusal(valid_weight("nvfp4", 64), [global](PackedWeight& w) {
      w.global.mutable_data<float>()[0] = global;
    });
    EXPECT_TRUE(names(message, ".global: ")) << message;
  }
  const auto change = [](core::Tensor global) {
    return [global](PackedWeight& w) { w.global = global; };
  };
  EXPECT_TRUE(names(refusal(valid_weight("nvfp4", 64), change({})), ".global: missing"));
  EXPECT_TRUE(names(refusal(valid_weight("nvfp4", 64), change(Tensor::zeros(DType::kF32, {3, 1}))),
                    ".global: "));
  for (const char* scheme : {"mxfp4", "int4-sym-g32", "int4-sym-g32-s7", "f16"}) {
    EXPECT_TRUE(names(refusal(valid_weight(scheme, 64), change(Tensor::zeros(DType::kF32, {1, 1}))),
                      ".global: "))
        << scheme;
  }
  EXPECT_TRUE(names(refusal(valid_weight("nvfp4", 64), [](PackedWeight& w) { w.k = 63; }), "16"));
}

TEST(Validate, RefusesBooksThatAreNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    const std::string message = refusal(valid_weight("lut4-row-g32"), [value](PackedWeight& w) {
      w.book.mutable_data<core::Fp16>()[2 * 16 + 5] = core::to_fp16(value);
    });
    EXPECT_TRUE(names(message, ".book: row 2, entry 5")) << message;
  }
}

// Earlier versions stored books in float32.
TEST(Validate, TakesBooksInFloat32) {
  PackedWeight weight = valid_weight("lut4-row-g32");
  std::vector<float> before(static_cast<std::size_t>(weight.k));
  decode_row(weight, 2, before);
  Tensor book = Tensor::zeros(DType::kF32, {3, 16});
  const auto halves = weight.book.data<core::Fp16>();
  std::transform(halves.begin(), halves.end(), book.mutable_data<float>().begin(),
                 [](core::Fp16 value) { return core::to_float(value); });
  weight.book = book;
  EXPECT_EQ(refusal(weight, [](PackedWeight&) {}), "");
  std::vector<float> after(before.size());
  decode_row(weight, 2, after);
  EXPECT_EQ(after, before);
  const std::string message =
      refusal(weight, [](PackedWeight& w) { w.book.mutable_data<float>()[2 * 16 + 5] = 1e38f; });
  EXPECT_TRUE(names(message, ".book: row 2, entry 5")) << message;
}

TEST(Validate, RefusesBitsAfterTheLastCode) {
  const std::string codes = refusal(valid_weight("int4-asym-g32"), [](PackedWeight& w) {
    w.codes.mutable_data<std::uint8_t>()[2 * 34 - 1] |= 0x10;
  });
  EXPECT_TRUE(names(codes, ".codes: row 1")) << codes;
  const std::string three = refusal(valid_weight("int3-sym-g32"), [](PackedWeight& w) {
    w.codes.mutable_data<std::uint8_t>()[3 * 26 - 1] |=
        0x80;  // 67 codes of 3 bits: 201 of 208 bits
  });
  EXPECT_TRUE(names(three, ".codes: row 2")) << three;
  const std::string zeros = refusal(valid_weight("int4-asym-g32"), [](PackedWeight& w) {
    w.zeros.mutable_data<std::uint8_t>()[1] |= 0x80;
  });
  EXPECT_TRUE(names(zeros, ".zeros: row 0")) << zeros;
}

TEST(Validate, RefusesContradictorySchemes) {
  EXPECT_NE(refusal(valid_weight("int4-sym-g32"), [](PackedWeight& w) { w.scheme.code.bits = 7; }),
            "");
  EXPECT_NE(
      refusal(valid_weight("int4-sym-g32"), [](PackedWeight& w) { w.scheme.scale.group = -1; }),
      "");
  EXPECT_NE(refusal(valid_weight("int4-sym-g32"), [](PackedWeight& w) { w.scheme.code.bits = 3; }),
            "");
  EXPECT_NE(
      refusal(valid_weight("int4-sym-g32"), [](PackedWeight& w) { w.scheme.scale.group = 64; }),
      "");
}

}  // namespace
}  // namespace nibble::formats
