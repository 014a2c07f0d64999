#include "compress/pipeline/model_card.h"

#include <fstream>

#include <gtest/gtest.h>

#include "compress/pipeline/pipeline_for_tests.h"
#include "core/json.h"
#include "io/temporary_folder_for_tests.h"

namespace nibble::compress {
namespace {

namespace fs = std::filesystem;
using core::ErrorKind;

const fs::path kLlama = fs::path(NIBBLE_SOURCE_DIR) / "tests/families/llama";

// The card that the model in `folder` gets, with `readme` as its own.
std::string card_of(const fs::path& folder, const std::string& readme,
                    const PipelineOptions& options = {}) {
  fs::create_directories(folder.parent_path());
  fs::copy(kLlama, folder, fs::copy_options::skip_existing | fs::copy_options::recursive);
  std::ofstream(folder / "Readme.md", std::ios::binary) << readme;
  const auto model = models::open_model(folder);
  return model_card(*model, *model, find_recipe("gptq-w4g16"), options);
}

std::string front_matter(const std::string& card) {
  return card.substr(0, card.find("---\n", 4));
}

const std::string kTags = "tags:\n- nibble\n- quantized\n";

TEST(ModelCard, KeepsTheLicenceAndTheLanguages) {
  const io::TemporaryFolder folder;
  EXPECT_EQ(front_matter(card_of(folder / "m",
                                 "---\r\nlanguage:\r\n- en\r\n  - de\r\ntags:\r\n- chat\r\n"
                                 "license: mit\r\nwidget:\r\n  license: x\r\n---\r\n# M\r\n")),
            "---\nlanguage:\n- en\n  - de\nlicense: mit\n" + kTags);
  for (const std::string& other :
       {std::string(), std::string("# No front matter\nlicense: mit\n"),
        std::string("---\nlicense: mit\n"), std::string("---\nlicense: \xff\n---\n"),
        "---\nlicense: mit\n" + std::string(1 << 17, '\n') + "---\n", std::string("---")}) {
    EXPECT_EQ(front_matter(card_of(folder / "m", other)), "---\n" + kTags) << other.substr(0, 40);
  }
}

TEST(ModelCard, NamesTheOriginalWhereItsPlaceTells) {
  const io::TemporaryFolder folder;
  const std::string cached = card_of(folder / "models--some.org--Small-1.5B/snapshots/0123", "");
  EXPECT_EQ(front_matter(cached),
            "---\nbase_model: some.org/Small-1.5B\nbase_model_relation: quantized\n" + kTags);
  EXPECT_NE(cached.find("# some.org/Small-1.5B, gptq-w4g16\n"), std::string::npos) << cached;
  EXPECT_NE(cached.find("(https://huggingface.co/some.org/Small-1.5B)"), std::string::npos);

  const fs::path plain = folder / "Small-1.5B";
  EXPECT_NE(card_of(plain, "").find("# Small-1.5B, gptq-w4g16\n"), std::string::npos);
  const auto called = [&](const std::string& name) {
    auto model = models::open_model(plain);
    (*model->config_json)["_name_or_path"] = name;
    return model_card(*model, *model, find_recipe("gptq-w4g16"), {});
  };
  EXPECT_NE(called("org/Small-1.5B").find("base_model: org/Small-1.5B\n"), std::string::npos);
  for (const char* other : {"org/Parent", "/srv/Small-1.5B", "Small-1.5B", "org\n/Small-1.5B"}) {
    EXPECT_EQ(called(other).find("base_model:"), std::string::npos) << other;
  }
}

TEST(ModelCard, NamesCannotBreakOut) {
  const io::TemporaryFolder folder;
  const auto model = models::open_model(kLlama);
  Recipe recipe = find_recipe("gptq-w4g16");
  recipe.name = "a`b\n| c <script>";
  PipelineOptions options;
  options.damage = MeasuredDamage{"dir/t`.txt", 10.0, 11.0, 0.125, 0.5};
  const std::string card = model_card(*model, *model, recipe, options);
  EXPECT_NE(card.find("| recipe | `ab\\x0a c script>` |"), std::string::npos) << card;
  EXPECT_NE(card.find("text `t.txt`"), std::string::npos) << card;
  EXPECT_NE(card.find("11.0000 (was 10.0000, +10.00 %)"), std::string::npos) << card;
  EXPECT_NE(card.find("0.12500 nats"), std::string::npos) << card;
  EXPECT_NE(card.find("50.00 %"), std::string::npos) << card;
}

TEST(ModelCard, SaysWhatItWasCalibratedOn) {
  const auto model = models::open_model(kLlama);
  PipelineOptions options = small_job(7, 32, 1);
  const auto card = [&](const char* recipe) {
    return model_card(*model, *model, find_recipe(recipe), options);
  };
  EXPECT_NE(card("rtn-w4g16").find("| calibration | none |"), std::string::npos);
  EXPECT_NE(card("gptq-w4g16").find("text that the model wrote itself, at most 7 windows of 32"),
            std::string::npos);
  options = small_job_on_text(7, 32, 1);
  EXPECT_NE(card("gptq-w4g16").find("| calibration | given text, at most 7"), std::string::npos);
}

TEST(MeasuredDamage, IsTheRowOfTheRecipe) {
  const std::string table =
      R"({"text": "t.txt", "rows": [{"recipe": "original", "perplexity": 10},
          {"recipe": "a", "perplexity": 12, "kl_divergence": 0.1, "top1_agreement": 0.9},
          {"recipe": "b", "perplexity": -1}]})";
  const MeasuredDamage damage = find_damage(table, "d.json", "a");
  EXPECT_EQ(damage.original_perplexity, 10.0);
  EXPECT_EQ(damage.perplexity, 12.0);
  EXPECT_EQ(damage.top1_agreement, 0.9);
  io::expect_error(ErrorKind::kUsage, {"d.json", "'c'", "original, a, b"},
                   [&] { find_damage(table, "d.json", "c"); });
  io::expect_error(ErrorKind::kInvalidModel, {"d.json", "perplexity"},
                   [&] { find_damage(table, "d.json", "b"); });
  for (const char* other : {"[]", "{}", R"({"rows": []})", R"({"rows": [1]})", "nonsense"}) {
    io::expect_error(ErrorKind::kInvalidModel, {"d.json"},
                     [&] { find_damage(other, "d.json", "a"); });
  }
}

}  // namespace
}  // namespace nibble::compress
