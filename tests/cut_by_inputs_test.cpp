// Models whose attention output and down are divided by inputs, as GPUs run them: what ranks hold,
// and what is refused. tests/two_gpus_test.cpp runs them.
#include <filesystem>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>

#include "compress/pipeline/pipeline_for_tests.h"
#include "engine/divided_runner.h"
#include "io/temporary_folder_for_tests.h"
#include "models/shard.h"

namespace nibble::engine {
namespace {

namespace fs = std::filesystem;
using models::Cut;

const fs::path kSource = NIBBLE_SOURCE_DIR;

std::vector<float> row_of(const ops::Linear& layer, std::int64_t row) {
  std::vector<float> values(static_cast<std::size_t>(layer.weight.k));
  formats::decode_row(layer.weight, row, values);
  return values;
}

// The ranks' parts of a layer side by side are the layer; its bias is added once.
void expect_cut(const ops::LinearSet& whole, const std::vector<const ops::LinearSet*>& parts) {
  const ops::Linear& layer = whole.parts.front();
  SCOPED_TRACE(layer.name);
  for (std::int64_t row = 0; row < layer.weight.n; ++row) {
    std::vector<float> joined;
    for (const ops::LinearSet* part : parts) {
      ASSERT_EQ(part->parts.size(), 1u);
      ASSERT_EQ(part->n(), layer.weight.n);
      const std::vector<float> values = row_of(part->parts.front(), row);
      joined.insert(joined.end(), values.begin(), values.end());
    }
    ASSERT_EQ(joined, row_of(layer, row)) << "row " << row;
  }
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    EXPECT_EQ(parts[rank]->parts.front().bias, rank == 0 ? layer.bias : std::vector<float>());
  }
}

// The part of a rank of gate|up has as many rows of each as down has inputs there.
void expect_fits(const models::Mlp& mlp, bool gated) {
  EXPECT_EQ(mlp.up.n(), (gated ? 2 : 1) * mlp.down.k());
}

void expect_parts_of(const fs::path& path, int ranks) {
  SCOPED_TRACE(path.string() + " on " + std::to_string(ranks));
  const auto whole = models::open_model(path);
  std::vector<std::shared_ptr<models::Model>> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    parts.push_back(models::open_model(path, {rank, ranks, Cut::kInputs}));
  }
  const auto cut = [&](const auto& layer_of) {
    std::vector<const ops::LinearSet*> of_ranks;
    for (const auto& part : parts) {
      of_ranks.push_back(&layer_of(part->network));
    }
    expect_cut(layer_of(whole->network), of_ranks);
  };
  for (std::size_t i = 0; i < whole->network.decoder.blocks.size(); ++i) {
    const auto block = [i](const models::Network& network) -> const models::Block& {
      return network.decoder.blocks[i];
    };
    cut([&](const models::Network& network) -> const ops::LinearSet& {
      return block(network).attention.out;
    });
    for (std::size_t e = 0; e < block(whole->network).experts.size(); ++e) {
      cut([&](const models::Network& network) -> const ops::LinearSet& {
        return block(network).experts[e].down;
      });
    }
    if (block(whole->network).mlp) {
      cut([&](const models::Network& network) -> const ops::LinearSet& {
        return block(network).mlp->down;
      });
      for (const auto& part : parts) {
        expect_fits(*block(part->network).mlp, whole->network.config.gated);
      }
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const models::Network& network = parts[static_cast<std::size_t>(rank)]->network;
    const ops::Division division = models::division_of(network, {rank, ranks, Cut::kInputs});
    EXPECT_TRUE(
        division.sets[static_cast<std::size_t>(network.decoder.blocks.front().attention.out.id)]
            .adds);
    EXPECT_EQ(std::accumulate(division.tokens.begin(), division.tokens.end(), 0L),
              network.config.vocabulary);
    EXPECT_EQ(network.embeddings.tokens.plain().dim(0),
              division.tokens[static_cast<std::size_t>(rank)]);
  }
}

TEST(CutByInputs, HoldsPartsThatAddUp) {
  for (const char* family : {"llama", "llama-bias-tied", "mixtral", "gpt2", "opt", "opt-post-norm",
                             "qwen2", "qwen3-moe", "qwen3-moe-shares", "phi3", "gemma2"}) {
    expect_parts_of(kSource / "tests/families" / family, 2);
  }
  expect_parts_of(kSource / "tests/families/llama", 4);
  expect_parts_of(kSource / "models/demo", 2);
}

class CutFormats : public testing::Test {
 protected:
  fs::path compress(const std::string& recipe, const fs::path& model = kSource / "models/demo") {
    const fs::path target = folder_ / fmt::format("model-{}", ++models_);
    std::string name = recipe;
    if (recipe.starts_with("{")) {
      name = (folder_ / "recipe.json").string();
      std::ofstream(name) << recipe;
    }
    compress::quantize_model(*models::open_model(model), compress::find_recipe(name), target,
                             compress::small_job(2, 32, 1), false, core::silent_progress());
    return target;
  }

