#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>

#include "compress/pipeline/pipeline.h"
#include "core/json.h"
#include "core/temporary_folder_for_tests.h"
#include "engine/fixed_sequences.h"
#include "engine/runner.h"
#include "io/safetensors.h"
#include "models/lora/lora_adapter.h"

// Adapters beside the weights and merged into them, against PEFT, which computed the golden values
// (tests/reference/make_lora.py).
namespace nibble {
namespace {

namespace fs = std::filesystem;
using core::Json;
using core::Tensor;
using models::LoraAdapter;
using models::Model;

const fs::path kSource = NIBBLE_SOURCE_DIR;
const fs::path kFamilies = kSource / "tests" / "families";
constexpr const char* kFamiliesWithAdapters[] = {"llama", "gpt2"};

using Rows = std::vector<std::vector<float>>;

Json goldens(const std::string& family) {
  std::ifstream file(kSource / "tests" / "reference" / "lora.json");
  return Json::parse(file).at(family);
}

std::vector<std::int32_t> ids_of(const std::string& family) {
  return goldens(family).at("ids").get<std::vector<std::int32_t>>();
}

std::unique_ptr<engine::Runner> runner_of(std::shared_ptr<const Model> model, int threads = 2) {
  engine::RunnerOptions options;
  options.cpu.threads = threads;
  options.kv_types = ops::KvType::kF32;
  return engine::make_cpu_runner(std::move(model), options);
}

Rows logits_of(std::shared_ptr<const Model> model, const std::vector<std::int32_t>& ids) {
  Rows rows;
  runner_of(std::move(model))->score(ids, [&](std::int64_t, const engine::LogitsView& logits) {
    for (std::int64_t i = 0; i < logits.rows; ++i) {
      const auto row = logits.row(i);
      rows.emplace_back(row.begin(), row.end());
    }
  });
  return rows;
}

double largest_difference(const Rows& a, const Rows& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    EXPECT_EQ(a[i].size(), b[i].size());
    for (std::size_t j = 0; j < a[i].size(); ++j) {
      largest = std::max(largest, std::fabs(static_cast<double>(a[i][j] - b[i][j])));
    }
  }
  return largest;
}

class Lora : public testing::Test {
 protected:
  compress::Recipe recipe(const std::string& json) {
    std::ofstream(folder_ / "recipe.json") << json;
    return compress::find_recipe((folder_ / "recipe.json").string());
  }

  static compress::PipelineOptions merging(const std::string& family) {
    compress::PipelineOptions options;
    options.calibration.samples = 2;
    options.calibration.seq_len = 32;
    options.threads = 1;
    options.adapter = std::make_shared<LoraAdapter>(LoraAdapter::open(kFamilies / family / "lora"));
    return options;
  }

