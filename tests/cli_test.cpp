#include <algorithm>
#include <cmath>

#include "cli_for_tests.h"

// The program as a user runs it: words of the call, exit codes, JSON contracts, interruptions.
namespace nibble {
namespace {

TEST_F(Cli, WrongWordsExitWithTwo) {
  fails({"quantize", kDemo, "-o", path("x"), "--recipe", "hqq-w4g128"}, 2,
        "'hqq-w4g128' is not known");
  for (const char* size : {"12x", "-1G", "0", "6 GiB"}) {
    fails({"quantize", kDemo, "-o", path("x"), "--recipe", "rtn-w4g128", "--memory", size}, 2,
          "--memory");
  }
  fails({"run", kDemo, "-p", "x", "--lora-scale", "2"}, 2, "--lora");
  fails({"run", kDemo, "-p", "x", "--lora", path("nowhere")}, 5, "adapter_config.json");
  fails({"quantize", kDemo, "-o", path("x"), "--recipe", "rtn-w4g128", "--merge-lora",
         path("nowhere")},
        5, "adapter_config.json");
  fails({"run", kDemo, "-p", ""}, 2, "prompt");
  fails({"run", kDemo, "-p", "x", "--temp", "-1"}, 2, "temperature");
  fails({"run", kDemo, "-p", "x", "--device", "cuda"}, 2, "device");
  fails({"run", kDemo, "-p", "x", "--schedules", "none"}, 2, "--schedules");
  fails({"eval", kDemo, "--text", kText, "--seq-len", "100000"}, 2, "seq-len");
  fails({"chat", kDemo}, 2, "chat template");
  fails({"inspect", kDemo, "no.such.tensor"}, 2, "no.such.tensor");
}

TEST_F(Cli, KernelsAreTunedOnAGpuOnly) {
  fails({"tune-kernels", kDemo, "--device", "cpu"}, 2, "--device cuda");
  fails({"tune-kernels", kDemo, "--device", "tpu"}, 2, "tpu");
  fails({"tune-kernels", kDemo, "--check", "-o", path("x.json")}, 2, "--check");
  fails({"tune-kernels", kDemo, "-o", "none"}, 2, "-o");
  for (const std::vector<std::string>& where :
       {std::vector<std::string>{"NIBBLE_SCHEDULES=none"},
        {"-u", "NIBBLE_SCHEDULES", "-u", "HOME", "-u", "XDG_CACHE_HOME"},
        {"-u", "NIBBLE_SCHEDULES", "-u", "HOME", "XDG_CACHE_HOME=not/absolute"}}) {
    std::vector<std::string> words = {"env"};
    words.insert(words.end(), where.begin(), where.end());
    words.insert(words.end(), {NIBBLE_PROGRAM, "tune-kernels", kDemo});
    const ProcessResult result = testing::run_process(words, folder_);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_NE(result.err.find("no place to write"), std::string::npos) << result.err;
  }
  fails({"tune-kernels", path("nowhere"), "-o", path("x.json")}, 5, "nowhere");
  // There is no GPU.
  fails({"tune-kernels", kDemo, "--device", "cuda", "-o", path("x.json")}, 2, "error");
  EXPECT_FALSE(fs::exists(path("x.json")));
}

TEST_F(Cli, KernelsAreExplained) {
  const Json result = json({"explain", kDemo, "--tokens", "1,512"});
  EXPECT_EQ(result["model"], kDemo);
  EXPECT_EQ(result["layers"][0]["name"], "layers 0-5 q_proj|k_proj|v_proj");
  EXPECT_EQ(result["layers"][0]["runs"][1]["tokens"], 512);
  const std::string kernel = result["layers"][0]["runs"][1]["kernel"];
  EXPECT_TRUE(kernel == "dense" || kernel == "dense-amxbf16") << kernel;
  const ProcessResult text = nibble({"explain", kDemo, "--layer", "model.layers.0.mlp.down_proj"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("decoded: weights are dense"), std::string::npos) << text.out;
  fails({"explain", kDemo, "--layer", "model.layers.0.mlp.down"}, 2, "did you mean");
  fails({"explain", kDemo, "--tokens", "0"}, 2, "0 tokens");
  fails({"explain", kDemo, "--device", "cuda", "--measure"}, 2, "tune-kernels");
  fails({"explain", kDemo, "--device", "cuda"}, 2, "use --device cpu");  // there is no GPU
  fails({"explain", kDemo, "--schedules", "none"}, 2, "--device cuda");
}

TEST_F(Cli, AdaptersRunBesideAndMerged) {
  const std::string model = kSource + "/tests/families/gpt2";
  const std::string adapter = model + "/lora";
  const std::string text = path("text.txt");
  std::ofstream file(text);
  for (int i = 0; i < 300; ++i) {
    file << "t" << i * 7 % 61 << " ";
  }
  file.close();
  const auto nll = [&](const std::string& of, std::vector<std::string> more) {
    std::vector<std::string> words = {"eval", of, "--text", text, "--seq-len", "32"};
    words.insert(words.end(), more.begin(), more.end());
    return json(words)["nll"].get<double>();
  };
  const double plain = nll(model, {});
  const double beside = nll(model, {"--lora", adapter});
  EXPECT_GT(std::fabs(beside - plain), 0.02);
  EXPECT_EQ(nll(model, {"--lora", adapter, "--lora-scale", "0"}), plain);
  EXPECT_NE(nll(model, {"--lora", adapter, "--lora-scale", "0.5"}), beside);
  json({"quantize", model, "-o", path("merged"), "--recipe", "rtn-w8g16", "--merge-lora", adapter});
  EXPECT_NEAR(nll(path("merged"), {}), beside, 0.2 * std::fabs(beside - plain));
  fails({"quantize", path("merged"), "-o", path("again"), "--recipe", "rtn-w4g16", "--merge-lora",
         adapter},
        2, "chosen again");

  const std::vector<std::string> compare = {
      "compare", model, "--text", text,    "--seq-len",    "32",  "--pp",     "8",
      "--tg",    "4",   "--lora", adapter, "--lora-scale", "0.5", "--recipes"};
  const auto with_recipes = [&](const std::string& recipes) {
    std::vector<std::string> words = compare;
    words.push_back(recipes);
    return words;
  };
  const Json rows = json(with_recipes("rtn-w8g16"))["rows"];
  json({"quantize", model, "-o", path("packed"), "--recipe", "rtn-w8g16"});
  const std::vector<std::string> half = {"--lora", adapter, "--lora-scale", "0.5"};
  EXPECT_NEAR(std::log(rows[0]["perplexity"].get<double>()), nll(model, half), 1e-9);
  EXPECT_NEAR(std::log(rows[1]["perplexity"].get<double>()), nll(path("packed"), half), 1e-9);
  EXPECT_NE(nll(path("packed"), half), nll(path("packed"), {}));
  fails(with_recipes("rtn-w8g16,awq-w4g16"), 2, "does not fit");
}

// FP8 weights are read as they are stored, by any number of threads with the same tokens.
TEST_F(Cli, Fp8ModelsRun) {
  for (const std::string recipe : {"fp8", "fp8-tensor", "fp8-w8a8"}) {
    const std::string model = path(recipe);
    json({"quantize", kDemo, "-o", model, "--recipe", recipe});
    const auto tokens = [&](const std::string& threads) {
      return json({"run", model, "-p", "A library is", "-n", "12", "--temp", "0", "--threads",
                   threads})["token_ids"];
    };
    const Json alone = tokens("1");
    EXPECT_EQ(alone.size(), 12u) << recipe;
    EXPECT_EQ(tokens("2"), alone) << recipe;
    fails({"pack", model}, 2, "nothing to pack");
  }
}

TEST_F(Cli, PackStoresTheLayoutsThatModelsStartFrom) {
  const std::string model = path("w4");
  json({"quantize", kDemo, "-o", model, "--recipe", "rtn-w4g32"});
  const auto tokens = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"run", model, "-p",     "A library is",
                                      "-n",  "12",  "--temp", "0"};
    words.insert(words.end(), more.begin(), more.end());
    return json(words)["token_ids"];
  };
  const Json expected = tokens({});
  const std::string beside = path("elsewhere.nibble");
  EXPECT_EQ(json({"pack", model, "-o", beside})["output"], beside);
  EXPECT_EQ(tokens({"--packed", beside}), expected);
  const Json packed = json({"pack", model});
  const fs::path file = fs::path(model) / "cpu-tiles.nibble";
  EXPECT_EQ(packed["output"], file.string());
  EXPECT_EQ(packed["bytes"], fs::file_size(file));
  EXPECT_GT(packed["layers"], 0);
  EXPECT_EQ(testing::read_file(file), testing::read_file(beside));
  EXPECT_EQ(tokens({}), expected);
  EXPECT_EQ(tokens({"--threads", "1"}), expected);

