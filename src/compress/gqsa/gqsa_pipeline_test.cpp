// GQSA of whole models: what their folders hold, and what damaged folders do.

#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "compress/pipeline/pipeline_for_tests.h"
#include "core/json.h"
#include "core/random.h"
#include "formats/block_sparse.h"
#include "io/temporary_folder_for_tests.h"
#include "models/forward.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = NIBBLE_SOURCE_DIR;

// All layers that are block-sparse rows.
std::vector<const ops::Linear*> sparse_layers(const models::Model& model) {
  std::vector<const ops::Linear*> layers;
  for (const models::Block& block : model.network.decoder.blocks) {
    for (const ops::LinearSet* set : models::linear_sets(block)) {
      for (const ops::Linear& part : set->parts) {
        if (formats::is_block_sparse(part.weight.scheme)) {
          layers.push_back(&part);
        }
      }
    }
  }
  return layers;
}

TEST(GqsaPipeline, StoresTheKeptGroupsOfEveryRow) {
  const io::TemporaryFolder folder;
  const PipelineOptions options = small_job(2, 16, 2);
  for (const char* family : {"llama", "mixtral", "gpt2"}) {
    const auto model = models::open_model(kSource / "tests/families" / family);
    for (const char* name :
         {"gqsa-w4s50", "gqsa-w8g8s25-matrix", "gqsa-w4a8s50", "gqsa-w4s50-t16", "gqsa-f16s50",
          "gqsa-f16g8s25-matrix", "gqsa-w4s50-s7", "gqsa-any4s50", "gqsa-any3g8s25-matrix"}) {
      const fs::path target = folder / fmt::format("{}-{}", family, name);
      const Recipe recipe = find_recipe(name);
      quantize_model(*model, recipe, target, options, false, core::silent_progress());
      const auto stored = models::open_model(target);
      const auto in_memory =
          quantize_in_memory(*model, recipe, options, core::silent_progress()).model;
      const auto layers = sparse_layers(*stored);
      const auto expected = sparse_layers(*in_memory);
      ASSERT_EQ(layers.size(), expected.size());
      EXPECT_GE(layers.size(), 8u) << family;
      for (std::size_t i = 0; i < layers.size(); ++i) {
        const formats::PackedWeight& weight = layers[i]->weight;
        const std::int64_t groups = formats::groups_per_row(weight.scheme, weight.k);
        std::vector<float> row(static_cast<std::size_t>(weight.k));
        std::vector<float> other(row.size());
        for (std::int64_t n = 0; n < weight.n; ++n) {
          formats::decode_row(weight, n, row);
          formats::decode_row(expected[i]->weight, n, other);
          ASSERT_EQ(row, other) << layers[i]->name;
          const auto [begin, end] = formats::stored_groups_of(weight, n);
          EXPECT_TRUE(recipe.steps[0].options->contains("balance") || end - begin <= groups / 2);
        }
        EXPECT_LE(formats::stored_group_count(weight),
                  weight.n * groups - static_cast<std::int64_t>(
                                          recipe.steps[0].options->at("sparsity").get<double>() *
                                          static_cast<double>(weight.n * groups)));
      }
    }
  }
}

// Final states of a text.
std::vector<float> outputs(const models::Model& model, ops::ActivationPrecision activations) {
  ops::cpu::CpuOps ops({2, activations});
  for (const models::Block& block : model.network.decoder.blocks) {
    for (const ops::LinearSet* set : models::linear_sets(block)) {
      ops.prepare(*set);
    }
  }
  const std::vector<std::int32_t> tokens = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
  std::vector<std::int32_t> positions(tokens.size());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    positions[i] = static_cast<std::int32_t>(i);
  }
  const ops::SequenceSlice<ops::cpu::KvCache> alone{nullptr, 0, 0,
                                                    static_cast<std::int64_t>(tokens.size())};
  const models::Batch<ops::cpu::CpuOps> batch{tokens, positions, {&alone, 1}};
  const auto hidden = models::hidden_states(ops, model.network, batch);
  return {hidden.values().begin(), hidden.values().end()};
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    size += static_cast<double>(a[i]) * a[i];
  }
  return sum / size;
}

