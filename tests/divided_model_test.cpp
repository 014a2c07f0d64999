#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "compress/pipeline/pipeline_for_tests.h"
#include "engine/divided_runner.h"
#include "engine/everything_for_tests.h"
#include "io/temporary_folder_for_tests.h"
#include "models/shard.h"
#include "ranks/join.h"

// Models that several ranks run together against the same model on one rank. Ranks are threads
// here, each with its part of the model; tests/mpirun_test.cpp starts them as processes.
namespace nibble::engine {
namespace {

namespace fs = std::filesystem;
const fs::path kSource = NIBBLE_SOURCE_DIR;

RunnerOptions options_of(const std::string& kv_type) {
  RunnerOptions options;
  options.cpu.threads = 1;
  options.kv_types = ops::parse_kv_types(kv_type);
  return options;
}

// The same of `ranks` threads that hold a part each.
Logits everything_of_ranks(const fs::path& model, int ranks, const RunnerOptions& options) {
  static int jobs = 0;
  const std::string job = fmt::format("divided-{}-{}", getpid(), ++jobs);
  const auto joined = [&](int rank) -> std::shared_ptr<ranks::Communicator> {
    ranks::RankPlace place;
    place.rank = rank;
    place.size = place.local_size = ranks;
    place.job = job;
    return ranks::join(place);
  };
  std::vector<std::thread> others;
  for (int rank = 1; rank < ranks; ++rank) {
    others.emplace_back([&, rank] {
      const auto communicator = joined(rank);
      try {
        const auto part = models::open_model(model, shard_of(communicator.get()));
        follow(*make_rank_runner(part, options, communicator), *communicator);
      } catch (const core::Error& error) {
        communicator->leave(error.kind(), error.what());
      }
    });
  }
  Logits values;
  try {
    const auto communicator = joined(0);
    const auto part = models::open_model(model, shard_of(communicator.get()));
    const auto runner =
        make_leading_runner(make_rank_runner(part, options, communicator), communicator, ranks);
    EXPECT_GT(runner->room_for_pages(), 0);
    values = everything_of(*runner);
  } catch (const core::Error& error) {
    ADD_FAILURE() << error.what();
  }
  for (std::thread& thread : others) {
    thread.join();
  }
  return values;
}

void expect_same_bits(const fs::path& model, const std::vector<int>& counts,
                      const std::string& kv_type = "f16") {
  const RunnerOptions options = options_of(kv_type);
  const Logits alone = everything_of(*make_cpu_runner(models::open_model(model), options));
  ASSERT_FALSE(alone.empty());
  for (const int ranks : counts) {
    EXPECT_EQ(everything_of_ranks(model, ranks, options), alone) << ranks << " ranks";
  }
}

class DividedFamilies : public testing::TestWithParam<const char*> {};

// Every family as it is stored, in float.
TEST_P(DividedFamilies, GiveTheLogitsOfOneRank) {
  expect_same_bits(kSource / "tests" / "families" / GetParam(), {2, 4});
}

INSTANTIATE_TEST_SUITE_P(, DividedFamilies,
                         testing::Values("llama", "llama-bias-tied", "llama-yarn-rope", "mistral",
                                         "mixtral", "gpt2", "opt", "opt-post-norm", "opt-projected",
                                         "qwen2", "qwen2-window", "qwen3", "qwen3-moe",
                                         "qwen3-moe-shares", "phi3", "phi3-long-rope",
                                         "phi4-short-rope", "gemma", "gemma2", "gemma3"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class DividedModel : public testing::Test {
 protected:
  // A model of tests/families compressed by a recipe: a preset's name, or JSON.
  fs::path compress(const std::string& family, const std::string& recipe) {
    const fs::path target = folder_ / fmt::format("model-{}", ++models_);
    std::string name = recipe;
    if (recipe.starts_with("{")) {
      name = (folder_ / "recipe.json").string();
      std::ofstream(name) << recipe;
    }
    compress::quantize_model(*models::open_model(kSource / "tests/families" / family),
                             compress::find_recipe(name), target, compress::small_job(2, 32, 1),
                             false, core::silent_progress());
    return target;
  }

  const io::TemporaryFolder folder_;
  int models_ = 0;
};

// Groups that no border of ranks meets, rounded activations, books, microscaling, orders of inputs,
// INT8 tails, Hadamards over whole rows: none of them is cut.
TEST_F(DividedModel, GivesTheLogitsOfOneRankInEveryFormat) {
  for (const char* recipe :
       {R"({"scheme": "int4-asym-g16", "passes": ["rtn"], "output": "int8-sym-g32"})",
        R"({"scheme": "int8-sym-tensor-a8", "passes": ["rtn"]})", "w8a8", "llm-int8", "fp8",
        "gqsa-w4s50", "gqsa-f16s50", "gqsa-any4s50", "fp8-w8a8", "nf4g32", "nvfp4", "atom-w4a4",
        "quarot-w4a4",
        R"({"scheme": "mxfp4", "passes": ["rtn"],
            "layers": [{"match": "*.down_proj", "scheme": "int8-sym-row-a8o"}]})",
        R"({"scheme": "lut4-row-g16", "passes": ["any4", "rtn"]})",
        R"({"scheme": "lut3-matrix-g32", "passes": ["any4", "rtn"]})",
        R"({"scheme": "lut3-matrix-g16-bsr", "passes": ["gqsa", "any4", "gptq"]})"}) {
    SCOPED_TRACE(recipe);
    expect_same_bits(compress("llama", recipe), {2, 4});
  }
}

TEST_F(DividedModel, GivesTheLogitsOfOneRankWithExpertsAndFusedLayers) {
  for (const char* family : {"mixtral", "qwen3-moe", "phi3", "gpt2", "opt"}) {
    SCOPED_TRACE(family);
    expect_same_bits(
        compress(family,
                 R"({"scheme": "int4-asym-g16", "passes": ["rtn"], "output": "int8-sym-row-a8"})"),
        {2, 4});
  }
}

TEST_F(DividedModel, GivesTheLogitsOfOneRankWithARoundedCache) {
  for (const char* kv_type : {"f32", "fp8", "int8", "int4", "int8-int4"}) {
    SCOPED_TRACE(kv_type);
    expect_same_bits(kSource / "tests/families/llama", {2, 4}, kv_type);
  }
}

// 4 heads, 32 outputs and 64 tokens among three: no part is like another.
TEST_F(DividedModel, MayHavePartsOfDifferentSizes) {
  expect_same_bits(kSource / "tests/families/gpt2", {3});
  expect_same_bits(compress("gpt2", "w8a8"), {3});
}

TEST_F(DividedModel, RunsCheckpointsOfOtherTools) {
  for (const char* name : {"gptq", "awq", "ct-pack", "bnb-nf4", "mlx"}) {
    SCOPED_TRACE(name);
    expect_same_bits(kSource / "tests/exchange" / name, {2});
  }
}

// What ranks hold adds up to the model, but for what each has: norms and learned positions.
TEST_F(DividedModel, IsHeldInParts) {
  const fs::path path = compress("llama", R"({"scheme": "int4-asym-g16", "passes": ["rtn"]})");
  const auto layers = [](const models::Network& network) {
    std::int64_t bytes = network.embeddings.tokens.bytes();
    for (const ops::LinearSet* set : models::linear_sets(network)) {
      for (const ops::Linear& part : set->parts) {
        bytes += formats::stored_bytes(part.weight);
      }
    }
    return bytes;
  };
  const auto whole = models::open_model(path);
  std::int64_t sum = 0;
  for (int rank = 0; rank < 2; ++rank) {
    const auto part = models::open_model(path, {rank, 2});
    EXPECT_EQ(part->network.config.heads, whole->network.config.heads);
    EXPECT_LT(layers(part->network), 6 * layers(whole->network) / 10) << "rank " << rank;
    sum += layers(part->network);
    RunnerOptions options = options_of("f16");
    const auto runner = make_cpu_runner(part, options);
    const auto alone = make_cpu_runner(whole, options);
    EXPECT_EQ(2 * runner->page_bytes(), alone->page_bytes());
  }
  EXPECT_EQ(sum, layers(whole->network));
}

std::string refusal_of(const fs::path& model, const models::Shard& shard) {
  try {
    (void)models::open_model(model, shard);
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(Parts, CoverEverythingOnce) {
  for (const std::int64_t count : {4, 5, 16, 31, 33, 64, 100, 4096, 32003}) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      std::int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const models::Range part = models::part_of(count, {rank, ranks}, "outputs");
        EXPECT_EQ(part.begin, next);
        EXPECT_GT(part.size(), 0) << count << " among " << ranks;
        EXPECT_LE(part.size(), count / ranks + 16);
        next = part.end;
      }
      EXPECT_EQ(next, count);
    }
  }
  EXPECT_THROW((void)models::part_of(3, {0, 4}, "outputs"), core::Error);
}

TEST(Parts, HaveTheKeysThatTheirHeadsRead) {
  for (const auto& [heads, kv_heads, ranks] : std::vector<std::array<int, 3>>{
           {8, 8, 3}, {8, 4, 4}, {8, 2, 4}, {8, 2, 8}, {8, 1, 5}, {12, 3, 2}, {6, 2, 4}}) {
    models::NetworkConfig config;
    config.heads = heads;
    config.kv_heads = kv_heads;
    std::int64_t next = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const models::HeadRanges part = models::heads_of(config, {rank, ranks});
      EXPECT_EQ(part.heads.begin, next);
      next = part.heads.end;
      const std::int64_t group = heads / kv_heads;
      const std::int64_t group_here = part.heads.size() / part.kv_heads.size();
      ASSERT_EQ(group_here * part.kv_heads.size(), part.heads.size());
      for (std::int64_t head = 0; head < part.heads.size(); ++head) {
        EXPECT_EQ(part.kv_heads.begin + head / group_here, (part.heads.begin + head) / group)
            << "head " << head << " of rank " << rank << " of " << ranks;
      }
    }
    EXPECT_EQ(next, heads);
  }
}

