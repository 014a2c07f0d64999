#include <fmt/format.h>

#include "cli_for_tests.h"

// Encoder-decoders from the command line, against what transformers wrote (beams.json beside the
// models, golden.json of the trained one).
namespace nibble {
namespace {

const std::string kBart = kSource + "/tests/families/bart";
const fs::path kShared = kSource + "/../shared";

class TextToTextCommands : public Cli {
 protected:
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

  // A text of the tokenizer's words, "t5 t6".
  static std::string words(const Json& ids) {
    std::string text;
    for (const Json& id : ids) {
      text += fmt::format("{}t{}", text.empty() ? "" : " ", id.get<int>());
    }
    return text;
  }
};

// What the call says of a case of beams.json.
std::vector<std::string> arguments_of(const Json& options) {
  std::vector<std::string> call;
  const auto add = [&](const std::string& option, const std::string& value) {
    call.push_back(option);
    call.push_back(value);
  };
  for (const auto& [key, value] : options.items()) {
    if (key == "num_beams") {
      add("--beams", value.dump());
    } else if (key == "no_repeat_ngram_size") {
      add("--no-repeat-ngram", value.dump());
    } else if (key == "length_penalty") {
      add("--length-penalty", value.dump());
    } else if (key == "early_stopping") {
      add("--early-stopping", value == "never" ? "never" : "yes");
    } else if (key == "min_length") {
      add("--min-tokens", std::to_string(value.get<int>() - 1));
    } else if (key == "max_length") {
      add("-n", std::to_string(value.get<int>() - 1));
    }
  }
  return call;
}

TEST_F(TextToTextCommands, RunWritesAsTheCallSays) {
  const Json golden = core::parse_json(testing::read_file(kBart + "/beams.json"), "beams.json");
  fs::create_directory(path("model"));
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"}) {
    fs::create_symlink(kBart + "/" + file, path("model") + "/" + file);
  }
  const std::string source = words(golden["sources"][2]);
  int calls = 0;
  for (const Json& one : golden["cases"]) {
    const Json& options = one["options"];
    if (options.contains("forced_bos_token_id") || options.contains("decoder_start_token_id") ||
        options.contains("max_new_tokens")) {
      continue;
    }
    const Json settings = {{"decoder_start_token_id", 2},
                           {"eos_token_id", options.value("eos_token_id", Json(2))},
                           {"num_beams", 7},
                           {"do_sample", true}};
    write("model/generation_config.json", settings.dump());
    std::vector<std::string> call = {"run", path("model"), "--prompt", source};
    const auto said = arguments_of(options);
    call.insert(call.end(), said.begin(), said.end());
    const Json written = json(call);
    Json expected = one["texts"][2]["ids"];
    expected.erase(expected.begin());  // the start token
    EXPECT_EQ(written["token_ids"], expected) << one["name"];
    EXPECT_EQ(written["beams"], options["num_beams"]);
    EXPECT_EQ(written.contains("score"), options["num_beams"] > 1);
    EXPECT_EQ(written["prompt_tokens"], golden["sources"][2].size());
    ++calls;
  }
  EXPECT_EQ(calls, 17);
  fails({"run", path("model"), "--prompt", source}, 2, "do_sample");
}

// Draws differ with the seed alone; at temperature 0, or where one token is left, there are none.
TEST_F(TextToTextCommands, RunDrawsWhereItIsTold) {
  const std::vector<std::string> greedy = {"run", kBart, "-p", "t5 t9", "-n", "20"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), greedy.begin(), greedy.end());
    return json(more);
  };
  const Json likeliest = with({})["token_ids"];
  EXPECT_EQ(with({"--temp", "0"})["token_ids"], likeliest);
  EXPECT_EQ(with({"--top-k", "1"})["token_ids"], likeliest);
  const Json drawn = with({"--temp", "5", "--seed", "3"});
  EXPECT_EQ(drawn["seed"], 3);
  EXPECT_EQ(with({"--temp", "5", "--seed", "3"})["token_ids"], drawn["token_ids"]);
  EXPECT_NE(with({"--temp", "5", "--seed", "4"})["token_ids"], drawn["token_ids"]);
  EXPECT_NE(drawn["token_ids"], likeliest);
}

// A model that asks for draws has its own temperature, which a call may end.
TEST_F(TextToTextCommands, RunDrawsWhereTheModelSaysSo) {
  fs::create_directory(path("model"));
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"}) {
    fs::create_symlink(kBart + "/" + file, path("model") + "/" + file);
  }
  Json settings = {{"decoder_start_token_id", 2},
                   {"eos_token_id", 2},
                   {"do_sample", true},
                   {"temperature", 5.0}};
  write("model/generation_config.json", settings.dump());
  const std::vector<std::string> call = {"run", path("model"), "-p", "t5 t9", "-n", "20"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), call.begin(), call.end());
    return json(more);
  };
  const Json drawn = with({"--seed", "3"});
  EXPECT_EQ(with({"--seed", "3", "--temp", "5"})["token_ids"], drawn["token_ids"]);
  EXPECT_NE(with({"--seed", "4"})["token_ids"], drawn["token_ids"]);
  EXPECT_EQ(with({"--temp", "0"})["token_ids"], with({"--beams", "1"})["token_ids"]);
  settings["typical_p"] = 0.9;
  write("model/generation_config.json", settings.dump());
  fails(call, 2, "typical_p");
}

