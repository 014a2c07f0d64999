#include <sstream>

#include "cli_for_tests.h"

// Words that the program does not know, and what it says when it is asked.
namespace nibble {
namespace {

const std::vector<std::string> kCommands = {
    "quantize",      "tune",    "pack",    "eval",    "tasks",       "compare",
    "run",           "chat",    "serve",   "bench",   "bench-serve", "tune-kernels",
    "tune-strategy", "explain", "inspect", "analyze", "pull",        "manual"};

TEST_F(Cli, MistypedCommandsAndOptionsSuggestTheNearest) {
  fails({"quantise", kDemo}, 2, "did you mean 'quantize'?");
  fails({"evaluate", kDemo}, 2, "did you mean 'eval'?");
  fails({"fly"}, 2, "'fly' is not a command (commands are quantize,");
  fails({}, 2, "nibble --help");
  // Also where a mistyped option leaves a required one out.
  fails({"quantize", kDemo, "-o", path("x"), "--recpie", "rtn-w4g128"}, 2,
        "unknown option '--recpie'; did you mean '--recipe'? (see nibble quantize --help)");
  fails({"eval", kDemo, "--txt=" + kText}, 2, "unknown option '--txt'; did you mean '--text'?");
  fails({"run", kDemo, "-p", "x", "--gramar", "y"}, 2, "did you mean '--grammar'?");
  fails({"run", kDemo, "-p", "x", "--xyzzy"}, 2,
        "unknown option '--xyzzy' (see nibble run --help)");
  fails({"--verison"}, 2, "did you mean '--version'? (see nibble --help)");
  fails({"eval", kDemo, "again", "--text", kText}, 2, "'again' is one word too many");
  fails({"eval", kDemo}, 2, "--text is required (see nibble eval --help)");
}

TEST_F(Cli, MistypedNamesSuggestTheNearest) {
  const auto recipe = [&](const std::string& name) {
    return std::vector<std::string>{"quantize", kDemo, "-o", path("x"), "--recipe", name};
  };
  fails(recipe("gtpq-w4g128"), 2, "did you mean 'gptq-w4g128'?");
  fails(recipe("GPTQ-W4g64-serach"), 2, "did you mean 'gptq-w4g64-search'?");
  fails(recipe("gptq_w4g32@3.5"), 2, "did you mean 'gptq-w4g32'?");
  fails(recipe("hqq-w4g128"), 2, "nibble quantize --help lists");
  const auto own = [&](const std::string& json) {
    std::ofstream(folder_ / "own.json") << json;
    return recipe(path("own.json"));
  };
  fails(own(R"({"scheme": "int4-asym-g128", "passes": ["gtpq"]})"), 2, "did you mean 'gptq'?");
  fails(own(R"({"scheme": "int4-asym-g128", "pases": ["gptq"]})"), 2, "did you mean 'passes'?");
  fails(own(R"({"scheme": "int4-asym-g128", "passes": [{"pass": "gptq", "dmap": 0.1}]})"), 2,
        "did you mean 'damp'?");
  fails(own(R"({"scheme": "int4-asym-g128", "passes": ["rtn"],
                "layers": [{"match": "*.down_prj", "scheme": "f16"}]})"),
        2, "did you mean '*.down_proj'?");
  fails({"tasks", kDemo, "--task", "pica"}, 2, "did you mean 'piqa'?");
  fails({"inspect", kDemo, "model.layers.0.mlp.down_prj"}, 2,
        "did you mean 'model.layers.0.mlp.down_proj'?");
  fails({"inspect", kDemo, "model.norm.wieght"}, 2, "did you mean 'model.norm.weight'?");
  fails({"inspect", kDemo, "--layer", "model.layers.0.self_attn.qproj"}, 2,
        "did you mean 'model.layers.0.self_attn.q_proj'?");
  std::ofstream(folder_ / "serve.toml") << "max-bacth = 4\n";
  fails({"serve", kDemo, "--config", path("serve.toml")}, 2, "did you mean 'max-batch'?");
}

TEST_F(Cli, HelpAndVersion) {
  EXPECT_EQ(nibble({"--version"}).out.substr(0, 7), "nibble ");
  const ProcessResult all = nibble({"--help"});
  EXPECT_EQ(all.exit_code, 0);
  EXPECT_EQ(nibble({"help"}).out, all.out);
  EXPECT_EQ(nibble({"help", "--help"}).exit_code, 2);
  fails({"help", "rnu"}, 2, "did you mean 'run'?");
  for (const std::string& command : kCommands) {
    EXPECT_NE(all.out.find("  " + command + " "), std::string::npos) << command;
    const ProcessResult help = nibble({command, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_EQ(help.err, "");
    EXPECT_NE(help.out.find("Usage: nibble " + command + " "), std::string::npos) << help.out;
    EXPECT_NE(help.out.find("Examples:\n  nibble "), std::string::npos) << help.out;
    EXPECT_EQ(nibble({"help", command}).out, help.out);
    EXPECT_EQ(nibble({command, "-h"}).out, help.out);
  }
}

// What the parser's library says of types, ranges and choices is no help to anybody.
TEST_F(Cli, HelpHasNoArtefactsOfTheParser) {
  std::vector<std::string> pages = {nibble({"--help"}).out};
  for (const std::string& command : kCommands) {
    pages.push_back(nibble({command, "--help"}).out);
  }
  for (const std::string& page : pages) {
    for (const char* part :
         {"{false}", "{true}", "ENUM", "value in", " in [", " INT", " FLOAT", "->", "Excludes",
          "Needs", "REQUIRED", "[0]", "[[", "[]", "Positionals", "SUBCOMMAND", ":{", "Env:"}) {
      EXPECT_EQ(page.find(part), std::string::npos) << part << " in\n" << page;
    }
    std::istringstream lines(page.substr(0, page.find("Examples:")));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 80u) << line;
      EXPECT_FALSE(line.ends_with(' ')) << line;
    }
  }
  const std::string run = nibble({"run", "--help"}).out;
  EXPECT_NE(run.find("\n  -n, --max-tokens N      Tokens to generate at the most (default: 128)\n"),
            std::string::npos)
      << run;
  EXPECT_NE(run.find("Usage: nibble run MODEL [options]"), std::string::npos) << run;
}

}  // namespace
}  // namespace nibble
