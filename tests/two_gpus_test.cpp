// A model on two GPUs, a process for each, against the same model on one of them.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>

#include "compress/pipeline/pipeline_for_tests.h"
#include "engine/cosine_for_tests.h"
#include "engine/divided_runner.h"
#include "engine/everything_for_tests.h"
#include "engine/fixed_sequences.h"
#include "io/temporary_folder_for_tests.h"
#include "ops/cuda/divided/two_gpus_for_tests.h"

namespace nibble::engine {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = NIBBLE_SOURCE_DIR;

class TwoGpusRun : public ops::cuda::TwoGpus {
 protected:
  RunnerOptions options() const {
    RunnerOptions options;
    options.cpu.threads = 1;
    options.place = {device::Kind::kCuda, leads() ? 0 : 1};
    return options;
  }

  // On rank 0: calls `use` with a runner on both GPUs. On rank 1: follows it.
  template <typename Use>
  void on_both(const std::shared_ptr<ranks::Communicator>& communicator, const fs::path& model,
               const Use& use) {
    auto runner =
        make_rank_runner(models::open_model(model, shard_of(communicator.get(), options().place)),
                         options(), communicator);
    if (leads()) {
      use(*make_leading_runner(std::move(runner), communicator, 1));
    } else {
      follow(*runner, *communicator);
    }
  }

  std::unique_ptr<Runner> alone(const fs::path& model) const {
    return make_runner(models::open_model(model), options());
  }
};

std::vector<std::int32_t> greedy(Runner& runner, std::vector<std::int32_t> text, int count) {
  FixedSequences sequences(runner, 1, std::ssize(text) + count);
  std::vector<ops::RankedToken> ranked;
  const std::vector<Slice> prompt = {sequences.next(0, text)};
  runner.forward_ranked(prompt, 1, ranked);
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < count; ++i) {
    const std::vector<std::int32_t> next = {ranked.at(0).id};
    tokens.push_back(next[0]);
    const std::vector<Slice> slice = {sequences.next(0, next)};
    runner.forward_ranked(slice, 1, ranked);
  }
  return tokens;
}

double length(const std::vector<float>& row) {
  return std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
}

// Sums run in another order, so the last bits differ: rows point to the same place, and are as
// long.
void expect_alike(const Logits& both, const Logits& one, double least = 0.9999,
                  double longer = 0.01) {
  ASSERT_EQ(both.size(), one.size());
  for (std::size_t row = 0; row < one.size(); ++row) {
    ASSERT_EQ(both[row].size(), one[row].size());
    EXPECT_GT(cosine(both[row], one[row]), least) << "row " << row;
    EXPECT_NEAR(length(both[row]) / length(one[row]), 1.0, longer) << "row " << row;
  }
}

class TwoGpusFamilies : public TwoGpusRun, public testing::WithParamInterface<const char*> {};

TEST_P(TwoGpusFamilies, GiveTheLogitsOfOne) {
  const fs::path model = kSource / "tests/families" / GetParam();
  on_both(join_both(), model, [&](Runner& runner) {
    expect_alike(everything_of(runner), everything_of(*alone(model)));
  });
}

INSTANTIATE_TEST_SUITE_P(, TwoGpusFamilies,
                         testing::Values("llama", "llama-bias-tied", "mistral", "mixtral", "gpt2",
                                         "opt", "opt-post-norm", "opt-projected", "qwen2", "qwen3",
                                         "qwen3-moe", "phi3"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_F(TwoGpusRun, WriteTheTokensOfOne) {
  const fs::path model = kSource / "models/demo";
  const std::vector<std::int32_t> prompt = {100, 200, 300, 400, 500, 600};
  on_both(join_both(), model, [&](Runner& runner) {
    const std::vector<std::int32_t> one = greedy(*alone(model), prompt, 100);
    EXPECT_EQ(greedy(runner, prompt, 100), one);
    EXPECT_EQ(greedy(runner, prompt, 100), one) << "from recorded steps alone";
  });
}

// Long enough that sums travel in blocks, beside a sequence that writes; and behind what that step
// has stored. Blocks round to 15 bits, so rows differ by more than those of few tokens.
TEST_F(TwoGpusRun, ReadALongPrompt) {
  const fs::path model = kSource / "models/demo";
  std::vector<std::int32_t> prompt(2500);
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    prompt[i] = static_cast<std::int32_t>(i * i % 997);
  }
  const auto read = [&](Runner& runner) {
    Logits values;
    FixedSequences sequences(runner, 2, std::ssize(prompt) + 8);
    const std::span<const std::int32_t> all = prompt;
    const std::vector<Slice> first = {sequences.next(0, all.first(40))};
    append(values, runner.forward(first));
    const std::vector<Slice> both = {sequences.next(0, all.first(1)), sequences.next(1, all, 1300)};
    append(values, runner.forward(both));
    const std::vector<Slice> next = {sequences.next(0, all.first(1)),
                                     sequences.next(1, all.first(5))};
    append(values, runner.forward(next));
    return values;
  };
  on_both(join_both(), model, [&](Runner& runner) {
    const Logits one = read(*alone(model));
    expect_alike(read(runner), one, 0.9995);
  });
}

// What a rank's GPU holds of the demo model: a half of the layers and of the keys and values.
TEST_F(TwoGpusRun, HoldAHalfEach) {
  const fs::path model = kSource / "models/demo";
  on_both(join_both(), model, [&](Runner& runner) {
    const auto whole = alone(model);
    EXPECT_EQ(2 * runner.page_bytes(), whole->page_bytes());
    EXPECT_LT(runner.bytes_per_token(), 55 * whole->bytes_per_token() / 100);
    EXPECT_GT(runner.room_for_pages(), whole->room_for_pages());
  });
}

class TwoGpusFormats : public TwoGpusRun, public testing::WithParamInterface<const char*> {
 protected:
  // Both processes make the same model, each for itself.
  fs::path compressed(const std::string& scheme) {
    const fs::path recipe = folder_ / "recipe.json";
    const bool turned = scheme.find("-h") != std::string::npos;
    std::ofstream(recipe) << fmt::format(R"({{"scheme": "{}", "passes": [{}]}})", scheme,
                                         turned ? R"("hadamard", "rtn")" : R"("rtn")");
    compress::quantize_model(*models::open_model(kSource / "models/demo"),
                             compress::find_recipe(recipe.string()), folder_ / "model",
                             compress::small_job(2, 32, 1), false, core::silent_progress());
    return folder_ / "model";
  }

  const io::TemporaryFolder folder_;
};

// Inputs that are rounded by token are rounded by token and rank.
TEST_P(TwoGpusFormats, GiveTheLogitsOfOne) {
  const std::string scheme = GetParam();
  const fs::path model = compressed(scheme);
  on_both(join_both(), model, [&](Runner& runner) {
    const Logits one = everything_of(*alone(model));
    if (scheme.ends_with("-a8")) {
      expect_alike(everything_of(runner), one, 0.99, 0.05);
    } else {
      expect_alike(everything_of(runner), one);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(, TwoGpusFormats,
                         testing::Values("int4-sym-g128", "int4-asym-g64", "int8-sym-row",
                                         "int8-sym-row-a8", "int4-sym-g128-a8", "lut4-nf4-g64",
                                         "mxfp4", "nvfp4", "fp8-row", "int4-sym-g64-h64",
                                         "int4-asym-g16-bsr", "int4-asym-g16-bsr-a8"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace nibble::engine
