#include "compress/calibration/encoder_texts.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "io/temporary_folder_for_tests.h"

namespace nibble::compress {
namespace {

using Numbers = std::vector<std::int32_t>;

// Words of the small models' tokenizer are t0 to t63, without anything around a text.
class EncoderTexts : public testing::Test {
 protected:
  static std::shared_ptr<models::Model> open(const char* family) {
    return models::open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests/families" / family);
  }

  CalibrationInputs read(const std::vector<std::string>& texts, std::int64_t samples = 8,
                         std::int64_t seq_len = 8) const {
    CalibrationOptions options;
    for (const std::string& text : texts) {
      options.texts.push_back(std::make_shared<const std::string>(text));
    }
    options.samples = samples;
    options.seq_len = seq_len;
    return read_encoder_texts(*model_, options);
  }

  std::shared_ptr<models::Model> model_ = open("bert");
};

TEST_F(EncoderTexts, PackWholeLines) {
  const CalibrationInputs inputs = read({"t1 t2 t3\n\nt4 t5\r\nt6 t7 t8 t9\nt10"});
  ASSERT_EQ(inputs.encoder.size(), 2u);
  EXPECT_EQ(inputs.encoder[0].tokens, (Numbers{1, 2, 3, 4, 5}));
  EXPECT_EQ(inputs.encoder[0].lengths, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(inputs.encoder[1].tokens, (Numbers{6, 7, 8, 9, 10}));
  EXPECT_EQ(inputs.encoder[1].types, Numbers(5));
  EXPECT_TRUE(inputs.decoder.empty());
  EXPECT_EQ(inputs.all_tokens(), 10);
  EXPECT_EQ(inputs.longest(), 5);
}

TEST_F(EncoderTexts, EndWhenThePacksAreFullAndCutLongLines) {
  const CalibrationInputs inputs =
      read({"t1 t2 t3 t4 t5 t6 t7 t8 t9\nt10 t11\nt12 t13 t14\nt15 t16 t17 t18"}, 2, 6);
  ASSERT_EQ(inputs.encoder.size(), 2u);
  EXPECT_EQ(inputs.encoder[0].tokens, (Numbers{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(inputs.encoder[1].tokens, (Numbers{10, 11, 12, 13, 14}));
}

TEST_F(EncoderTexts, AreTakenFromEachFileInTurn) {
  const CalibrationInputs inputs = read({"t1\nt2\nt3", "t11\n"});
  EXPECT_EQ(inputs.encoder.front().tokens, (Numbers{1, 11, 2, 3}));
}

TEST_F(EncoderTexts, OfGlueAreTheColumnsOfSentences) {
  EXPECT_EQ(read({"sentence\tlabel\nt1 t2\t1\nt3\t0\n"}).encoder.front().tokens,
            (Numbers{1, 2, 3}));
  EXPECT_EQ(read({"index\tsentence\n0\tt1 t2\n"}).encoder.front().tokens, (Numbers{1, 2}));
  const CalibrationInputs pairs =
      read({"index\tquestion\tsentence\tlabel\n0\tt1\tt2 t3\tentailment\n"});
  EXPECT_EQ(pairs.encoder.front().tokens, (Numbers{1, 2, 3}));
  EXPECT_EQ(pairs.encoder.front().lengths, (std::vector<std::int64_t>{3}));
}

TEST_F(EncoderTexts, PairsGoToTheStacksOfAnEncoderDecoder) {
  model_ = open("bart");
  const CalibrationInputs inputs = read({"t5 t6 t7\tt8 t9\nt4\tt20 t21 t22 t23 t2\nt3\tt3"});
  ASSERT_EQ(inputs.encoder.size(), 2u);
  EXPECT_EQ(inputs.encoder[0].tokens, (Numbers{5, 6, 7, 4}));
  EXPECT_EQ(inputs.decoder[0].tokens, (Numbers{2, 8, 9, 2, 20, 21, 22, 23}));  // 2 starts and ends
  EXPECT_EQ(inputs.decoder[0].lengths, (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(inputs.encoder[1].tokens, (Numbers{3}));
  EXPECT_EQ(inputs.decoder[1].tokens, (Numbers{2, 3}));
}

TEST_F(EncoderTexts, ThatAreNoneAreRefused) {
  io::expect_error(core::ErrorKind::kUsage, {"has an encoder", "--calib", "each line a text"},
                   [&] { read({}); });
  io::expect_error(core::ErrorKind::kUsage, {"no line with a token"}, [&] { read({"\n \n"}); });
  model_ = open("bart");
  io::expect_error(core::ErrorKind::kUsage, {"line 3", "no tab"},
                   [&] { read({"t1\tt2\n\nt4 t5\n"}); });
  io::expect_error(core::ErrorKind::kUsage, {"what it reads, a tab"}, [&] { read({}); });
}

}  // namespace
}  // namespace nibble::compress