  std::string refusal_of(const fs::path& model, int ranks) {
    try {
      (void)models::open_model(model, {0, ranks, Cut::kInputs});
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
      return error.what();
    }
    return "";
  }

  const io::TemporaryFolder folder_;
  int models_ = 0;
};

TEST_F(CutFormats, HoldPartsThatAddUp) {
  for (const char* recipe :
       {"rtn-w4g128", "nf4g32", "nvfp4", "fp8", "gqsa-w4s50", "gqsa-f16s50", "gqsa-any4s50",
        R"({"scheme": "int8-sym-row-a8", "passes": ["rtn"]})"}) {
    expect_parts_of(compress(recipe), 2);
  }
}

TEST_F(CutFormats, SayWhatCannotBeCut) {
  EXPECT_EQ(refusal_of(compress("rtn-w4g128"), 2), "");
  const fs::path wide = compress(R"({"scheme": "int4-sym-g256", "passes": ["rtn"]})");
  EXPECT_EQ(refusal_of(wide, 2),
            "model.layers.0.self_attn.o_proj is int4-sym-g256, which can be cut at multiples of "
            "256 inputs, and 2 GPUs would cut it at 128; use another number of them, or --device "
            "cpu");
  const std::string atom = refusal_of(compress("atom-w4a4", kSource / "tests/families/llama"), 2);
  EXPECT_NE(atom.find("cannot be divided among 2 GPUs: its inputs stand in a stored order; use "
                      "one, or --device cpu"),
            std::string::npos)
      << atom;
}

TEST(Middles, AreCutInWideUnitsWhereThereAreEnough) {
  using models::middle_of;
  using models::Range;
  EXPECT_EQ(middle_of(11008, {0, 2}, 128), (Range{0, 5504}));
  EXPECT_EQ(middle_of(1408, {0, 2}, 32), (Range{0, 640}));
  EXPECT_EQ(middle_of(1408, {1, 2}, 32), (Range{640, 1408}));
  EXPECT_EQ(middle_of(200, {0, 2}, 1), (Range{0, 96})) << "units of 16 where 128 are too many";
  EXPECT_EQ(middle_of(20, {1, 2}, 8), (Range{8, 20}));
  EXPECT_THROW((void)middle_of(128, {0, 2}, 128), core::Error);
}

ranks::RankPlace rank_of(int local_rank, int local_size) {
  ranks::RankPlace rank;
  rank.local_rank = rank.rank = local_rank;
  rank.local_size = rank.size = local_size;
  return rank;
}

std::string refusal_of_place(const device::Place& asked, const ranks::RankPlace& rank, int gpus) {
  try {
    (void)place_of_rank(asked, rank, gpus);
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(PlaceOfRank, IsTheGpuOfItsNumberOnItsHost) {
  const device::Place gpu = device::parse_place("cuda");
  EXPECT_EQ(place_of_rank(gpu, rank_of(1, 2), 2).index, 1);
  EXPECT_EQ(place_of_rank(gpu, rank_of(0, 2), 8).index, 0);
  EXPECT_EQ(place_of_rank(device::parse_place("cuda:1"), {}, 2).index, 1) << "one rank alone";
  EXPECT_FALSE(place_of_rank({}, rank_of(1, 2), 0).on_gpu());
}

TEST(PlaceOfRank, IsRefusedWhereGpusAreTooFew) {
  const device::Place gpu = device::parse_place("cuda");
  EXPECT_EQ(refusal_of_place(gpu, rank_of(0, 4), 2),
            "4 ranks on this host need a GPU each, and there are 2; start fewer");
  EXPECT_EQ(refusal_of_place(gpu, rank_of(1, 2), 1),
            "2 ranks on this host need a GPU each, and there is 1; start fewer");
  EXPECT_NE(refusal_of_place(device::parse_place("cuda:1"), rank_of(0, 2), 2).find("one GPU each"),
            std::string::npos);
}

}  // namespace
}  // namespace nibble::engine