TEST_F(TextToTextCommands, RunReadsAPipe) {
  const Json told = json({"run", kBart, "-p", "t5 t9", "-n", "3"});
  EXPECT_EQ(told["completion_tokens"], 3);
  EXPECT_EQ(told["finish_reason"], "stop");  // the last token is forced to be one
  Json ids = told["token_ids"];
  ids.erase(ids.size() - 1);
  EXPECT_EQ(told["text"], words(ids));
  const ProcessResult piped = nibble({"run", kBart, "-n", "3"}, "t5 t9\n");
  EXPECT_EQ(piped.exit_code, 0) << piped.err;
  EXPECT_EQ(piped.out, told["text"].get<std::string>() + "\n");
  EXPECT_NE(piped.err.find("2 tokens read, 3 written"), std::string::npos) << piped.err;
}

TEST_F(TextToTextCommands, WhatMakesNoSenseIsRefused) {
  fails({"run", kBart, "-p", "t5", "--repeat-penalty", "2"}, 2, "--repeat-penalty is for models");
  fails({"run", kBart, "-p", "t5", "--temp", "0.5", "--beams", "2"}, 2, "--beams 2 is a search");
  fails({"run", kBart, "-p", "t5", "--seed", "1"}, 2, "draws no tokens");
  fails({"run", kBart, "-p", "t5", "--top-p", "0"}, 2, "top-p is 0");
  fails({"run", kBart, "-p", "t5", "--draft", "ngram"}, 2, "--draft");
  fails({"run", kBart, "-p", "t5", "--regex", "a"}, 2, "--regex");
  fails({"run", kBart, "-p", "t5", "--kv-type", "f16"}, 2, "--kv-type");
  fails({"run", kBart, "-p", "t5", "--beams", "0"}, 2, "0 beams");
  fails({"run", kBart, "-p", "t5", "-n", "41"}, 2, "positions for 1 to 40");
  fails({"run", kBart, "-p", "t5", "--target-language", "ro_RO"}, 2, "no codes of languages");
  fails({"run", kBart, "-p", "t5", "--source-language", "ro_RO"}, 2, "no codes of languages");
  fails({"run", kDemo, "-p", "a", "--beams", "2"}, 2, "--beams is for encoder-decoders");
  fails({"tasks", kDemo, "--task", "piqa", "--no-repeat-ngram", "2"}, 2, "is for --seq2seq");
  fails({"tasks", kDemo, "--task", "piqa", "-n", "2"}, 2, "--max-tokens");
  fails({"tasks", kBart}, 2, "--seq2seq FILE");
  const std::string pairs = write("pairs.tsv", "t5\tt6\n");
  fails({"tasks", kBart, "--seq2seq", pairs, "--task", "piqa"}, 2, "excludes");
  fails({"tasks", kDemo, "--seq2seq", pairs}, 2, "no encoder-decoder");
  fails({"tasks", kBart, "--seq2seq", write("bad.tsv", "t5\tt6\nt7\n"), "-q"}, 3,
        "bad.tsv', line 2");
}

TEST_F(TextToTextCommands, TasksMeasureWhatIsWritten) {
  const std::string right = json({"run", kBart, "-p", "t5 t6", "-n", "4"})["text"];
  const std::string pairs =
      write("pairs.tsv", "t5 t6\t" + right + "\nt5 t6\tt1\t" + right + "\nt5 t6\tt1\n");
  const std::string texts = path("written.txt");
  const Json result = json({"tasks", kBart, "--seq2seq", pairs, "-n", "4", "-o", texts});
  const Json& task = result["tasks"][0];
  EXPECT_EQ(task["task"], "pairs");
  EXPECT_EQ(task["n"], 3);
  EXPECT_DOUBLE_EQ(task["word_accuracy"].get<double>(), 2.0 / 3);
  EXPECT_EQ(testing::read_file(texts), right + "\n" + right + "\n" + right + "\n");
  const ProcessResult cut = nibble({"tasks", kBart, "--seq2seq", pairs, "-n", "4", "--max-length",
                                    "1", "--limit", "2", "--beams", "3"});
  EXPECT_EQ(cut.exit_code, 0) << cut.err;
  EXPECT_NE(cut.err.find("2 of 2 texts have more than 1 tokens"), std::string::npos) << cut.err;
  EXPECT_NE(cut.out.find("rougeL"), std::string::npos) << cut.out;
}

TEST_F(TextToTextCommands, WordsAreSpelled) {
  const std::string model = kShared / "models" / "bart-6x6-g2p";
  if (!fs::exists(model)) {
    GTEST_SKIP() << model << " is missing";
  }
  const Json golden = core::parse_json(testing::read_file(model + "/golden.json"), "golden.json");
  const std::string words = kShared / "data" / "g2p_dictionary" / "us_valid.tsv";
  const Json task = json({"tasks", model, "--seq2seq", words})["tasks"][0];
  EXPECT_EQ(task["word_accuracy"], golden["valid_greedy"]["word_accuracy"]);
  EXPECT_EQ(task["phoneme_error_rate"], golden["valid_greedy"]["phoneme_error_rate"]);
  EXPECT_EQ(nibble({"run", model, "--prompt", "dumbly"}).out, "dˈʌmbli\n");
}

}  // namespace
}  // namespace nibble