  const core::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(Lora, BesideTheWeightsComputesWhatPeftDoes) {
  for (const std::string family : kFamiliesWithAdapters) {
    const auto model = models::open_model(kFamilies / family);
    const auto adapter = LoraAdapter::open(kFamilies / family / "lora");
    const auto ids = ids_of(family);
    const Rows logits = logits_of(models::with_adapter(*model, adapter, 1.0f), ids);
    EXPECT_LT(largest_difference(logits, goldens(family).at("beside").get<Rows>()), 1e-4) << family;
    const Rows off = logits_of(models::with_adapter(*model, adapter, 0.0f), ids);
    EXPECT_EQ(largest_difference(off, logits_of(model, ids)), 0.0) << family;
    EXPECT_GT(largest_difference(off, logits), 0.1) << family;
  }
}

TEST_F(Lora, MergedIntoFloatWeightsComputesTheSame) {
  for (const std::string family : kFamiliesWithAdapters) {
    const auto model = models::open_model(kFamilies / family);
    const auto ids = ids_of(family);
    const auto merged =
        compress::quantize_in_memory(*model, recipe(R"({"scheme": "f32", "passes": ["rtn"]})"),
                                     merging(family), core::silent_progress())
            .model;
    const Rows logits = logits_of(merged, ids);
    EXPECT_LT(largest_difference(logits, goldens(family).at("merged").get<Rows>()), 1e-4) << family;
    const auto adapter = LoraAdapter::open(kFamilies / family / "lora");
    const Rows beside = logits_of(models::with_adapter(*model, adapter, 1.0f), ids);
    EXPECT_LT(largest_difference(logits, beside), 1e-4) << family;
  }
}

// What 8 bits cost is small against what the adapter does, whether it was merged or stands beside.
TEST_F(Lora, PackedModelsRunWithAdapters) {
  for (const std::string family : kFamiliesWithAdapters) {
    const auto model = models::open_model(kFamilies / family);
    const auto ids = ids_of(family);
    const Rows expected = goldens(family).at("merged").get<Rows>();
    compress::PipelineOptions plain = merging(family);
    plain.adapter = nullptr;
    const compress::Recipe eight = compress::find_recipe("rtn-w8g16");
    compress::quantize_model(*model, eight, folder_ / family, plain, false,
                             core::silent_progress());
    const auto packed = models::open_model(folder_ / family);
    const auto adapter = LoraAdapter::open(kFamilies / family / "lora");
    const double effect = largest_difference(logits_of(packed, ids), expected);
    const double beside =
        largest_difference(logits_of(models::with_adapter(*packed, adapter, 1.0f), ids), expected);
    const auto merged =
        compress::quantize_in_memory(*model, eight, merging(family), core::silent_progress());
    EXPECT_LT(beside, 0.1 * effect) << family;
    EXPECT_LT(largest_difference(logits_of(merged.model, ids), expected), 0.1 * effect) << family;
    EXPECT_GT(models::total_weight_bytes(models::with_adapter(*packed, adapter, 1.0f)->network),
              models::total_weight_bytes(packed->network));
  }
}

// A text computes the same bits alone and in a batch of more rows than one dot product takes.
TEST_F(Lora, ResultsDoNotDependOnTheBatch) {
  const auto model = models::open_model(kFamilies / "llama");
  compress::PipelineOptions plain = merging("llama");
  plain.adapter = nullptr;
  const auto packed = compress::quantize_in_memory(*model, compress::find_recipe("rtn-w8g16"),
                                                   plain, core::silent_progress())
                          .model;
  const auto adapted =
      models::with_adapter(*packed, LoraAdapter::open(kFamilies / "llama" / "lora"), 1.0f);
  const auto ids = ids_of("llama");
  const auto first_logits = [&](bool together, int threads) {
    const auto runner = runner_of(adapted, threads);
    engine::FixedSequences sequences(*runner, 2, 64);
    std::vector<engine::Slice> slices = {sequences.next(0, std::span(ids).first(10))};
    if (together) {
      slices.push_back(sequences.next(1, ids));
    }
    const auto row = runner->forward(slices).row(0);
    return std::vector<float>(row.begin(), row.end());
  };
  const auto alone = first_logits(false, 1);
  EXPECT_EQ(first_logits(true, 1), alone);
  EXPECT_EQ(first_logits(true, 2), alone);
}

TEST_F(Lora, MergingGoesThroughEveryKindOfPass) {
  const auto model = models::open_model(kFamilies / "llama");
  const auto ids = ids_of("llama");
  const Rows expected = goldens("llama").at("merged").get<Rows>();
  const double effect = largest_difference(logits_of(model, ids), expected);
  for (
      const char* json :
      {R"({"scheme": "int8-asym-g16", "passes": ["gptq"]})",
       R"({"scheme": "int8-asym-g16", "passes": ["rotate", "gptq"]})",
       R"({"scheme": "int8-asym-g16", "passes": ["smoothquant", "rtn"]})",
       R"({"scheme": "int8-asym-g16", "passes": ["asymmetric", "gptq"], "true_sequential": true})"}) {
    const auto merged = compress::quantize_in_memory(*model, recipe(json), merging("llama"),
                                                     core::silent_progress())
                            .model;
    EXPECT_LT(largest_difference(logits_of(merged, ids), expected), 0.2 * effect) << json;
  }
}

// Runs `action`, which must fail with one line of which `part` is a part.
void refuses(const std::function<void()>& action, const std::string& part,
             core::ErrorKind kind = core::ErrorKind::kInvalidModel) {
  try {
    action();
    ADD_FAILURE() << "taken, though: " << part;
  } catch (const core::Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.kind(), kind) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nshould hold: " << part;
  }
}

TEST_F(Lora, RefusesModelsThatItDoesNotFit) {
  const auto model = models::open_model(kFamilies / "llama");
  const auto adapter = LoraAdapter::open(kFamilies / "llama" / "lora");
  compress::PipelineOptions plain = merging("llama");
  plain.adapter = nullptr;
  const auto compressed = [&](const std::string& name) {
    compress::quantize_model(*model, compress::find_recipe(name), folder_ / name, plain, false,
                             core::silent_progress());
    return models::open_model(folder_ / name);
  };
  const auto rounded = compressed("gptq-w4g16");
  models::with_adapter(*rounded, adapter, 1.0f);
  refuses(
      [&] {
        compress::quantize_in_memory(*rounded, compress::find_recipe("rtn-w4g16"), merging("llama"),
                                     core::silent_progress());
      },
      "codes would have to be chosen again", core::ErrorKind::kUsage);
  for (const char* name : {"awq-w4g16", "smoothquant-w8a8", "quarot-rtn-w4g16"}) {
    const auto changed = compressed(name);
    refuses([&] { models::with_adapter(*changed, adapter, 1.0f); }, "scales or turns",
            core::ErrorKind::kUsage);
  }
  Model unknown = *rounded;
  unknown.compression.keeps_inputs.reset();
  refuses([&] { models::with_adapter(unknown, adapter, 1.0f); }, "does not say",
          core::ErrorKind::kUsage);
  refuses([&] { models::with_adapter(*models::open_model(kFamilies / "gpt2"), adapter, 1.0f); },
          "model.layers.0.mlp.down_proj.lora_A.weight");
  refuses(
      [&] {
        compress::quantize_model(*model, compress::find_recipe("rtn-w4g16"), folder_ / "other",
                                 merging("gpt2"), false, core::silent_progress());
      },
      "transformer.h.0.attn.c_attn.lora_A.weight");
  EXPECT_FALSE(fs::exists(folder_ / ".other.partial")) << "no job was begun";
}

// An unfinished job with an adapter is not gone on with without it.
TEST_F(Lora, TheAdapterBelongsToTheJob) {
  const auto model = models::open_model(kFamilies / "llama");
  const auto eight = compress::find_recipe("rtn-w8g16");
  const fs::path target = folder_ / "out";
  compress::quantize_model(*model, eight, target, merging("llama"), false, core::silent_progress());
  fs::rename(target, folder_ / "whole");
  class Stop : public core::ProgressSink {
    void begin(std::string_view, std::int64_t) override {}
    void update(std::int64_t, std::string_view note) override {
      if (note.find("block 1 of 2 finished") != std::string_view::npos) {
        throw std::runtime_error("interrupted");
      }
    }
    void end() override {}
    void message(std::string_view) override {}
  } stop;
  EXPECT_ANY_THROW(compress::quantize_model(*model, eight, target, merging("llama"), false, stop));
  compress::PipelineOptions plain = merging("llama");
  plain.adapter = nullptr;
  refuses(
      [&] {
        compress::quantize_model(*model, eight, target, plain, true, core::silent_progress());
      },
      "another model, recipe or calibration", core::ErrorKind::kIntegrity);
  compress::quantize_model(*model, eight, target, merging("llama"), true, core::silent_progress());
  const auto ids = ids_of("llama");
  EXPECT_EQ(largest_difference(logits_of(models::open_model(target), ids),
                               logits_of(models::open_model(folder_ / "whole"), ids)),
            0.0);
}

class DamagedLora : public Lora {
 protected:
  void SetUp() override {
    model_ = models::open_model(kFamilies / "llama");
    std::ifstream config(kFamilies / "llama" / "lora" / "adapter_config.json");
    config_ = Json::parse(config);
    const auto file =
        io::SafetensorsFile::open(kFamilies / "llama" / "lora" / "adapter_model.safetensors");
    for (const std::string& name : file->names()) {
      tensors_.emplace(name, file->tensor(name));
    }
  }

