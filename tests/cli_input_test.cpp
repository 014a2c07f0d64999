#include <map>
#include <sstream>

#include "cli_for_tests.h"

// Texts and models as users hand them over: pipes, standard input, wrong encodings, and what stays
// behind when a job is refused.
namespace nibble {
namespace {

class Input : public Cli {
 protected:
  // A call in a shell, with "nibble" for the program.
  ProcessResult shell(const std::string& script, const std::string& input = "") {
    const std::string function = "nibble() { " + program() + "\"$@\"; }\n";
    return testing::run_process({"bash", "-c", function + script}, folder_, input);
  }

  // As a shell reads it.
  static std::string program() {
    std::string words;
    for (const std::string& word : std::vector<std::string>{NIBBLE_PROGRAM}) {
      words += "'" + word + "' ";
    }
    return words;
  }

  // The prompt that a call took and the text that it wrote.
  Json prompt_of(const std::string& script, const std::string& input = "") {
    const ProcessResult result = shell(script, input);
    EXPECT_EQ(result.exit_code, 0) << script << "\n" << result.err;
    return result.exit_code == 0 ? core::parse_json(result.out, "output")["prompt"] : Json();
  }

  void leaves_nothing(const std::vector<std::string>& words, int code, const std::string& part) {
    fails(words, code, part);
    for (const auto& entry : fs::directory_iterator(folder_)) {
      EXPECT_EQ(entry.path().filename().string().find(".partial"), std::string::npos)
          << entry.path();
    }
  }
};

TEST_F(Input, APromptComesFromPipesAndStandardInput) {
  const std::string run = "nibble run " + kDemo + " -n 1 --json ";
  const std::string text = "The memory bus";
  EXPECT_EQ(prompt_of(run + "-p '" + text + "'"), text);
  EXPECT_EQ(prompt_of("echo '" + text + "' | " + run), text);
  EXPECT_EQ(prompt_of("echo '" + text + "' | " + run + "-f -"), text);
  EXPECT_EQ(prompt_of("echo '" + text + "' | " + run + "--file /dev/stdin"), text);
  EXPECT_EQ(prompt_of(run + "-f <(printf '" + text + "')"), text);
  EXPECT_EQ(prompt_of("mkfifo " + path("pipe") + "; echo '" + text + "' > " + path("pipe") + " & " +
                      run + "-f " + path("pipe")),
            text);
  EXPECT_EQ(prompt_of(run, text + "\n"), text) << "a redirected file";
  EXPECT_EQ(prompt_of(run, text + "\n\n"), text + "\n") << "one line break at the end is left out";
  EXPECT_EQ(prompt_of(run, text + "\r\n"), text);
  EXPECT_EQ(prompt_of(run + "-p 'x'", "not read"), "x");
  EXPECT_EQ(prompt_of(run + "-p 'x\n'"), "x\n") << "words of the call are taken as they are";
}

TEST_F(Input, WithoutAPromptItSaysSo) {
  fails({"run", kDemo}, 2, "the prompt is empty");  // an empty standard input
  fails({"run", kDemo, "-f", path("nowhere")}, 5, "nowhere");
  const ProcessResult closed = shell("nibble run " + kDemo + " <&-");
  EXPECT_EQ(closed.exit_code, 5);
  EXPECT_NE(closed.err.find("cannot read 'standard input': "), std::string::npos) << closed.err;
  fails({"run", kDemo, "-f", folder_.string()}, 5, "neither a file nor a pipe");
  const ProcessResult terminal =
      testing::run_process({"script", "-qec", program() + "run " + kDemo, "/dev/null"}, folder_);
  EXPECT_EQ(terminal.exit_code, 2) << terminal.out;
  EXPECT_NE(terminal.out.find("there is no prompt"), std::string::npos) << terminal.out;
  EXPECT_NE(terminal.out.find("| nibble run"), std::string::npos) << terminal.out;
}

TEST_F(Input, TextsComeFromPipesAndStandardInput) {
  const auto perplexity = [&](const std::string& script, const std::string& input = "") {
    const ProcessResult result = shell(script, input);
    EXPECT_EQ(result.exit_code, 0) << script << "\n" << result.err;
    return result.exit_code == 0 ? core::parse_json(result.out, "output")["nll"] : Json();
  };
  const std::string eval = "nibble eval " + kDemo + " --seq-len 64 --max-tokens 256 -q --json ";
  const Json expected = perplexity(eval + "--text " + kText);
  EXPECT_TRUE(expected.is_number());
  EXPECT_EQ(perplexity(eval + "--text <(cat " + kText + ")"), expected);
  EXPECT_EQ(perplexity("cat " + kText + " | " + eval + "--text -"), expected);
  const std::string quantize =
      "nibble quantize " + kDemo + " --recipe gptq-w4g128 --samples 2 --seq-len 64 -q --json ";
  const std::string half = path("half.txt");
  const std::string text = testing::read_file(kCalibration);
  std::ofstream(half) << text.substr(0, text.find('\n', text.size() / 2));
  for (const std::string& call :
       {quantize + "-o " + path("file") + " --calib " + kCalibration + " " + half,
        quantize + "-o " + path("pipe") + " --calib <(cat " + kCalibration + ") - <" + half}) {
    const ProcessResult result = shell(call);
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_EQ(folder_contents("pipe"), folder_contents("file"));
  const ProcessResult twice =
      shell("nibble compare " + kDemo + " --recipes rtn-w4g128 -q --calib - --text - < " + kText);
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_NE(twice.err.find("standard input holds no text"), std::string::npos) << twice.err;
}

TEST_F(Input, TextThatIsNotUtf8IsRefusedWithItsPlace) {
  const std::string wrong = path("latin1.txt");
  std::ofstream(wrong) << "Plain.\nA caf\xe9 in Paris.\n";
  const std::string place = "line 2 has the byte 0xe9 at offset 12";
  fails({"eval", kDemo, "--text", wrong}, 3, "latin1.txt' is not UTF-8: " + place);
  leaves_nothing({"quantize", kDemo, "-o", path("x"), "--recipe", "gptq-w4g128", "--calib", wrong},
                 3, place);
  fails({"compare", kDemo, "--recipes", "rtn-w4g128", "--text", wrong}, 3, place);
  fails({"inspect", kDemo, "--layer", "model.layers.0.mlp.down_proj", "--text", wrong}, 3, place);
  fails({"run", kDemo, "-f", wrong}, 3, place);
  fails({"run", kDemo, "-p", "caf\xe9"}, 2, "--prompt is not UTF-8: line 1 has the byte 0xe9");
  const ProcessResult piped = shell("nibble run " + kDemo, "caf\xe9");
  EXPECT_EQ(piped.exit_code, 3);
  EXPECT_NE(piped.err.find("standard input is not UTF-8"), std::string::npos) << piped.err;
}

TEST_F(Input, RefusedJobsLeaveNothingBehind) {
  const auto quantize = [&](const std::string& recipe, std::vector<std::string> more) {
    std::vector<std::string> words = {"quantize", kDemo, "-o", path("x"), "--recipe", recipe, "-q"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  for (const char* recipe : {"rtn-w4g128", "gptq-w4g128", "gptq-w4g128@3.5"}) {
    leaves_nothing(quantize(recipe, {"--calib", path("nosuch.txt")}), 5,
                   "cannot open '" + path("nosuch.txt") + "': No such file or directory");
  }
  std::ofstream(folder_ / "short.txt") << "Too short.";
  leaves_nothing(quantize("gptq-w4g128", {"--calib", path("short.txt")}), 2, "fewer than");
}

TEST_F(Input, AnUnsupportedFamilyIsRefusedBeforeWhatElseIsWrong) {
  for (const char* family : {"deberta", "t5", "mamba"}) {
    fs::remove_all(folder_ / "model");
    fs::create_directories(folder_ / "model");
    std::ofstream(folder_ / "model" / "config.json") << R"({"model_type": ")" << family << "\"}";
    fails({"inspect", path("model")}, 3, "model_type '" + std::string(family) + "'");
    std::ofstream(folder_ / "model" / "pytorch_model.bin") << "x";
    fails({"run", path("model"), "-p", "x"}, 3, "model_type '" + std::string(family) + "'");
  }
  std::ofstream(folder_ / "model" / "config.json")
      << R"({"model_type": "llama", "quantization_config": {"quant_method": "aqlm"}})";
  fails({"inspect", path("model")}, 3, "method 'aqlm'");
}

// What is not as the files have it is said by every command that opens the model.
TEST_F(Input, AModelOfAnotherToolIsOpenedLikeAnyOther) {
  const std::string exact = kSource + "/tests/exchange/gptq";
  const std::string rounded = kSource + "/tests/exchange/bnb-nf4";
  const Json inspected = json({"inspect", exact});
  EXPECT_EQ(inspected["recipe"], "gptq, 4 bits, groups of 32");
  EXPECT_EQ(inspected["not_as_stored"], Json::array());
  EXPECT_EQ(inspected["linear_layers"][0]["scheme"], "int4-asym-g32-order");
  EXPECT_NE(json({"inspect", rounded})["not_as_stored"].dump().find("float16"), std::string::npos);

  const ProcessResult run = nibble({"run", rounded, "-p", "t5 t9", "-n", "4"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.err.find("rounded to float16"), std::string::npos) << run.err;
  std::vector<std::string> words = {"run", exact, "-p", "t5 t9", "-n", "4", "--temp", "0"};
  const Json text = json(words)["text"];
  json({"pack", exact, "-o", path("tiles.nibble")});
  words.insert(words.end(), {"--packed", path("tiles.nibble")});
  EXPECT_EQ(json(words)["text"], text);
  fails({"quantize", exact, "-o", path("out"), "--recipe", "rtn-w4g32"}, 2, "start from the");
}

TEST_F(Input, ACompressedModelHasACardOfItsOwn) {
  const fs::path original = folder_ / "small-llama";
  fs::copy(kSource + "/tests/families/llama", original);
  std::ofstream(original / "README.md") << "---\nlicense: other\nlicense_name: tiny\n"
                                           "license_link: LICENSE\npipeline_tag: text-generation\n"
                                           "base_model: someone/parent\n---\n# The original\n";
  std::ofstream(original / "LICENSE") << "Terms.\n";
  json({"quantize", original.string(), "-o", path("out"), "--recipe", "gptq-w4g16", "--calib",
        kCalibration, "--samples", "3", "--seq-len", "16"});
  EXPECT_EQ(testing::read_file(folder_ / "out" / "LICENSE"), "Terms.\n");
  const std::string card = testing::read_file(folder_ / "out" / "README.md");
  EXPECT_EQ(card.find("# The original"), std::string::npos);
  EXPECT_TRUE(
      card.starts_with("---\nlicense: other\nlicense_name: tiny\nlicense_link: LICENSE\n"
                       "tags:\n- nibble\n- quantized\n---\n\n# small-llama, gptq-w4g16\n"))
      << card;
  const Json inspected = json({"inspect", path("out")});
  for (const std::string& part :
       {std::string("| recipe | `gptq-w4g16` |"), std::string("at most 3 windows of 16 tokens"),
        fmt::format("| bits per weight in the blocks | {:.3f} |",
                    inspected["bits_per_weight"].get<double>()),
        fmt::format("{:.2f} MB (was ", inspected["weight_bytes"].get<double>() / 1e6),
        std::string("Not measured yet"), std::string("nibble run FOLDER -p")}) {
    EXPECT_NE(card.find(part), std::string::npos) << part << " in\n" << card;
  }
}

TEST_F(Input, TheCardTellsTheMeasuredDamage) {
  const ProcessResult table =
      nibble({"compare", kDemo, "--recipes", "rtn-w4g128,w8a8", "--text", kText, "--seq-len", "64",
              "--max-tokens", "256", "--pp", "8", "--tg", "2", "-q", "--json"});
  ASSERT_EQ(table.exit_code, 0) << table.err;
  std::ofstream(folder_ / "damage.json") << table.out;
  const std::vector<std::string> quantize = {
      "quantize", kDemo, "-o", path("w8"), "--damage", path("damage.json"), "--recipe"};
  const auto with = [&](const std::string& recipe) {
    std::vector<std::string> words = quantize;
    words.push_back(recipe);
    return words;
  };
  leaves_nothing(with("nf4g64"), 2,
                 "says nothing of recipe 'nf4g64', only of original, rtn-w4g128");
  json(with("w8a8"));
  const Json rows = core::parse_json(table.out, "table")["rows"];
  const std::string card = testing::read_file(folder_ / "w8" / "README.md");
  const std::string expected =
      fmt::format("| perplexity | {:.4f} (was {:.4f}, ", rows[2]["perplexity"].get<double>(),
                  rows[0]["perplexity"].get<double>());
  EXPECT_NE(card.find(expected), std::string::npos) << card;
  EXPECT_NE(card.find("text `evaluation.txt`"), std::string::npos) << card;
  EXPECT_NE(card.find(fmt::format("{:.5f} nats", rows[2]["kl_divergence"].get<double>())),
            std::string::npos)
      << card;
}

// The calls of `nibble tasks` that the documentation and the help print, word for word.
TEST_F(Input, PrintedCallsOfTasksRun) {
  std::istringstream lines(testing::read_file(kSource + "/docs/cli.md") +
                           nibble({"tasks", "--help"}).out);
  int calls = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find("nibble tasks models/");
    if (at == std::string::npos || line.find_first_not_of(' ') != at) {
      continue;
    }
    ++calls;
    const ProcessResult result = shell("cd '" + kSource + "' && " + line + " -q");
    EXPECT_EQ(result.exit_code, 0) << line << "\n" << result.err;
    EXPECT_NE(result.out.find("piqa"), std::string::npos) << line << "\n" << result.out;
  }
  EXPECT_GE(calls, 3);
}

}  // namespace
}  // namespace nibble
