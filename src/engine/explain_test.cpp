#include "engine/explain.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/json.h"
#include "engine/layer_groups.h"
#include "io/atomic_file.h"
#include "io/json_file.h"
#include "io/temporary_folder_for_tests.h"
#include "models/model.h"
#include "ops/cpu/linear/linear_kernels.h"
#include "ops/cpu/packed/test_problems.h"

namespace nibble::engine {
namespace {

using core::ErrorKind;
using ops::ActivationPrecision;

const std::string kDemo = NIBBLE_SOURCE_DIR "/models/demo";

/// What multiplies weights in 16 bits here.
std::string dense_kernel() {
  ops::cpu::LayerProblem problem;
  problem.linear.scheme = formats::parse_scheme("bf16");
  problem.named = ops::cpu::named_variant();
  return ops::choose_kernel(ops::cpu::linear_kernels(), problem).name;
}

class ExplainKernels : public ::testing::Test {
 protected:
  Explanation explain(const ExplainOptions& options) const {
    RunnerOptions runner;
    runner.cpu = cpu_;
    return explain_kernels(model_->network, runner, options, core::silent_progress());
  }
  // All layers but the output in INT4.
  void compress() {
    for (models::Block& block : model_->network.decoder.blocks) {
      for (ops::LinearSet* set : models::linear_sets(block)) {
        for (ops::Linear& part : set->parts) {
          part.weight =
              ops::cpu::testing::random_weight("int4-sym-g128", part.weight.n, part.weight.k, 1);
        }
      }
    }
  }