  fails({"pack", kDemo}, 2, "nothing to pack");
  fails({"inspect", file.string()}, 2, "--packed");
  fails({"run", model, "-p", "x", "--packed", path("nowhere")}, 5, "nowhere");
  fails({"run", kDemo, "-p", "x", "--packed", beside}, 2, "no layers that are packed");
  fs::path shard;
  for (const auto& entry : fs::directory_iterator(model)) {
    shard = entry.path().extension() == ".safetensors" ? entry.path() : shard;
  }
  const std::string weights = testing::read_file(shard);
  fails({"pack", model, "-o", shard.string()}, 2, "no file of nibble pack");
  EXPECT_TRUE(testing::read_file(shard) == weights);
  fails({"run", model, "-p", "x", "--packed", shard.string()}, 6, "no file of nibble pack");
  std::fstream stream(shard, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekg(-1, std::ios::end);
  const char last = static_cast<char>(stream.get() ^ 1);
  stream.seekp(-1, std::ios::end).put(last).flush();
  fails({"run", model, "-p", "x"}, 6, "nibble pack");
  fails({"eval", model, "--text", kText}, 6, file.string());
  json({"pack", model});
  const Json of_tiles = tokens({});
  fs::remove(file);
  EXPECT_EQ(of_tiles, tokens({}));

  const std::string dense = path("dense");
  fs::copy(kSource + "/tests/families/llama", dense, fs::copy_options::recursive);
  fs::copy_file(beside, fs::path(dense) / "cpu-tiles.nibble");
  json({"quantize", dense, "-o", path("fresh"), "--recipe", "rtn-w4g16"});
  EXPECT_FALSE(fs::exists(folder_ / "fresh" / "cpu-tiles.nibble"));
}

TEST_F(Cli, MissingAndMalformedFiles) {
  fails({"inspect", path("nowhere")}, 5, "nowhere");
  fails({"eval", kDemo, "--text", path("nowhere.txt")}, 5, "nowhere.txt");
  fs::create_directories(folder_ / "empty");
  fails({"inspect", path("empty")}, 5, "config.json");
  std::ofstream(folder_ / "noise.gguf") << "GGUFnoise";
  fails({"inspect", path("noise.gguf")}, 3, "noise.gguf");
  fs::create_directories(folder_ / "pickle");
  fs::copy(kDemo + "/config.json", folder_ / "pickle");
  std::ofstream(folder_ / "pickle" / "pytorch_model.bin") << "x";
  fails({"inspect", path("pickle")}, 3, "safetensors");
}

TEST_F(Cli, EvalKeepsItsContract) {
  const Json result =
      json({"eval", kDemo, "--text", kText, "--seq-len", "256", "--max-tokens", "1024"});
  EXPECT_EQ(result["tokens"], 4 * 255);
  EXPECT_NEAR(std::exp(result["nll"].get<double>()), result["perplexity"].get<double>(), 1e-6);
  for (const char* key : {"model", "recipe", "bits_per_weight", "weight_bytes", "seconds"}) {
    EXPECT_TRUE(result.contains(key)) << key;
  }
  const ProcessResult worse =
      nibble({"eval", kDemo, "--text", kText, "--seq-len", "256", "--max-tokens", "512", "-q",
              "--json", "--max-perplexity", "1.5"});
  EXPECT_EQ(worse.exit_code, 7);
  EXPECT_NE(worse.out.find("perplexity"), std::string::npos) << "the figure is shown all the same";
  EXPECT_NE(worse.err.find("larger than"), std::string::npos);
}

TEST_F(Cli, EvalAgainstItselfShowsNoDivergence) {
  const Json result = json({"eval", kDemo, "--text", kText, "--seq-len", "256", "--max-tokens",
                            "512", "--reference", kDemo});
  EXPECT_NEAR(result["kl_divergence"].get<double>(), 0.0, 1e-9);
  EXPECT_EQ(result["top1_agreement"], 1.0);
  EXPECT_EQ(result["nll_increase"], 0.0);
  EXPECT_EQ(result["nll_increase_standard_error"], 0.0);
  for (const char* key : {"kl_divergence_standard_error", "kl_divergence_window_standard_error",
                          "kl_divergence_median", "kl_divergence_median_interval",
                          "kl_divergence_p999", "kl_divergence_p999_interval",
                          "top1_agreement_standard_error", "nll_increase_window_standard_error"}) {
    EXPECT_TRUE(result.contains(key)) << key;
  }
}

TEST_F(Cli, TasksKeepTheirContract) {
  const std::string data = kSource + "/tests/data/tasks";
  const Json result =
      json({"tasks", kDemo, "--task", "piqa,blimp,lambada_openai,piqa", "--data", data});
  EXPECT_EQ(result["recipe"], "none");
  ASSERT_EQ(result["tasks"].size(), 3u) << "each task once";
  const Json& piqa = result["tasks"][0];
  EXPECT_EQ(piqa["task"], "piqa");
  EXPECT_EQ(piqa["n"], 4);
  for (const char* key : {"acc", "acc_stderr", "acc_norm", "acc_norm_stderr", "seconds"}) {
    EXPECT_TRUE(piqa.contains(key)) << key;
  }
  const Json& blimp = result["tasks"][1];
  EXPECT_EQ(blimp["n"], 7);
  ASSERT_EQ(blimp["parts"].size(), 2u);
  EXPECT_EQ(blimp["parts"][0]["task"], "blimp_agreement");
  EXPECT_FALSE(blimp.contains("acc_norm"));
  EXPECT_TRUE(result["tasks"][2].contains("perplexity"));
  const ProcessResult all =
      nibble({"tasks", kDemo, "--task", "all", "--data", data, "--limit", "1", "-q"});
  EXPECT_EQ(all.exit_code, 0) << all.err;
  EXPECT_EQ(std::count(all.out.begin(), all.out.end(), '\n'), 11) << "ten tasks and the head";
}

TEST_F(Cli, TasksThatCannotBeScored) {
  fails({"tasks", kDemo, "--task", "piqa,mmlu"}, 2, "'mmlu' is not known (tasks are arc_easy,");
  fails({"tasks", kDemo, "--task", "piqa", "--limit", "0"}, 2, "--limit");
  fails({"tasks", kDemo, "--task", "piqa", "--data", path("nowhere"), "-q"}, 5, "piqa.jsonl");
  std::ofstream(folder_ / "piqa.jsonl") << R"({"query":"a","choices":["b","c"],"gold":1})"
                                        << "\n{\"query\":\"cut of";
  fails({"tasks", kDemo, "--task", "piqa", "--data", folder_.string(), "-q"}, 3,
        "piqa.jsonl, line 2");
}

TEST_F(Cli, QuantizeThenUse) {
  const std::string small = path("small");
  const Json written = json({"quantize", kDemo, "-o", small, "--recipe", "rtn-w4g128"});
  EXPECT_NEAR(written["bits_per_weight"].get<double>(), 4.0 + 20.0 / 128, 0.03);
  const Json inspected = json({"inspect", small});
  EXPECT_EQ(inspected["recipe"], "rtn-w4g128");
  EXPECT_EQ(inspected["linear_layers"][0]["scheme"], "int4-asym-g128");
  const Json measured = json({"eval", small, "--text", kText, "--seq-len", "256", "--max-tokens",
                              "1024", "--reference", kDemo});
  EXPECT_GT(measured["kl_divergence"].get<double>(), 1e-4);
  EXPECT_LT(measured["kl_divergence"].get<double>(), 0.2);
  fails({"quantize", kDemo, "-o", small, "--recipe", "rtn-w4g128"}, 5, "exists");
  fails({"quantize", small, "-o", path("again"), "--recipe", "rtn-w4g128"}, 2,
        "already compressed");
}

TEST_F(Cli, QuantizeRoundsTheOutputLayerByItsScheme) {
  const std::string plain = path("plain");
  const std::string small = path("small");
  const Json without = json({"quantize", kDemo, "-o", plain, "--recipe", "rtn-w4g128"});
  const Json with = json({"quantize", kDemo, "-o", small, "--recipe", "rtn-w4g128",
                          "--output-scheme", "int8-sym-g32"});
  EXPECT_EQ(with["recipe"], "rtn-w4g128 (output int8-sym-g32)");
  EXPECT_EQ(with["bits_per_weight"], without["bits_per_weight"]);
  // 8192 rows of 256 codes and 8 scales, beside the embedding that they were.
  constexpr std::int64_t kStored = 8192 * (256 + 8 * 2);
  EXPECT_EQ(with["weight_bytes"].get<std::int64_t>(),
            without["weight_bytes"].get<std::int64_t>() + kStored);
  const Json layers = json({"inspect", small})["linear_layers"];
  EXPECT_EQ(layers.back()["name"], "lm_head");
  EXPECT_EQ(layers.back()["scheme"], "int8-sym-g32");
  EXPECT_EQ(layers.back()["bytes"], kStored);
  EXPECT_EQ(json({"inspect", plain})["linear_layers"].size() + 1, layers.size());
  EXPECT_EQ(json({"inspect", small, "--layer", "lm_head"})["codes"].size(), 256u);

  const auto bytes_per_token = [&](const std::string& model) {
    const Json rows = json({"bench", model, "--pp", "0", "--tg", "2", "--repeats", "1"})["rows"];
    return rows[0]["bytes_per_token"].get<std::int64_t>();
  };
  EXPECT_EQ(bytes_per_token(plain) - bytes_per_token(small), 8192 * 256 * 2 - kStored);

  const auto perplexity = [&](const std::string& model) {
    return json({"eval", model, "--text", kText, "--seq-len", "256", "--max-tokens",
                 "2048"})["perplexity"]
        .get<double>();
  };
  EXPECT_NEAR(perplexity(small) / perplexity(plain), 1.0, 0.002);
  fails({"quantize", kDemo, "-o", path("no"), "--recipe", "rtn-w4g128", "--output-scheme", "int9"},
        2, "int9");
  fails({"quantize", kDemo, "-o", path("no"), "--recipe", "rtn-w4g128", "--output-scheme",
         "int4-sym-g128-h128"},
        2, "without -h and -tail");
}

TEST_F(Cli, CompareKeepsItsContract) {
  const Json result = json({"compare",      kDemo,
                            "--recipes",    "w8a8,nf4g64",
                            "--text",       kText,
                            "--seq-len",    "256",
                            "--max-tokens", "512",
                            "--pp",         "32",
                            "--tg",         "8",
                            "--layers",     "2",
                            "--html",       path("damage.html"),
                            "--plot",       path("damage.svg")});
  ASSERT_EQ(result["rows"].size(), 3u);
  for (const Json& row : result["rows"]) {
    for (const char* key : {"recipe", "perplexity", "bits_per_weight", "weight_bytes", "peak_bytes",
                            "prefill_tokens_per_s", "decode_tokens_per_s"}) {
      EXPECT_TRUE(row.contains(key)) << key;
    }
  }
  EXPECT_EQ(result["rows"][1]["recipe"], "w8a8");
  EXPECT_TRUE(result["rows"][0]["layers"].empty());
  const Json& nf4 = result["rows"][2];
  ASSERT_EQ(nf4["layers"].size(), 2u);
  EXPECT_GE(nf4["layers"][0]["relative_error"], nf4["layers"][1]["relative_error"]);
  EXPECT_GT(nf4["layers"][1]["relative_error"].get<double>(), 1e-3);
  EXPECT_GT(nf4["kl_divergence_p999"], nf4["kl_divergence_median"]);
  EXPECT_NEAR(nf4["increase"].get<double>(),
              nf4["perplexity"].get<double>() / result["rows"][0]["perplexity"].get<double>() - 1,
              1e-6);
  EXPECT_GT(nf4["increase_standard_error"].get<double>(), 0.0);
  const std::string page = testing::read_file(folder_ / "damage.html");
  for (const char* part : {">nf4g64<", "class=\"front\"", "Layers of w8a8",
                           "model.layers.0.self_attn.q_proj", "Without a place on the axes"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  const std::string plot = testing::read_file(folder_ / "damage.svg");
  EXPECT_EQ(plot.find("<svg xmlns="), 0u);
  EXPECT_NE(plot.find(">nf4g64<"), std::string::npos);
  fails({"compare", kDemo, "--recipes", "w8a8", "--text", kText, "--plot", path("damage.html")}, 2,
        "damage.html is there and is no drawing; choose another name with --plot");
}

TEST_F(Cli, InspectShowsALayer) {
  const std::string layer = "model.layers.2.mlp.down_proj";
  const std::string small = path("small");
  json({"quantize", kDemo, "-o", small, "--recipe", "nf4g64"});
  const Json coded = json({"inspect", small, "--layer", layer, "--text", kText, "--seq-len", "128",
                           "--max-tokens", "256", "-q"});
  ASSERT_EQ(coded["codes"].size(), 16u);
  std::int64_t weights = 0;
  for (const Json& code : coded["codes"]) {
    weights += code["count"].get<std::int64_t>();
  }
  EXPECT_EQ(weights, coded["shape"][0].get<std::int64_t>() * coded["shape"][1].get<std::int64_t>());
  EXPECT_GT(coded["code_entropy"].get<double>(), 3.5);
  EXPECT_EQ(coded["activations"]["tokens"], 256);
  const Json dense = json({"inspect", kDemo, "--layer", layer});
  EXPECT_FALSE(dense.contains("codes"));
  EXPECT_FALSE(dense.contains("activations"));

  const ProcessResult text = nibble({"inspect", small, "--layer", layer});
  EXPECT_NE(text.out.find("value / scale"), std::string::npos) << text.out;
  nibble({"inspect", small, "--layer", layer, "--text", kText, "-q", "--html", path("layer.html")});
  const std::string page = testing::read_file(folder_ / "layer.html");
  for (const char* part : {"class=\"mark\"", "How often each code", "Inputs of model.layers.2"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  fails({"inspect", kDemo, "--layer", "no.such.layer"}, 2, "no.such.layer");
  fails({"inspect", kDemo, "--text", kText}, 2, "--layer");
}

TEST_F(Cli, RunKeepsItsContract) {
  const Json result = json({"run", kDemo, "-p", "The memory bus", "-n", "12", "--temp", "0"});
  EXPECT_EQ(result["prompt"], "The memory bus");
  EXPECT_EQ(result["completion_tokens"], 12);
  EXPECT_EQ(result["token_ids"].size(), 12u);
  EXPECT_EQ(result["finish_reason"], "length");
  const ProcessResult streamed =
      nibble({"run", kDemo, "-p", "The memory bus", "-n", "12", "--temp", "0", "-q"});
  EXPECT_EQ(streamed.out, "The memory bus" + result["text"].get<std::string>() + "\n");
}

TEST_F(Cli, TokensAreTheSameForThreadsAndBatches) {
  json({"quantize", kDemo, "-o", path("small"), "--recipe", "rtn-w4g128"});
  for (const std::string& model : {kDemo, path("small")}) {
    const std::vector<std::string> call = {"run", model, "-p",     "The history of the",
                                           "-n",  "24",  "--temp", "0"};
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.begin(), call.begin(), call.end());
      return json(more);
    };
    const Json one = with({"--threads", "1"});
    EXPECT_EQ(with({"--threads", "2"})["token_ids"], one["token_ids"]);
    for (const Json& choice : with({"--threads", "2", "--copies", "4"})["choices"]) {
      EXPECT_EQ(choice["token_ids"], one["token_ids"]);
    }
  }
}

TEST_F(Cli, ChatAnswersWithATemplate) {
  std::ofstream(folder_ / "chat.jinja")
      << "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:";
  const ProcessResult result =
      nibble({"chat", kDemo, "--template", path("chat.jinja"), "-n", "8", "--temp", "0", "-q"},
             "Hello\nAnd now?\n\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_GE(std::count(result.out.begin(), result.out.end(), '\n'), 2);
}

TEST_F(Cli, BenchKeepsItsContract) {
  const Json result =
      json({"bench", kDemo, "--pp", "32", "--tg", "8", "--batch", "1,2", "--repeats", "1"});
  ASSERT_EQ(result["rows"].size(), 3u);
  EXPECT_EQ(result["rows"][0]["phase"], "prefill");
  for (const Json& row : result["rows"]) {
    for (const char* key : {"batch", "tokens", "tokens_per_s", "bytes_per_token",
                            "limit_tokens_per_s", "share_of_limit"}) {
      EXPECT_TRUE(row.contains(key)) << key;
    }
  }
}

TEST_F(Cli, KilledAtAnyMomentItResumesToTheSameBytes) {
  const auto call = [&](const std::string& output) {
    return std::vector<std::string>{NIBBLE_PROGRAM, "quantize",  kDemo,         "-o",
                                    output,         "--recipe",  "gptq-w4g128", "--calib",
                                    kCalibration,   "--samples", "8",           "--seq-len",
                                    "256",          "-q",        "--resume"};
  };
  ASSERT_EQ(testing::run_process(call(path("whole")), folder_).exit_code, 0);
  const auto expected = folder_contents("whole");
  const fs::path killed = folder_ / "killed";
  for (const int first : {5, 40, 150}) {
    for (int delay = first; !fs::exists(killed); delay += 120) {  // each try goes a little further
      testing::run_process(call(killed.string()), folder_, "", std::chrono::milliseconds(delay));
    }
    EXPECT_EQ(folder_contents("killed"), expected);
    fs::remove_all(killed);
  }
}

}  // namespace
}  // namespace nibble
