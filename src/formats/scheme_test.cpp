#include "formats/scheme.h"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"

namespace nibble::formats {
namespace {

core::ErrorKind kind_of_failure(const std::function<void()>& action, std::string* message) {
  try {
    action();
  } catch (const core::Error& error) {
    *message = error.what();
    return error.kind();
  }
  return core::ErrorKind::kFailed;
}

TEST(Scheme, EveryCombinationSurvivesTheRoundTrip) {
  std::vector<std::string> texts = {"f32", "f16", "bf16", "mxfp4", "mxfp4-a8", "nvfp4", "nvfp4-a8"};
  for (const std::string group : {"row", "g1", "g32", "g128", "g1000", "g1073741824"}) {
    for (const std::string kind :
         {"int2-sym", "int3-sym", "int4-sym", "int8-sym", "int2-asym", "int3-asym", "int4-asym",
          "int8-asym", "lut4-nf4", "lut4-fp4", "lut4-af4", "lut4-row", "lut4-matrix"}) {
      texts.push_back(kind + "-" + group);
      for (const std::string activation : {"a8", "a8o", "a4", "a8-asym", "a4-asym", "a4c0.9"}) {
        texts.push_back(kind + "-" + group + "-" + activation);
      }
    }
  }
  for (const std::string text : {"int4-sym-g128-a4g128",
                                 "int4-sym-g128-a4g32c0.85",
                                 "int4-asym-g64-a8g128o-asym",
                                 "int4-asym-g128-order",
                                 "int4-sym-row-a8-order",
                                 "int4-sym-g128-a4g128c0.9-tail128",
                                 "lut4-fp4-g128-afp4g128c0.9-h128-tail128",
                                 "int8-sym-row-afp4o",
                                 "int3-asym-g64-a3-asym-h128-tail16",
                                 "int8-sym-tensor",
                                 "int4-sym-tensor-a8-h64",
                                 "int4-asym-g64-h64",
                                 "lut4-nf4-g64-hrow",
                                 "lut3-row-g128",
                                 "lut2-matrix-row",
                                 "lut3-matrix-g32-s7",
                                 "int4-min-g32",
                                 "int4-min-g64",
                                 "int8-min-g256",
                                 "int8-min-g16",
                                 "int4-min-g32-s8",
                                 "int8-sym-g16-s8",
                                 "lut4-matrix-g32-s8",
                                 "int5-sym-g32",
                                 "int5-min-g32",
                                 "int5-min-g32-s8",
                                 "int6-sym-g16-s8",
                                 "lut4-iq4-g32",
                                 "lut4-iq4-g32-s8",
                                 "int4-asym-g16-bsr",
                                 "int2-sym-g8-bsr",
                                 "int8-asym-g64-bsr-a8",
                                 "int4-asym-g16-bsr-a8s",
                                 "int4-asym-g16-s7-bsr",
                                 "int8-sym-g32-s7-bsr-t16-a8",
                                 "int4-asym-g16-bsr-a4g128c0.9",
                                 "lut4-row-g16-bsr",
                                 "lut3-matrix-g64-bsr-a8",
                                 "mxfp4-a4-h128",
                                 "int4-sym-g128-a4-asym-h96",
                                 "int4-sym-row-a4g100c0.5",
                                 "int8-sym-row-a8s",
                                 "lut4-nf4-g64-a4s",
                                 "int4-sym-g32-a8g1024c0.975-asym"}) {
    texts.push_back(text);
  }
  for (const std::string& text : texts) {
    EXPECT_EQ(to_string(parse_scheme(text)), text);
  }
}

TEST(Scheme, ReadsEachField) {
  const Scheme integers = parse_scheme("int3-asym-g32");
  EXPECT_EQ(integers.code.type, &kIntegerCodes);
  EXPECT_EQ(integers.code.bits, 3);
  EXPECT_TRUE(has_zeros(integers));
  EXPECT_EQ(integers.scale.group, 32);
  EXPECT_TRUE(integers.activation.is_float());

  const Scheme w8a8 = parse_scheme("int8-sym-row-a8");
  EXPECT_FALSE(has_zeros(w8a8));
  EXPECT_EQ(w8a8.scale.group, 0);
  EXPECT_EQ(w8a8.activation, (Activation{8, true, 0, 1.0f, false}));
  EXPECT_TRUE(parse_scheme("int8-sym-row-a8s").activation.stored_scale);
  EXPECT_FALSE(w8a8.activation.stored_scale);
  EXPECT_EQ(parse_scheme("int8-sym-row-a8o").activation, (Activation{8, true, 0, 1.0f, true}));
  EXPECT_EQ(parse_scheme("int4-sym-g128-a4g64c0.9-asym").activation,
            (Activation{4, false, 64, 0.9f, false}));

  const Scheme learned = parse_scheme("lut4-row-row");  // a book for each row, a scale for each row
  EXPECT_EQ(learned.code.book, Book::kPerRow);
  EXPECT_EQ(learned.code.bits, 4);
  EXPECT_EQ(learned.scale.group, 0);

  EXPECT_EQ(parse_scheme("bf16").code.dense, core::DType::kBF16);
  EXPECT_EQ(parse_scheme("mxfp4").scale.group, 32);
  EXPECT_EQ(parse_scheme("nvfp4").scale.group, 16);
}

TEST(Scheme, RefusesMalformedStrings) {
  for (const std::string text : {"",
                                 "-",
                                 "f64",
                                 "F16",
                                 "f16 ",
                                 " f16",
                                 "f16-",
                                 "f16-a8",
                                 "bf16-g32",
                                 "int4",
                                 "int4-",
                                 "int4-sym",
                                 "int4-sym-",
                                 "int4-g128",
                                 "int5-sym-g64",
                                 "int16-sym-g32",
                                 "int1-sym-row",
                                 "int4-sym-g",
                                 "int4-sym-g0",
                                 "int4-sym-g-1",
                                 "int4-sym-g+1",
                                 "int4-sym-g032",
                                 "int4-sym-g1e3",
                                 "int4-sym-g32x",
                                 "int4-sym-G32",
                                 "int4-sym-32",
                                 "int4-sym-g1073741825",
                                 "int4-sym-g99999999999999999999999",
                                 "int4-symm-g32",
                                 "int4-sym-g32-",
                                 "int4-sym-g32-a5",
                                 "int4-sym-g32-a16",
                                 "int4-sym-g32-a4g48",
                                 "int4-sym-g32-a4g0",
                                 "int4-sym-g32-a4g-32",
                                 "int4-sym-g32-a4c1",
                                 "int4-sym-g32-a4c1.1",
                                 "int4-sym-g32-a4c0.05",
                                 "int4-sym-g32-a4cnan",
                                 "int4-sym-g32-a4c0.90",
                                 "int4-sym-g32-a4oc0.9",
                                 "int4-sym-g32-asym",
                                 "int4-sym-g32-h",
                                 "int4-sym-g32-h0",
                                 "int4-sym-g32-h1",
                                 "int4-sym-g32-h6",
                                 "int4-sym-g32-h99999999999",
                                 "int4-sym-g32-h-32",
                                 "int4-sym-g32-h32-a4",
                                 "int4-sym-g32-hrow-h32",
                                 "f16-order",
                                 "int4-sym-g32-order-order",
                                 "int4-sym-g32-h32-order",
                                 "int4-sym-g32-a4-order-tail16",
                                 "int8-sym-row-a8s-order",
                                 "int4-sym-g32-a4-tail",
                                 "int4-sym-g32-a4-tail0",
                                 "int4-sym-g32-a4-tail-16",
                                 "int4-sym-g32-tail16",
                                 "int4-sym-g32-a4o-tail16",
                                 "int8-sym-g32-a8-tail16",
                                 "int4-sym-g32-a4-tail16-h32",
                                 "f16-h32",
                                 "int4-sym-g32-a4-asym-asym",
                                 "int4-sym-g32-asym-a4",
                                 "int4-sym-g32-a8-",
                                 "int4-sym-g32-a8-a8",
                                 "int4-sym-g32-a8x",
                                 "lut4",
                                 "lut4-g64",
                                 "lut4-nf4",
                                 "lut4-nf4-",
                                 "lut4-none-g64",
                                 "lut4-NF4-g64",
                                 "lut3-nf4-g64",
                                 "lut2-fp4-g64",
                                 "lut5-row-g64",
                                 "lut1-row-g64",
                                 "lut8-row-g64",
                                 "lut4-nf4-g64-g32",
                                 "int8-asym-tensor",
                                 "lut4-nf4-tensor",
                                 "int4-sym-tensor-s7",
                                 "int4-sym-tensor-a4-tail16",
                                 "f16-tensor",
                                 "mxfp4-g32",
                                 "mxfp4-",
                                 "mxfp8",
                                 "nvfp4-g16",
                                 "nvfp4-s7",
                                 "row",
                                 "g128",
                                 "a8",
                                 "int4--g32",
                                 "int4-min-row",
                                 "int4-min-g48",
                                 "int4-min-g288",
                                 "int4-min-g64-s8",
                                 "int4-min-g32-a8",
                                 "int4-min-g32-order",
                                 "int4-min-g32-s7",
                                 "int4-sym-g64-s8",
                                 "int4-sym-row-s8",
                                 "int4-sym-g32-s8-h32",
                                 "int4-sym-g32-s8-s7",
                                 "lut4-min-g32",
                                 "int4-asym-g128-bsr",
                                 "fp4-g64",
                                 "lut4-fp4-g64-afp4-asym",
                                 "int4-sym-row-afp4s",
                                 "fp8-row-afp4",
                                 "mxfp4-a4-tail16",
                                 "nvfp4-a4-tail16",
                                 "lut4-row-g64-a4-tail16",
                                 "lut4-fp4-g64-tail16",
                                 "int4-asym-row-bsr",
                                 "int4-asym-g16-bsr-bsr",
                                 "int4-asym-g16-a8-bsr",
                                 "int4-asym-g16-bsr-h16",
                                 "int4-asym-g16-bsr-order",
                                 "int4-asym-g16-bsr-a8-asym",
                                 "int4-asym-g16-bsr-a8o",
                                 "int4-asym-g16-bsr-a4g8",
                                 "int4-asym-g16-bsr-a4-tail16",
                                 "int4-asym-g128-s7-bsr",
                                 "int4-asym-g16-bsr-s7",
                                 "int4-min-g32-bsr",
                                 "lut4-iq4-g16-bsr",
                                 "lut4-row-g16-bsr-t16",
                                 "f16-bsr",
                                 "nvfp4-bsr",
                                 "nvfp4-s8"}) {
    std::string message;
    EXPECT_EQ(kind_of_failure([&] { (void)parse_scheme(text); }, &message),
              core::ErrorKind::kInvalidModel)
        << "'" << text << "'";
  }
}

TEST(Scheme, MessagesAreOneLineWhateverTheFileHolds) {
  std::string message;
  const std::string text("int4\n\x1b[31m\xff\0", 12);
  EXPECT_EQ(kind_of_failure([&] { (void)parse_scheme(text); }, &message),
            core::ErrorKind::kInvalidModel);
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  (void)kind_of_failure([] { (void)parse_scheme(std::string(100000, 'x')); }, &message);
  EXPECT_LT(message.size(), 400u);
}

TEST(Scheme, RefusesContradictions) {
  const Scheme integers = parse_scheme("int4-asym-g128");
  const Scheme book = parse_scheme("lut4-nf4-g64");
  const Scheme mx = parse_scheme("mxfp4");
  const Scheme nv = parse_scheme("nvfp4");
  const Scheme dense = parse_scheme("f16");
  const auto refused = [](Scheme scheme, const std::function<void(Scheme&)>& change) {
    change(scheme);
    std::string message;
    return kind_of_failure([&] { validate(scheme); }, &message) == core::ErrorKind::kInvalidModel;
  };
  EXPECT_FALSE(refused(integers, [](Scheme&) {}));
  EXPECT_TRUE(refused(integers, [](Scheme& s) { s.code.bits = 5; }));
  EXPECT_TRUE(refused(integers, [](Scheme& s) { s.code.bits = 0; }));
  EXPECT_TRUE(refused(integers, [](Scheme& s) { s.scale.group = -1; }));
  EXPECT_TRUE(refused(integers, [](Scheme& s) { s.scale.group = std::int64_t{1} << 40; }));
  EXPECT_TRUE(refused(integers, [](Scheme& s) { s.code.book = Book::kNf4; }));
  EXPECT_TRUE(refused(integers, [](Scheme& s) { s.code.dense = core::DType::kF16; }));
  EXPECT_TRUE(refused(book, [](Scheme& s) { s.code.book = Book::kNone; }));
  EXPECT_TRUE(refused(book, [](Scheme& s) { s.code.bits = 3; }));
  EXPECT_TRUE(refused(book, [](Scheme& s) { s.zero = Zero::kInteger; }));
  EXPECT_TRUE(refused(mx, [](Scheme& s) { s.scale.group = 16; }));
  EXPECT_TRUE(refused(mx, [](Scheme& s) { s.code.bits = 8; }));
  EXPECT_TRUE(refused(mx, [](Scheme& s) { s.zero = Zero::kInteger; }));
  EXPECT_TRUE(refused(mx, [](Scheme& s) { s.code.book = Book::kNone; }));
  EXPECT_TRUE(refused(nv, [](Scheme& s) { s.scale.group = 32; }));
  EXPECT_TRUE(refused(nv, [](Scheme& s) { s.code.bits = 3; }));
  EXPECT_TRUE(refused(nv, [](Scheme& s) { s.scale.type = ScaleType::kNone; }));
  EXPECT_TRUE(refused(dense, [](Scheme& s) { s.code.dense = core::DType::kF64; }));
  EXPECT_TRUE(refused(dense, [](Scheme& s) { s.code.dense = core::DType::kI8; }));
  EXPECT_TRUE(refused(dense, [](Scheme& s) { s.code.bits = 4; }));
  EXPECT_TRUE(refused(dense, [](Scheme& s) { s.scale.group = 32; }));
  EXPECT_TRUE(refused(dense, [](Scheme& s) { s.zero = Zero::kInteger; }));
  EXPECT_TRUE(refused(dense, [](Scheme& s) { s.activation.bits = 8; }));
  EXPECT_TRUE(refused(integers, [](Scheme& s) { s.activation.bits = 5; }));
  EXPECT_TRUE(refused(integers, [](Scheme& s) { s.activation.group = 128; }));
  EXPECT_TRUE(refused(integers, [](Scheme& s) { s.activation = {4, true, 96, 1.0f, false}; }));
  EXPECT_TRUE(refused(integers, [](Scheme& s) { s.activation = {4, true, 0, 1.5f, false}; }));
}

TEST(Scheme, CountsGroups) {
  const Scheme scheme = parse_scheme("int4-sym-g32");
  EXPECT_EQ(groups_per_row(scheme, 64), 2);
  EXPECT_EQ(groups_per_row(scheme, 65), 3);
  EXPECT_EQ(groups_per_row(scheme, 1), 1);
  EXPECT_EQ(group_size(scheme, 64), 32);
  EXPECT_EQ(groups_per_row(parse_scheme("int4-sym-tensor"), 77), 1);
  const Scheme row = parse_scheme("int4-sym-row");
  EXPECT_EQ(groups_per_row(row, 77), 1);
  EXPECT_EQ(group_size(row, 77), 77);
  EXPECT_EQ(groups_per_row(parse_scheme("f16"), 77), 0);
}

}  // namespace
}  // namespace nibble::formats