  std::shared_ptr<models::Model> model_ = models::open_model(kDemo);
  ops::CpuOptions cpu_{1};
  io::TemporaryFolder folder_;
};

TEST_F(ExplainKernels, EqualLayersStandTogether) {
  const Explanation explanation = explain({});
  ASSERT_EQ(explanation.layers.size(), 5u);
  EXPECT_EQ(explanation.layers[0].name, "layers 0-5 q_proj|k_proj|v_proj");
  EXPECT_EQ(explanation.layers[0].scheme, "bf16");
  EXPECT_EQ(explanation.layers[0].n, 512);
  EXPECT_EQ(explanation.layers[0].k, 256);
  EXPECT_EQ(explanation.layers[0].parts.size(), 18u);
  EXPECT_EQ(explanation.layers[3].name, "layers 0-5 down_proj");
  EXPECT_EQ(explanation.layers[4].name, "output embed_tokens");
  for (const ExplainedLayer& layer : explanation.layers) {
    ASSERT_EQ(layer.runs.size(), 3u);
    EXPECT_EQ(layer.runs[2].tokens, 512);
    for (const ExplainedRun& run : layer.runs) {
      EXPECT_EQ(run.kernel, dense_kernel());
      EXPECT_FALSE(run.schedule.empty());
      EXPECT_FALSE(run.time);
      EXPECT_EQ(run.passed.size(), ops::cpu::linear_kernels().size() - 1);  // all others
    }
  }
  EXPECT_EQ(explanation.layers[0].runs[0].epilogue.work, "");
  EXPECT_EQ(explanation.layers[1].runs[0].epilogue.work, "residual");
  EXPECT_EQ(explanation.layers[2].runs[0].epilogue.work, "gate");
  EXPECT_NE(explanation.layers[2].runs[0].epilogue.apart, "");
}

TEST_F(ExplainKernels, OneLayerCanBeNamed) {
  const Explanation explanation =
      explain({.tokens = {7}, .layer = "model.layers.3.self_attn.k_proj"});
  ASSERT_EQ(explanation.layers.size(), 1u);
  EXPECT_EQ(explanation.layers[0].name, "layer 3 q_proj|k_proj|v_proj");
  EXPECT_EQ(explanation.layers[0].parts.size(), 3u);
  try {
    explain({.tokens = {1}, .layer = "model.layers.3.self_attn.kproj"});
    ADD_FAILURE() << "was found";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("did you mean 'model.layers.3.self_attn.k_proj'?"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(ExplainKernels, CompressedLayersTakeTheKernelOfTheirActivations) {
  compress();
  const std::string fastest = std::string("packed-") + ops::cpu::active_variant().name;
  EXPECT_EQ(explain({}).layers[0].runs[0].kernel, fastest);
  EXPECT_EQ(explain({}).layers[4].runs[0].kernel, dense_kernel());
  cpu_.activations = ActivationPrecision::kFloat;
  EXPECT_EQ(explain({}).layers[0].runs[0].kernel, "decoded");
}

TEST_F(ExplainKernels, SayWhatTheyTookWhenTheyWereLastMeasured) {
  compress();
  ExplainOptions options{.tokens = {1, 16}, .layer = "model.layers.0.mlp.down_proj"};
  options.folder = folder_.path() / "made" / "for" / "it";
  EXPECT_FALSE(explain(options).layers[0].runs[0].time);
  options.measure = true;
  const Explanation measured = explain(options);
  options.measure = false;
  const Explanation read = explain(options);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& time = measured.layers[0].runs[i].time;
    ASSERT_TRUE(time);
    EXPECT_GT(time->microseconds, 0.0);
    EXPECT_GT(time->share_of_limit(), 0.0);
    EXPECT_EQ(time->date, today());
    ASSERT_TRUE(read.layers[0].runs[i].time);
    EXPECT_EQ(read.layers[0].runs[i].time->microseconds, time->microseconds);
  }
  options.tokens = {2};
  EXPECT_FALSE(explain(options).layers[0].runs[0].time) << "another number of tokens";
  options.tokens = {1};
  cpu_.activations = ActivationPrecision::kInt16;
  EXPECT_FALSE(explain(options).layers[0].runs[0].time) << "other activations";
}

TEST_F(ExplainKernels, MalformedTimesAreNotUsedAndNotWrittenOver) {
  ExplainOptions options{.tokens = {1}, .layer = "model.layers.0.mlp.down_proj"};
  options.folder = folder_.path();
  options.measure = true;
  explain(options);
  const std::filesystem::path file = kernel_times_in(folder_.path());
  const std::string whole = io::load_json_file(file).dump();
  for (std::size_t length = 0; length < whole.size(); length += 5) {
    io::write_file_atomically(file, whole.substr(0, length));
    options.measure = false;
    const Explanation explanation = explain(options);
    EXPECT_FALSE(explanation.layers[0].runs[0].time);
    EXPECT_NE(explanation.ignored.find("kernels-cpu.json"), std::string::npos);
    options.measure = true;
    EXPECT_THROW(explain(options), core::Error);
  }
}

TEST_F(ExplainKernels, EveryFieldOfTimesIsChecked) {
  KernelTimes times;
  times.put({"a", "b", 1, "c", "d", 1}, {2.0, 1.0, true, "2026-01-31"});
  const std::filesystem::path file = folder_.path() / "times.json";
  const core::Json good = times.to_json();
  struct Fault {
    const char* at;
    const char* with;  // null: taken away
  };
  for (const Fault& fault : {Fault{"/nibble_cpu_kernel_times", "2"},
                             {"/kernels", "\"x\""},
                             {"/times", "{}"},
                             {"/times", nullptr},
                             {"/times/0", "1"},
                             {"/times/0/threads", "0"},
                             {"/times/0/tokens", "-1"},
                             {"/times/0/machine", "1"},
                             {"/times/0/microseconds", "0"},
                             {"/times/0/limit_microseconds", "\"x\""},
                             {"/times/0/limited_by_memory", nullptr},
                             {"/times/0/date", "[]"}}) {
    core::Json bad = good;
    const core::Json::json_pointer at(fault.at);
    if (fault.with == nullptr) {
      bad[at.parent_pointer()].erase(at.back());
    } else {
      bad[at] = core::Json::parse(fault.with);
    }
    io::write_file_atomically(file, bad.dump());
    EXPECT_THROW(KernelTimes::read(file), core::Error) << fault.at;
  }
  io::write_file_atomically(file, good.dump());
  EXPECT_TRUE(KernelTimes::read(file).find({"a", "b", 1, "c", "d", 1}));
  core::Json other = good;
  other["kernels"] = 1000;
  io::write_file_atomically(file, other.dump());
  EXPECT_FALSE(KernelTimes::read(file).find({"a", "b", 1, "c", "d", 1})) << "of other kernels";
}

TEST_F(ExplainKernels, ImpossibleNumbersOfTokensAreRefused) {
  for (const std::vector<std::int64_t>& tokens :
       {std::vector<std::int64_t>{}, {0}, {-1}, {1, std::int64_t{1} << 40}}) {
    EXPECT_THROW(explain({.tokens = tokens}), core::Error);
  }
}

TEST_F(ExplainKernels, JsonSaysAll) {
  const core::Json json = to_json(explain({.tokens = {1}}));
  EXPECT_TRUE(json["device"].get<std::string>().starts_with("cpu, "));
  const core::Json& layer = json["layers"][1];
  EXPECT_EQ(layer["name"], "layers 0-5 o_proj");
  EXPECT_EQ(layer["parts"][5], "model.layers.5.self_attn.o_proj");
  EXPECT_EQ(layer["n"], 256);
  const core::Json& run = layer["runs"][0];
  EXPECT_EQ(run["tokens"], 1);
  EXPECT_EQ(run["kernel"], dense_kernel());
  EXPECT_EQ(run["epilogue"]["work"], "residual");
  EXPECT_EQ(run["epilogue"]["by_kernel"], false);
  EXPECT_EQ(run["passed"].back()["kernel"], "decoded");
  EXPECT_EQ(run["passed"].back()["reason"], "weights are dense");
  EXPECT_TRUE(run["measured"].is_null());
}

}  // namespace
}  // namespace nibble::engine