  void write(const Json& config, const std::map<std::string, Tensor>& tensors) {
    std::ofstream(folder_ / "adapter_config.json") << config;
    std::vector<io::NamedTensor> list;
    for (const auto& [name, tensor] : tensors) {
      list.push_back({name, tensor});
    }
    io::write_safetensors(folder_ / "adapter_model.safetensors", list);
  }

  void open() { models::with_adapter(*model_, LoraAdapter::open(folder_), 1.0f); }

  void refuses_field(const char* key, const Json& value, const std::string& part) {
    Json config = config_;
    config[key] = value;
    write(config, tensors_);
    refuses([&] { open(); }, part);
  }

  void refuses_tensors(const std::map<std::string, Tensor>& tensors, const std::string& part) {
    write(config_, tensors);
    refuses([&] { open(); }, part);
  }

  static constexpr const char* kA =
      "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight";
  static constexpr const char* kB =
      "base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight";

  std::shared_ptr<Model> model_;
  Json config_;
  std::map<std::string, Tensor> tensors_;
};

TEST_F(DamagedLora, ConfigurationsAreRefusedByField) {
  write(config_, tensors_);
  open();
  refuses_field("use_dora", true, "DoRA");
  refuses_field("bias", "lora_only", "'bias' is 'lora_only'");
  refuses_field("modules_to_save", Json::array({"lm_head"}), "modules_to_save");
  refuses_field("rank_pattern", {{"q_proj", 8}}, "rank_pattern");
  refuses_field("alpha_pattern", {{"q_proj", 8}}, "alpha_pattern");
  refuses_field("trainable_token_indices", Json::array({1}), "trainable_token_indices");
  refuses_field("init_lora_weights", "pissa_niter_4", "pissa_niter_4");
  refuses_field("peft_type", "LOHA", "'LOHA'");
  refuses_field("r", 0, "'r'");
  refuses_field("r", "3", "'r'");
  refuses_field("r", 4, "expected [4, 48]");
  refuses_field("lora_alpha", nullptr, "lora_alpha");
  refuses_field("lora_alpha", "x", "lora_alpha");
  refuses_field("lora_alpha", 1e300, "lora_alpha");
  refuses_field("use_rslora", 1, "use_rslora");
  refuses_field("fan_in_fan_out", "yes", "fan_in_fan_out");
  refuses_field("target_modules", Json::array({1}), "target_modules");
  refuses_field("target_modules", Json::array({"q_proj"}), "does not list");
  refuses_field("target_modules",
                Json::array({"q_proj", "v_proj", "o_proj", "down_proj", "up_proj"}),
                "model.layers.0.mlp.up_proj.lora_A.weight");
  std::ofstream(folder_ / "adapter_config.json") << "[]";
  refuses([&] { open(); }, "must be an object");
  fs::remove(folder_ / "adapter_config.json");
  refuses([&] { open(); }, "adapter_config.json", core::ErrorKind::kIo);
}

TEST_F(DamagedLora, TensorsAreRefusedByName) {
  const Tensor good = tensors_.at(kA);
  const auto with = [&](const char* name, Tensor tensor) {
    auto tensors = tensors_;
    tensors[name] = std::move(tensor);
    return tensors;
  };
  auto missing = tensors_;
  missing.erase(kB);
  refuses_tensors(missing, kB);
  missing.erase(kA);
  refuses_tensors(missing, kA);  // target_modules lists the layer
  refuses_tensors({}, "holds no tensors");
  refuses_tensors(with(kA, Tensor::zeros(core::DType::kF32, {3, 33})), "[3, 33], expected [3, 32]");
  refuses_tensors(with(kA, Tensor::zeros(core::DType::kF32, {2, 32})), "[2, 32], expected [3, 32]");
  refuses_tensors(with(kA, Tensor::zeros(core::DType::kF32, {96})), kA);
  refuses_tensors(with(kB, Tensor::zeros(core::DType::kF32, {16, 3})), kB);
  refuses_tensors(with(kA, Tensor::zeros(core::DType::kI32, {3, 32})), "expected F32, F16 or BF16");
  for (const float value : {std::nanf(""), HUGE_VALF}) {
    Tensor bad = Tensor::from<float>(core::to_float32(good), good.shape());
    bad.mutable_data<float>()[40] = value;
    refuses_tensors(with(kA, bad), std::string(kA) + "' holds NaN or infinite");
  }
  Tensor large = Tensor::from<float>(core::to_float32(good), good.shape());
  large.mutable_data<float>()[40] = 1e6f;
  refuses_tensors(with(kA, large), "model.layers.1.self_attn.q_proj");
  refuses_tensors(with("base_model.model.model.embed_tokens.lora_embedding_A", good), "embedding");
  refuses_tensors(with("base_model.model.lm_head.weight", good), "lm_head.weight");
  refuses_tensors(with("model.layers.0.lora_A.weight", good), "is not known");
  refuses_tensors(with("base_model.model.lora_A.weight", good), "names no layer");
  auto beyond = with("base_model.model.model.layers.7.self_attn.q_proj.lora_A.weight", good);
  beyond["base_model.model.model.layers.7.self_attn.q_proj.lora_B.weight"] = tensors_.at(kB);
  refuses_tensors(beyond, "layers.7.self_attn.q_proj");
}

TEST_F(DamagedLora, DamagedFilesAreRefused) {
  write(config_, tensors_);
  const fs::path file = folder_ / "adapter_model.safetensors";
  const auto size = fs::file_size(file);
  for (const std::uintmax_t cut : {size - 1, size / 2, std::uintmax_t{20}, std::uintmax_t{0}}) {
    write(config_, tensors_);
    fs::resize_file(file, cut);
    EXPECT_THROW(open(), core::Error) << cut;
  }
  fs::remove(file);
  std::ofstream(folder_ / "adapter_model.bin") << "x";
  refuses([&] { open(); }, "pickles", core::ErrorKind::kIo);
}

// Adapters made on the model without its head have names without that part.
TEST_F(DamagedLora, NamesMayLackTheOutermostPart) {
  std::map<std::string, Tensor> shorter;
  for (const auto& [name, tensor] : tensors_) {
    std::string other = name;
    other.erase(std::string("base_model.model.").size(), std::string("model.").size());
    shorter.emplace(other, tensor);
  }
  write(config_, shorter);
  const auto ids = ids_of("llama");
  const Rows logits =
      logits_of(models::with_adapter(*model_, LoraAdapter::open(folder_), 1.0f), ids);
  EXPECT_LT(largest_difference(logits, goldens("llama").at("beside").get<Rows>()), 1e-4);
}

}  // namespace
}  // namespace nibble
