#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "cli_for_tests.h"

// Encoders from the command line, against what transformers computed (golden.json beside the
// models).
namespace nibble {
namespace {

const fs::path kModels = kSource + "/../shared/models";
const fs::path kGlue = kSource + "/../shared/data/glue";

const std::string kFamilies = kSource + "/tests/families/";

class EncoderCommands : public Cli {
 protected:
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

  // What transformers computed of a single token, the second text of each golden file, and the line
  // that has this token alone.
  struct Single {
    Json numbers;
    std::string line;
  };
  static Single single(const std::string& family) {
    const Json text = core::parse_json(testing::read_file(kFamilies + family + "/golden.json"),
                                       family)["texts"][1];
    const std::string token = fmt::format("t{}", text["ids"][0].get<int>());
    return {text["numbers"][0], text["types"][0] == 1 ? "\t" + token : token};
  }
};

void expect_near(const Json& numbers, const Json& expected, double bound) {
  ASSERT_EQ(numbers.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(numbers[i].get<double>(), expected[i].get<double>(), bound) << i;
  }
}

// With models that were trained, which are not part of the repository.
class TrainedEncoders : public EncoderCommands {
 protected:
  void SetUp() override {
    Cli::SetUp();
    if (!fs::exists(kModels / "bert-7m-sst2")) {
      GTEST_SKIP() << kModels << " is missing";
    }
  }

  static std::string model(const std::string& name) { return (kModels / name).string(); }
  static Json golden(const std::string& name) {
    return core::parse_json(testing::read_file(kModels / name / "golden.json"), name);
  }

  // Fields `columns` of the first `count` rows of a GLUE file, divided by tabs.
  std::string write_texts(const std::string& file, const std::vector<std::size_t>& columns,
                          std::size_t count) const {
    std::ifstream rows(kGlue / file);
    std::string texts;
    std::string row;
    std::getline(rows, row);
    for (std::size_t i = 0; i < count && std::getline(rows, row); ++i) {
      std::vector<std::string> fields(1);
      for (const char c : row) {
        if (c == '\t') {
          fields.emplace_back();
        } else {
          fields.back() += c;
        }
      }
      for (std::size_t c = 0; c < columns.size(); ++c) {
        texts += (c > 0 ? "\t" : "") + fields.at(columns[c]);
      }
      texts += "\n";
    }
    return write("texts.txt", texts);
  }

