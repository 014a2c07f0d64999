#include "compress/pipeline/model_card.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>

#include <fmt/ranges.h>

#include "characters/utf8.h"
#include "compress/recipe/pass.h"
#include "core/json.h"

namespace nibble::compress {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFrontMatterBytes = 1 << 16;
constexpr std::array<std::string_view, 4> kKeptFields = {"license", "license_name", "license_link",
                                                         "language"};

// Names come from files and folders: what would end a line, a cell or a `code` is left out.
std::string inline_text(std::string_view text) {
  std::string out = core::printable(text);
  std::erase_if(out, [](char c) { return c == '`' || c == '|' || c == '<' || c == '['; });
  return out;
}

std::string beginning_of(const fs::path& file) {
  std::string text(kMaxFrontMatterBytes, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  return text;
}

// The lines of the kept fields in the YAML at the beginning of a card: "license: mit", and those
// behind it that are indented or items of a list.
std::string kept_front_matter(std::string_view card) {
  std::string kept;
  bool first = true;
  bool keeping = false;
  while (!card.empty()) {
    const std::size_t end = std::min(card.find('\n'), card.size() - 1);
    std::string_view line = card.substr(0, end + 1);
    card.remove_prefix(end + 1);
    line = line.substr(0, line.find_last_not_of(" \r\n") + 1);
    if (line == "---" && !first) {
      return characters::is_valid_utf8(kept) ? kept : "";
    }
    if (first && line != "---") {
      return "";
    }
    first = false;
    const bool continues = line.starts_with(' ') || line.starts_with('-');
    const std::string_view field = line.substr(0, std::min(line.find(':'), line.size()));
    keeping = continues
                  ? keeping
                  : std::find(kKeptFields.begin(), kKeptFields.end(), field) != kKeptFields.end();
    if (keeping && !line.empty()) {
      kept.append(line).append("\n");
    }
  }
  return "";  // no end
}

std::string front_matter_of(const fs::path& model) {
  std::error_code error;
  for (fs::directory_iterator entry(model, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->is_regular_file(error) && is_model_card(entry->path().filename().native())) {
      return kept_front_matter(beginning_of(entry->path()));
    }
  }
  return "";
}

bool is_repository_name(std::string_view name) {
  const auto good = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '/';
  };
  return !name.empty() && name.size() <= 200 && std::all_of(name.begin(), name.end(), good) &&
         std::count(name.begin(), name.end(), '/') == 1 && !name.starts_with('/') &&
         !name.ends_with('/');
}

// "organization/model" of the original at Hugging Face, where its place tells: the hub's cache
// (.../models--organization--model/snapshots/...), or a folder "model" whose config.json calls it
// so. config.json alone may mean a model that this one was trained from.
std::string repository_of(const models::Model& model) {
  std::error_code error;
  const fs::path path = fs::weakly_canonical(model.path, error);
  for (const fs::path& part : path) {
    constexpr std::string_view kPrefix = "models--";
    std::string name = part.native();
    const std::size_t dashes = name.find("--", kPrefix.size());
    if (name.starts_with(kPrefix) && dashes != std::string::npos) {
      name = name.substr(kPrefix.size(), dashes - kPrefix.size()) + "/" + name.substr(dashes + 2);
      return is_repository_name(name) ? name : "";
    }
  }
  const auto called = model.config_json->find("_name_or_path");
  if (called == model.config_json->end() || !called->is_string()) {
    return "";
  }
  const auto& name = called->get_ref<const std::string&>();
  const bool same = fs::path(name).filename() == path.filename();
  return same && is_repository_name(name) ? name : "";
}

std::string front_matter(const models::Model& original, const std::string& repository) {
  std::string text = "---\n";
  if (fs::is_directory(original.path)) {
    text += front_matter_of(original.path);
  }
  if (!repository.empty()) {
    text += fmt::format("base_model: {}\nbase_model_relation: quantized\n", repository);
  }
  return text + "tags:\n- nibble\n- quantized\n---\n";
}

std::string passes_of(const Recipe& recipe) {
  std::vector<std::string> names;
  for (const RecipeStep& step : recipe.steps) {
    names.push_back(step.pass);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string calibration_of(const Recipe& recipe, const CalibrationOptions& calibration) {
  const bool needed =
      std::any_of(recipe.steps.begin(), recipe.steps.end(), [](const RecipeStep& step) {
        const auto pass = make_pass(step.pass, *step.options);
        return pass->traits().statistics != StatisticsKind::kNone || pass->removed_blocks() > 0;
      });
  if (!needed) {
    return "none";
  }
  return fmt::format("{}, at most {} windows of {} tokens",
                     calibration.texts.empty() ? "text that the model wrote itself" : "given text",
                     calibration.samples, calibration.seq_len);
}

std::string name_of(const models::Model& model) {
  const fs::path path = fs::absolute(model.path / ".").lexically_normal().parent_path();
  return (fs::is_directory(path) ? path.filename() : path.stem()).string();
}

std::string megabytes(const models::Model& model) {
  return fmt::format("{:.2f} MB",
                     static_cast<double>(models::total_weight_bytes(model.network)) / 1e6);
}

std::string table_of(const models::Model& original, const models::Model& result,
                     const CardFacts& facts) {
  std::string text = "| | |\n| --- | --- |\n";
  const auto row = [&](std::string_view name, const std::string& value) {
    text += fmt::format("| {} | {} |\n", name, value);
  };
  row("recipe", fmt::format("`{}`", inline_text(facts.recipe)));
  row("scheme of most layers", fmt::format("`{}`", facts.scheme));
  for (const auto& [name, value] : facts.rows) {
    row(name, value);
  }
  row("bits per weight in the blocks",
      fmt::format("{:.3f}", models::block_bits_per_weight(result.network)));
  row("size of the weights", fmt::format("{} (was {})", megabytes(result), megabytes(original)));
  return text;
}

std::string damage_section(const models::Network& network,
                           const std::optional<MeasuredDamage>& damage) {
  if (network.has_encoder()) {
    return "Not measured: it is the task that tells.\n";
  }
  if (!damage) {
    return "Not measured yet. This tells, on a text of yours:\n\n"
           "    nibble eval FOLDER --text TEXT --reference ORIGINAL\n";
  }
  const double increase = 100.0 * (damage->perplexity / damage->original_perplexity - 1.0);
  std::string text = fmt::format(
      "Measured by `nibble compare` on the text `{}`:\n\n| | |\n| --- | --- |\n"
      "| perplexity | {:.4f} (was {:.4f}, {:+.2f} %) |\n",
      inline_text(fs::path(damage->text).filename().string()), damage->perplexity,
      damage->original_perplexity, increase);
  if (damage->kl_divergence) {
    text +=
        fmt::format("| KL divergence from the original | {:.5f} nats |\n", *damage->kl_divergence);
  }
  if (damage->top1_agreement) {
    text +=
        fmt::format("| same most probable token | {:.2f} % |\n", 100.0 * *damage->top1_agreement);
  }
  return text;
}

}  // namespace

std::string model_card(const models::Model& original, const models::Model& result,
                       const Recipe& recipe, const PipelineOptions& options) {
  CardFacts facts = {
      recipe.name,
      to_string(recipe.scheme),
      {{"passes", passes_of(recipe)}, {"calibration", calibration_of(recipe, options.calibration)}},
      options.damage};
  if (options.adapter) {
    facts.rows.emplace_back("adapter, merged before",
                            inline_text(options.adapter->path().filename().string()));
  }
  return model_card(original, result, facts);
}

std::string model_card(const models::Model& original, const models::Model& result,
                       const CardFacts& facts) {
  const std::string repository = repository_of(original);
  const std::string name = repository.empty() ? inline_text(name_of(original)) : repository;
  const std::string recipe_name = inline_text(facts.recipe);
  std::string text = front_matter(original, repository);
  text += fmt::format("\n# {}, {}\n\n", name, recipe_name);
  text += repository.empty()
              ? name
              : fmt::format("[{}](https://huggingface.co/{})", repository, repository);
  text += fmt::format(", compressed by Nibble with the recipe `{}`.\n\n", recipe_name);
  text += table_of(original, result, facts);
  text += "\n## What it cost\n" + damage_section(result.network, facts.damage);
  text +=
      "\n## How to run it\nFOLDER is where this file lies. The weights are in a format of "
      "Nibble's own; other programs do not read it.\n\n";
  if (result.network.pooling) {
    text += "    nibble embed FOLDER --texts FILE\n";
  }
  if (result.network.classifier) {
    text += "    nibble classify FOLDER --texts FILE\n";
  }
  if (result.network.has_encoder()) {
    return text;
  }
  text += "    nibble run FOLDER -p \"Once upon a time\"\n";
  if (!result.tokenizer->chat_template().empty()) {
    text += "    nibble chat FOLDER\n";
  }
  return text + "    nibble serve FOLDER\n";
}

}  // namespace nibble::compress