TEST(GqsaPipeline, HarmsMoreTheMoreItPrunesAndRunsAsItDecodes) {
  const auto model = models::open_model(kSource / "models/demo");
  const PipelineOptions options = small_job_on_text(8, 128, 2);
  const auto original = outputs(*model, ops::ActivationPrecision::kFloat);
  double last = 0;
  for (const char* name : {"gqsa-w8s20", "gqsa-w4s50", "gqsa-w4s80"}) {
    const auto compressed =
        quantize_in_memory(*model, find_recipe(name), options, core::silent_progress()).model;
    const auto decoded = outputs(*compressed, ops::ActivationPrecision::kFloat);
    const double harm = distance(original, decoded);
    EXPECT_GT(harm, last) << name;
    last = harm;
    const auto run = outputs(*compressed, ops::ActivationPrecision::kInt8);
    EXPECT_LT(distance(decoded, run), 0.05 * harm) << name;
    EXPECT_LT(distance(decoded, outputs(*compressed, ops::ActivationPrecision::kInt16)), 1e-6);
  }
}

// What is kept is rounded to float16 alone: the harm is near that of 8 bits, and no precision
// rounds activations.
TEST(GqsaPipeline, LeavesTheKeptFloatsAsTheyAre) {
  const auto model = models::open_model(kSource / "models/demo");
  const PipelineOptions options = small_job_on_text(8, 128, 2);
  const auto original = outputs(*model, ops::ActivationPrecision::kFloat);
  const auto pruned = [&](const char* recipe) {
    return quantize_in_memory(*model, find_recipe(recipe), options, core::silent_progress()).model;
  };
  const auto floats = pruned("gqsa-f16s20");
  const auto run = outputs(*floats, ops::ActivationPrecision::kInt8);
  EXPECT_EQ(outputs(*floats, ops::ActivationPrecision::kFloat), run);
  const double harm = distance(original, run);
  const double of_codes =
      distance(original, outputs(*pruned("gqsa-w8s20"), ops::ActivationPrecision::kFloat));
  EXPECT_GT(harm, 0.05);
  EXPECT_NEAR(harm, of_codes, 0.1 * of_codes);
  EXPECT_GT(distance(original, outputs(*pruned("gqsa-f16s50"), ops::ActivationPrecision::kInt8)),
            1.2 * harm);
}

// Wrong bytes in a folder give a model or one line that says what is wrong.
void expect_damage_is_refused(const char* recipe) {
  const io::TemporaryFolder folder;
  const auto model = models::open_model(kSource / "tests/families/llama");
  quantize_model(*model, find_recipe(recipe), folder / "model", small_job(2, 16, 1), false,
                 core::silent_progress());
  const auto opened = models::open_model(folder / "model");
  const formats::PackedWeight& weight = sparse_layers(*opened).front()->weight;
  std::string indices(reinterpret_cast<const char*>(weight.row_index.raw()),
                      static_cast<std::size_t>(weight.row_index.bytes()));
  int refused = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / "model")) {
    if (entry.path().extension() != ".safetensors") {
      continue;
    }
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(file), {}};
    const std::size_t at = whole.find(indices);
    for (std::size_t byte = 0; at != std::string::npos && byte < indices.size(); ++byte) {
      std::string bad = whole;
      bad[at + byte] = static_cast<char>(bad[at + byte] ^ 0x41);
      std::ofstream(entry.path(), std::ios::binary) << bad;
      try {
        (void)models::open_model(folder / "model");
        ADD_FAILURE() << "byte " << byte << " of row_index";
      } catch (const core::Error& error) {
        EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel) << error.what();
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
        ++refused;
      }
    }
    std::ofstream(entry.path(), std::ios::binary) << whole;
  }
  EXPECT_GT(refused, 0);
  EXPECT_EQ(refused % static_cast<int>(indices.size()), 0) << "of each layer with these indices";
}

TEST(GqsaPipeline, DamagedIndicesAreRefused) {
  for (const char* recipe : {"gqsa-w4s50", "gqsa-f16s50", "gqsa-any4s50"}) {
    SCOPED_TRACE(recipe);
    expect_damage_is_refused(recipe);
  }
}

}  // namespace
}  // namespace nibble::compress