  void expect_golden_logits(const std::string& name, const std::string& texts) {
    const Json results = json({"classify", model(name), "--texts", texts})["results"];
    const Json expected = golden(name)["first_logits"];
    ASSERT_EQ(results.size(), expected.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      expect_near(results[i]["logits"], expected[i], 1e-3);
    }
  }
};

TEST_F(TrainedEncoders, TasksOfGlue) {
  const std::string data = (kGlue / "SST-2/dev.tsv").string();
  const Json sst2 =
      json({"tasks", model("bert-7m-sst2"), "--task", "sst2", "--data", data})["tasks"][0];
  EXPECT_EQ(sst2["n"], 872);
  EXPECT_EQ(sst2["acc"], golden("bert-7m-sst2")["metric"]["accuracy"]);
  EXPECT_EQ(sst2["classes"], "ordered");
  const Json stsb = json({"tasks", model("bert-7m-stsb"), "--task", "stsb", "--data",
                          kGlue.string(), "--max-length", "96"})["tasks"][0];
  EXPECT_EQ(stsb["n"], 1500);
  // The golden values are of inputs of at most 96 tokens. The two that are longer count for 4e-5.
  EXPECT_EQ(stsb["truncated"], 2);
  const Json metric = golden("bert-7m-stsb")["metric"];
  EXPECT_NEAR(stsb["pearson"].get<double>(), metric["pearson"].get<double>(), 1e-4);
  EXPECT_NEAR(stsb["spearman"].get<double>(), metric["spearman"].get<double>(), 1e-4);
}

TEST_F(TrainedEncoders, TextsAndPairsAreClassified) {
  expect_golden_logits("bert-7m-sst2", write_texts("SST-2/dev.tsv", {0}, 8));
  expect_golden_logits("bert-7m-stsb", write_texts("STS-B/dev.tsv", {7, 8}, 8));
}

TEST_F(EncoderCommands, TasksThatDoNotFitAreRefused) {
  const std::string bert = kFamilies + "bert-texts";
  const std::string good = write("good.tsv", "sentence\tlabel\nt1 t2\t0\n");
  fails({"tasks", bert, "--task", "rte,piqa"}, 2, "call them apart");
  fails({"tasks", kDemo, "--task", "piqa", "--max-length", "9"}, 2, "--max-length");
  fails({"tasks", bert, "--task", "ss2t"}, 2, "did you mean 'sst2'");
  fails({"tasks", bert, "--task", "sst2", "--data", good, "-q"}, 2, "3 labels");
  fails({"tasks", bert, "--task", "sst2", "--data",
         write("bad.tsv", "sentence\tlabel\nt1\t0\nt2\t7\n"), "-q"},
        3, "bad.tsv, line 3");
  fails({"tasks", bert, "--task", "stsb", "--data",
         write("stsb.tsv", "sentence1\tsentence2\tscore\nt1\tt2\t0\n"), "-q"},
        2, "gives classes");
  fails({"tasks", bert, "--task", "rte", "--data", path("nowhere"), "-q"}, 5, "nowhere");
  fails({"tasks", kFamilies + "bert", "--task", "sst2", "--data", good, "-q"}, 2, "no head");
  fails({"tasks", kDemo, "--task", "sst2", "--data", good}, 2, "encoder");
}

TEST_F(EncoderCommands, TextsAreClassified) {
  const std::string bert = kFamilies + "bert-texts";
  const Single expected = single("bert-texts");
  const std::string texts = write("texts.txt", "t1 t2\r\n" + expected.line);
  const Json results = json({"classify", bert, "--texts", texts})["results"];
  ASSERT_EQ(results.size(), 2u);
  expect_near(results[1]["logits"], expected.numbers, 1e-4);
  EXPECT_EQ(results[1]["label"], "all");
  const ProcessResult table = nibble({"classify", bert, "--texts", "-"}, expected.line + "\n");
  EXPECT_NE(table.out.find("all"), std::string::npos) << table.out << table.err;
  EXPECT_NE(table.out.find(expected.line), std::string::npos) << table.out;
  fails({"classify", bert, "--texts", write("three.txt", "t1\tt2\nt1\tt2\tt3\n")}, 3, "line 2");
  fails({"classify", kFamilies + "bert", "--texts", texts}, 2, "no head");
}

TEST_F(EncoderCommands, TokensAreClassified) {
  const Single expected = single("bert-tokens");
  const std::string texts = write("texts.txt", expected.line + "\nt1 t2\n");
  const Json results = json({"classify", kFamilies + "bert-tokens", "--texts", texts})["results"];
  ASSERT_EQ(results.size(), 2u);
  ASSERT_EQ(results[0]["tokens"].size(), 1u);
  expect_near(results[0]["tokens"][0]["logits"], expected.numbers, 1e-4);
  ASSERT_EQ(results[1]["tokens"].size(), 2u);
  EXPECT_EQ(results[1]["tokens"][1]["token"], "t2");
}

TEST_F(EncoderCommands, LongTextsAreCutOrRefused) {
  std::string text = "t1\n";
  for (int i = 0; i < 50; ++i) {
    text += "t2 ";
  }
  const std::string texts = write("long.txt", text);
  const std::string bert = kFamilies + "bert-texts";
  const ProcessResult result = nibble({"classify", bert, "--texts", texts, "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("warning: 1 of 2 texts have more than 40 tokens"), std::string::npos)
      << result.err;
  EXPECT_EQ(core::parse_json(result.out, "output")["truncated"], 1);
  fails({"classify", bert, "--texts", texts, "--no-truncate", "-q"}, 1,
        "line 2: 50 tokens are more than the 40");
  fails({"classify", bert, "--texts", write("empty.txt", "t1\n\n"), "-q"}, 1,
        "line 2: the text has no token");
}

// A folder of sentence-transformers whose tokenizer puts [CLS] and [SEP] around a text: what
// remains of a long one is its beginning between them.
class SentenceFolder : public EncoderCommands {
 protected:
  void SetUp() override {
    Cli::SetUp();
    const std::string bert = kFamilies + "bert-texts";
    fs::create_directory(path("model"));
    for (const char* file : {"config.json", "model.safetensors"}) {
      fs::create_symlink(bert + "/" + file, path("model") + "/" + file);
    }
    Json tokenizer = core::parse_json(testing::read_file(bert + "/tokenizer.json"), "tokenizer");
    const auto special = [](const char* name, int id) {
      return Json{{"id", name}, {"ids", {id}}, {"tokens", {name}}};
    };
    const auto piece = [](const char* name) {
      return Json{{"SpecialToken", {{"id", name}, {"type_id", 0}}}};
    };
    const auto text = [](const char* name, int type) {
      return Json{{"Sequence", {{"id", name}, {"type_id", type}}}};
    };
    tokenizer["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single", {piece("t60"), text("A", 0), piece("t61")}},
        {"pair", {piece("t60"), text("A", 0), piece("t61"), text("B", 1), piece("t61")}},
        {"special_tokens", {{"t60", special("t60", 60)}, {"t61", special("t61", 61)}}}};
    write("model/tokenizer.json", tokenizer.dump());
    write("model/tokenizer_config.json", R"({"model_max_length": 6})");
    write("model/modules.json",
          R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
        {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}])");
    fs::create_directory(path("model/1_Pooling"));
    write("model/1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true})");
  }

  void say_length(const std::string& file, const std::string& value) const {
    write("model/" + file, R"({"max_seq_length": )" + value + R"(, "do_lower_case": false})");
  }
};

TEST_F(SentenceFolder, LongTextsAreCutToMaxSeqLength) {
  say_length("sentence_bert_config.json", "8");
  const std::string texts =
      write("texts.txt", "t1 t2 t3 t4 t5 t6\nt1 t2 t3 t4 t5 t6 t7 t8 t9\nt1 t2\n");
  const Json embedded = json({"embed", path("model"), "--texts", texts});
  EXPECT_EQ(embedded["truncated"], 1);
  EXPECT_EQ(embedded["embeddings"][1], embedded["embeddings"][0]);
  EXPECT_NE(embedded["embeddings"][2], embedded["embeddings"][0]);
  const Json labels = json({"classify", path("model"), "--texts", texts});
  EXPECT_EQ(labels["truncated"], 1);
  EXPECT_EQ(labels["results"][1], labels["results"][0]);
  const std::string pairs =
      write("pairs.txt", "t1 t2 t3 t4 t5\tt6 t7\nt1 t2 t3\tt6 t7\n");  // the longer loses its end
  const Json cut = json({"classify", path("model"), "--texts", pairs});
  EXPECT_EQ(cut["truncated"], 1);
  EXPECT_EQ(cut["results"][1], cut["results"][0]);
  fails({"embed", path("model"), "--texts", texts, "--no-truncate", "-q"}, 1,
        "11 tokens are more than the 8");
}

// It stands above the tokenizer's length and below the positions; a null says nothing.
TEST_F(SentenceFolder, MaxSeqLengthIsTakenFromWhereItStands) {
  std::string long_text;
  for (int i = 0; i < 60; ++i) {
    long_text += "t5 ";
  }
  const std::string texts = write("texts.txt", long_text + "\n");
  const auto expect_length = [&](int length) {
    fails({"embed", path("model"), "--texts", texts, "--no-truncate", "-q"}, 1,
          "62 tokens are more than the " + std::to_string(length));
  };
  expect_length(6);
  say_length("sentence_xlnet_config.json", "9");
  expect_length(9);
  say_length("sentence_bert_config.json", "5");
  expect_length(5);
  say_length("sentence_bert_config.json", "512");
  expect_length(40);
  say_length("sentence_bert_config.json", "null");
  expect_length(6);
  say_length("sentence_bert_config.json", "\"8\"");
  fails({"embed", path("model"), "--texts", texts, "-q"}, 3, "max_seq_length");
}

std::vector<float> numbers(const Json& list) {
  return list.get<std::vector<float>>();
}

double square(const std::vector<float>& row) {
  double sum = 0;
  for (const float value : row) {
    sum += static_cast<double>(value) * static_cast<double>(value);
  }
  return sum;
}

TEST_F(EncoderCommands, EmbeddingsAreTheSameHoweverTheyAreWritten) {
  const std::string bert = kFamilies + "bert";
  const Single expected = single("bert");
  const std::string texts = write("texts.txt", expected.line + "\nt4 t5 t6\nt7\tt8\n");
  const Json embeddings = json({"embed", bert, "--texts", texts})["embeddings"];
  ASSERT_EQ(embeddings.size(), 3u);
  expect_near(embeddings[0], expected.numbers, 1e-4);
  EXPECT_EQ(json({"embed", bert, "--texts", texts, "--batch", "1"})["embeddings"], embeddings);
  const Json first = json({"embed", bert, "--texts", texts, "--pooling", "first"})["embeddings"];
  EXPECT_EQ(first[0], embeddings[0]) << "of one token";
  EXPECT_NE(first[1], embeddings[1]);
  const ProcessResult lines = nibble({"embed", bert, "--texts", texts});
  EXPECT_NE(lines.err.find("does not say how it pools"), std::string::npos) << lines.err;
  const std::string line = lines.out.substr(0, lines.out.find('\n'));
  EXPECT_EQ(core::parse_json(line, "line")["embedding"], embeddings[0]);
  EXPECT_EQ(std::count(lines.out.begin(), lines.out.end(), '\n'), 3);
  for (const Json& row : json({"embed", bert, "--texts", texts, "--normalize"})["embeddings"]) {
    EXPECT_NEAR(square(numbers(row)), 1, 1e-5);
  }
}

TEST_F(EncoderCommands, EmbeddingsAreWrittenForNumPy) {
  constexpr std::size_t kWidth = 36;
  const std::string bert = kFamilies + "bert";
  const std::string texts = write("texts.txt", "t1\nt4 t5 t6\nt7\tt8\n");
  const Json written = json({"embed", bert, "--texts", texts, "-o", path("rows.npy")});
  EXPECT_EQ(written["rows"], 3);
  EXPECT_EQ(written["columns"], kWidth);
  const std::string file = testing::read_file(path("rows.npy"));
  ASSERT_EQ(file.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  ASSERT_EQ(file.size(), 128 + 3 * kWidth * sizeof(float));
  EXPECT_EQ(file.find("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 36), }"), 10u);
  EXPECT_EQ(file[8], 118);
  EXPECT_EQ(file[9], 0);
  EXPECT_EQ(file[127], '\n');
  std::vector<float> values(kWidth);
  std::memcpy(values.data(), file.data() + 128 + kWidth * sizeof(float), kWidth * sizeof(float));
  EXPECT_EQ(values, numbers(json({"embed", bert, "--texts", texts})["embeddings"][1]));
  fails({"embed", bert, "--texts", texts, "-o", path("rows.txt")}, 2, ".npy");
}

TEST_F(EncoderCommands, DecodersEmbedToo) {
  const std::string texts = write("texts.txt", "A library is\nThe sea\n");
  const Json embeddings = json({"embed", kDemo, "--texts", texts})["embeddings"];
  ASSERT_EQ(embeddings.size(), 2u);
  for (const Json& row : embeddings) {
    EXPECT_NEAR(square(numbers(row)), 1, 1e-5);
  }
  EXPECT_NE(embeddings[0], embeddings[1]);
  fails({"classify", kDemo, "--texts", texts}, 2, "no head");
  fails({"embed", kDemo, "--texts", texts, "--pooling", "max"}, 2, "--pooling");
  fails({"embed", kDemo, "--texts", path("nowhere")}, 5, "nowhere");
}

TEST_F(EncoderCommands, BenchTimesBatchesOfTexts) {
  const std::string bert = kFamilies + "bert";
  const Json pairs = json({"bench", bert, "--shapes", "1x4,3x8", "--quiet"})["rows"];
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[1]["batch"], 3);
  EXPECT_EQ(pairs[1]["seq"], 8);
  for (const Json& row : pairs) {
    EXPECT_EQ(row["phase"], "encode");
    const auto tokens = row["tokens"].get<double>();
    EXPECT_NEAR(row["tokens_per_s"].get<double>() * row["ms"].get<double>(), 1e3 * tokens,
                1e-2 * tokens);
    EXPECT_LE(row["ms"], row["p99_ms"]);
  }
  const Json all =
      json({"bench", bert, "--batch", "1,2", "--seq", "4,8", "--repeats", "1", "--quiet"})["rows"];
  EXPECT_EQ(all.size(), 4u);
  fails({"bench", bert, "--shapes", "8"}, 2, "TEXTSxTOKENS");
  fails({"bench", bert, "--shapes", "1x100000"}, 2, "100000");
  fails({"bench", bert, "--pp", "8"}, 2, "--pp");
  fails({"bench", kDemo, "--seq", "8"}, 2, "--seq");
}

}  // namespace
}  // namespace nibble
