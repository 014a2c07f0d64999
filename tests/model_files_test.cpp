#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include <gtest/gtest.h>

#include "core/json.h"
#include "core/random.h"
#include "core/temporary_folder_for_tests.h"
#include "models/model.h"

// Whole models whose files are cut short or damaged: always an Error of the right kind or a model,
// and never anything else. The sanitizer builds run it too.
namespace nibble {
namespace {

namespace fs = std::filesystem;

const fs::path kFamilies = fs::path(NIBBLE_SOURCE_DIR) / "tests" / "families";
const fs::path kForeign = fs::path(NIBBLE_SOURCE_DIR) / "tests" / "exchange";

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A copy of a small model that a test may damage.
class DamagedModel : public ::testing::Test {
 protected:
  void SetUp() override { fs::copy(kFamilies / "llama", folder_); }

  // Opens the model with other contents of one file.
  void try_open(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary | std::ios::trunc) << bytes;
    try {
      (void)models::open_model(folder_);
      ++opened_;
    } catch (const core::Error& error) {
      ++refused_;
      const std::string message = error.what();
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      EXPECT_TRUE(error.kind() == core::ErrorKind::kInvalidModel ||
                  error.kind() == core::ErrorKind::kIo)
          << message;
    }
  }

  void refuses(const std::string& name, const std::string& bytes, const std::string& part) {
    std::ofstream(folder_ / name, std::ios::binary | std::ios::trunc) << bytes;
    try {
      (void)models::open_model(folder_);
      ADD_FAILURE() << "opened with " << bytes.substr(0, 200);
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }

  void damage(const std::string& name, int flips, std::size_t prefix_step) {
    const std::string whole = read(folder_ / name);
    for (std::size_t length = 0; length < whole.size(); length += prefix_step) {
      try_open(name, whole.substr(0, length));
    }
    core::Random random(5);
    for (int i = 0; i < flips; ++i) {
      std::string bytes = whole;
      bytes[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(bytes.size())))] ^=
          static_cast<char>(1 + random.below(255));
      try_open(name, bytes);
    }
    EXPECT_GT(refused_, 0);
  }

  const core::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  int opened_ = 0;
  int refused_ = 0;
};

constexpr int kFlips = 10'000;
constexpr int kForeignFlips = 300;

TEST_F(DamagedModel, Config) {
  damage("config.json", kFlips, 1);
}
TEST_F(DamagedModel, Tokenizer) {
  damage("tokenizer.json", kFlips, 1);
}
TEST_F(DamagedModel, Weights) {
  damage("model.safetensors", kFlips, 37);
}

// Models that other tools compressed.
class DamagedForeignModel : public DamagedModel, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override { fs::copy(kForeign / GetParam(), folder_); }
};

TEST_P(DamagedForeignModel, Config) {
  damage("config.json", kForeignFlips, 29);
}
TEST_P(DamagedForeignModel, Weights) {
  damage("model.safetensors", kForeignFlips, 4001);
}

INSTANTIATE_TEST_SUITE_P(All, DamagedForeignModel,
                         testing::Values("gptq", "gptq-3", "awq", "ct-pack", "ct-int", "ct-fp8",
                                         "ct-nvfp4", "ct-mxfp4", "bnb-nf4", "bnb-fp4", "mlx"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Families whose config.json has lists and objects of its own.
class DamagedFamily : public DamagedModel, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override { fs::copy(kFamilies / GetParam(), folder_); }

  // Opens the model with each value of `part`, which stands in `whole`, replaced or left out.
  void replace_each(core::Json& whole, core::Json& part) {
    static const std::vector<core::Json> kWrong = {core::Json(),
                                                   -1,
                                                   0,
                                                   1,
                                                   3,
                                                   1'000'000'000'000,
                                                   1e-30,
                                                   1e300,
                                                   true,
                                                   "",
                                                   "full_attention",
                                                   core::Json::array(),
                                                   core::Json::array({1}),
                                                   core::Json::object()};
    const std::vector<std::string> keys = keys_of(part);
    for (const std::string& key : keys) {
      core::Json& value = part[key];
      if (value.is_object()) {
        replace_each(whole, value);
      }
      const core::Json good = value;
      for (const core::Json& wrong : kWrong) {
        part[key] = wrong;
        try_open("config.json", whole.dump());
      }
      part.erase(key);
      try_open("config.json", whole.dump());
      part[key] = good;
    }
  }

  static std::vector<std::string> keys_of(const core::Json& object) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : object.items()) {
      keys.push_back(key);
    }
    return keys;
  }
};

TEST_P(DamagedFamily, EveryFieldOfTheConfig) {
  core::Json config = core::parse_json(read(folder_ / "config.json"), "config.json");
  replace_each(config, config);
  EXPECT_GT(refused_, 100);
  EXPECT_GT(opened_, 100) << "fields that nothing reads";
}

INSTANTIATE_TEST_SUITE_P(All, DamagedFamily,
                         testing::Values("qwen3-moe", "phi3-long-rope", "gemma2", "gemma3"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_F(DamagedModel, ConfigValuesAreRefusedByName) {
  const core::Json good = core::parse_json(read(folder_ / "config.json"), "config.json");
  const auto with = [&](const char* key, const core::Json& value) {
    core::Json config = good;
    config[key] = value;
    return config.dump();
  };
  refuses("config.json", with("hidden_size", 0), "hidden_size");
  refuses("config.json", with("hidden_size", -1), "hidden_size");
  refuses("config.json", with("hidden_size", 1e12), "hidden_size");
  refuses("config.json", with("hidden_size", "32"), "hidden_size");
  refuses("config.json", with("num_hidden_layers", 1000000), "num_hidden_layers");
  refuses("config.json", with("num_key_value_heads", 3), "heads");
  refuses("config.json", with("model_type", "mamba"), "mamba");
  refuses("config.json", with("hidden_act", "tanhshrink"), "tanhshrink");
  refuses("config.json", with("rope_parameters", {{"rope_type", "dynamic"}}), "dynamic");
  refuses("config.json", with("rope_parameters", {{"rope_theta", -5}}), "rope_theta");
  refuses("config.json", with("rms_norm_eps", "x"), "rms_norm_eps");
  refuses("config.json", with("vocab_size", 1LL << 40), "vocab_size");
  refuses("config.json", with("eos_token_id", 64), "eos_token_id");
  refuses("config.json", with("sliding_window", 8), "sliding_window");
  refuses("config.json", with("quantization_config", {{"quant_method", "hqq"}}), "'hqq'");
  refuses("config.json", with("quantization_config", {{"quant_method", "gptq"}}), "'bits'");
  refuses("config.json",
          with("quantization_config", {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 32}}),
          "no layer of the model is compressed so");
  refuses("config.json",
          with("quantization_config", {{"quant_method", "nibble"},
                                       {"format_version", 1},
                                       {"recipe", "x"},
                                       {"layers", {{"model.layers.9.q", "int4-asym-g128"}}}}),
          "model.layers.9.q");
  refuses(
      "config.json",
      with("quantization_config", {{"quant_method", "nibble"},
                                   {"format_version", 1},
                                   {"recipe", "x"},
                                   {"layers", {{"model.layers.0.mlp.up_proj", "int5-asym-g128"}}}}),
      "int5");
}

}  // namespace
}  // namespace nibble