TEST(DividedRefusals, SayWhatCannotBeDivided) {
  const fs::path families = kSource / "tests/families";
  EXPECT_EQ(
      refusal_of(families / "llama", {0, 3}),
      "4 heads, of which 2 read the same keys, cannot be divided among 3 ranks; start at most "
      "2, or a multiple of that up to 4");
  EXPECT_NE(refusal_of(families / "llama", {0, 8}).find("cannot be divided among 8 ranks"),
            std::string::npos);
  for (const char* encoder : {"bert", "bart"}) {
    EXPECT_NE(refusal_of(families / encoder, {0, 2}).find("models with an encoder"),
              std::string::npos)
        << encoder;
  }
}

ranks::RankPlace place_of_two(const std::string& job) {
  ranks::RankPlace place;
  place.size = place.local_size = 2;
  place.job = fmt::format("{}-{}", job, getpid());
  return place;
}

// Ranks of one job must compute the same thing.
TEST(DividedRefusals, TellsModelsAndOptionsApart) {
  const fs::path families = kSource / "tests/families";
  const auto refusal = [&](const char* name, const std::string& kv_type) {
    const auto runner_of = [&](int rank, const fs::path& model, const RunnerOptions& options) {
      ranks::RankPlace place = place_of_two("apart");
      place.rank = rank;
      const std::shared_ptr<ranks::Communicator> communicator = ranks::join(place);
      try {
        (void)make_rank_runner(models::open_model(model, {rank, 2}), options, communicator);
      } catch (const core::Error& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    std::string other;
    std::thread thread([&] { other = runner_of(1, families / name, options_of(kv_type)); });
    const std::string first = runner_of(0, families / "llama", options_of("f16"));
    thread.join();
    EXPECT_EQ(first, other);
    return first;
  };
  EXPECT_EQ(refusal("llama", "f16"), "");
  EXPECT_NE(refusal("mistral", "f16").find("rank 1 has another model"), std::string::npos);
  EXPECT_NE(refusal("llama", "int8").find("or other options"), std::string::npos);
}

// A rank that fails ends the others with its reason, and the runner does not go on.
TEST(DividedFailure, EndsAllRanks) {
  const fs::path model = kSource / "tests/families/llama";
  ranks::RankPlace place = place_of_two("failing");
  std::thread other([place, model]() mutable {
    place.rank = 1;
    const std::shared_ptr<ranks::Communicator> communicator = ranks::join(place);
    const auto runner =
        make_rank_runner(models::open_model(model, {1, 2}), options_of("f16"), communicator);
    std::vector<std::byte> first;
    communicator->broadcast(first);
    communicator->leave(core::ErrorKind::kOutOfMemory, "rank 1: no memory for that");
  });
  const std::shared_ptr<ranks::Communicator> communicator = ranks::join(place);
  const auto part = models::open_model(model, shard_of(communicator.get()));
  const auto runner =
      make_leading_runner(make_rank_runner(part, options_of("f16"), communicator), communicator, 2);
  const std::vector<std::int32_t> ids = {1, 2, 3};
  const auto failure = [&] {
    try {
      runner->score(ids, [](std::int64_t, const LogitsView&) {});
    } catch (const core::Error& error) {
      EXPECT_STREQ(error.what(), "rank 1: no memory for that");
      return error.kind();
    }
    return core::ErrorKind::kUsage;
  };
  EXPECT_EQ(failure(), core::ErrorKind::kOutOfMemory);
  EXPECT_EQ(failure(), core::ErrorKind::kFailed) << "missing memory would be tried again for ever";
  other.join();
}

}  // namespace
}  // namespace nibble::engine
