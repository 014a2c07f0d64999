#include "compress/export/export_target.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/ranges.h>

#include "compress/recipe/format_choices.h"
#include "compress/recipe/layer_schemes.h"
#include "core/error.h"
#include "core/nearest_name.h"
#include "formats/exchange/integer_grid.h"
#include "formats/gguf_types.h"
#include "models/exchange/model_layers.h"
#include "models/exchange/target_scheme.h"
#include "models/gguf/gguf_metadata.h"
#include "models/gguf/gguf_vocabulary_writer.h"

namespace nibble::compress {
namespace {

using core::ErrorKind;
using formats::Scheme;
using formats::exchange::Writer;

constexpr std::string_view kGguf = "gguf";
constexpr std::array<std::string_view, 1> kGgufFiles = {kGguf};
constexpr std::array<std::string_view, 1> kMlxFolders = {"mlx"};
constexpr std::array<std::string_view, 2> kVllmFolders = {"compressed-tensors", "awq"};
constexpr std::array<std::string_view, 3> kTransformersFolders = {"compressed-tensors", "gptq",
                                                                  "awq"};

constexpr const char* kPrompt = "A library is";
constexpr const char* kPipeline =
    "import sys, transformers; print(transformers.pipeline('text-generation', sys.argv[1])"
    "(sys.argv[2])[0]['generated_text'])";

constexpr ExportTarget kTargets[] = {
    {"vllm", "gptq-w4g128-sym", kVllmFolders,
     [](const std::string& output) {
       return std::vector<std::string>{"vllm", "serve", output};
     }},
    {"llama.cpp", "q4_k-gptq-search", kGgufFiles,
     [](const std::string& output) {
       return std::vector<std::string>{"llama-cli", "-m", output, "-p", kPrompt};
     }},
    {"transformers", "gptq-w4g128-sym", kTransformersFolders,
     [](const std::string& output) {
       return std::vector<std::string>{"python3", "-c", kPipeline, output, kPrompt};
     }},
    {"mlx", "gptq-w4g64", kMlxFolders, [](const std::string& output) {
       return std::vector<std::string>{"mlx_lm.generate", "--model", output, "--prompt", kPrompt};
     }}};

constexpr std::array<std::int64_t, 3> kGroups = {128, 64, 32};

// What GGUF's blocks take over of other integers.
constexpr std::array<std::string_view, 3> kBlocks = {"int4-sym-g32", "int4-asym-g32",
                                                     "int8-sym-g32"};

Scheme nearest_block(const Scheme& scheme) {
  if (formats::is_of_gguf_alone(scheme)) {
    return scheme;
  }
  const bool symmetric = formats::is_integer(scheme) && !formats::has_zeros(scheme);
  return formats::parse_scheme(kBlocks[scheme.code.bits > 4 ? 2 : symmetric ? 0 : 1]);
}

// What of a recipe's layers the files of a method can be asked.
class Files {
 public:
  explicit Files(std::string_view method) : method_(method) {
    for (const formats::exchange::Kind& kind : formats::exchange::kinds()) {
      if (kind.method == method && kind.make_writer != nullptr) {
        writer_ = kind.make_writer();
      }
    }
  }

  std::string_view method() const { return method_; }
  bool mixes() const { return writer_ == nullptr; }

  Scheme nearest(const Scheme& scheme) const {
    return writer_ ? writer_->nearest(scheme) : nearest_block(scheme);
  }

  // Why a layer's codes and scales can't be taken over; empty: they can.
  std::string problem(const Scheme& scheme, const formats::PackedWeight& weight) const {
    if (!formats::has_codes(scheme)) {  // GGUF takes floats with their zeros
      const bool fits = mixes() || formats::is_dense(scheme);
      return fits ? "" : fmt::format("{} has no place for {}", method_, scheme);
    }
    const gguf_blocks::BlockType* const blocks = writer_ ? nullptr : formats::block_type_of(scheme);
    if (blocks != nullptr) {
      return weight.k % blocks->block_elements == 0
                 ? ""
                 : fmt::format("its rows are no multiple of {}", blocks->block_elements);
    }
    if (!formats::exchange::moves_to(scheme, nearest(scheme))) {
      return fmt::format("{} has no place for {}", method_, scheme);
    }
    if (writer_) {
      return writer_->problem(nearest(scheme), weight.n, weight.k);
    }
    return weight.k % 32 == 0 ? "" : "its rows are no multiple of 32";
  }

 private:
  std::string_view method_;
  std::unique_ptr<const Writer> writer_;
};

// The preset of the recipe's method with another scheme.
std::string preset_of(const Recipe& recipe, const Scheme& scheme) {
  std::string name;
  const auto has = [&](std::string_view pass) {
    return std::any_of(recipe.steps.begin(), recipe.steps.end(),
                       [&](const RecipeStep& step) { return step.pass == pass; });
  };
  name += has("awq") ? "awq-" : "";
  name += has("gptq") ? "gptq-" : "";
  name += name.empty() ? "rtn-" : "";
  const std::string group =
      scheme.scale.group == 0 ? "row" : fmt::format("g{}", scheme.scale.group);
  return fmt::format("{}w{}{}{}", name, scheme.code.bits, group,
                     formats::has_zeros(scheme) ? "" : "-sym");
}

// Asks the files about every layer of a recipe.
class Chooser {
 public:
  Chooser(const models::Model& model, const Recipe& recipe, const ExportTarget& target)
      : recipe_(recipe), target_(target), schemes_(layer_schemes(model.network, recipe)) {
    for (const models::Block* block : models::all_blocks(model.network)) {
      for (const ops::Linear* layer : models::layers_of(*block)) {
        weights_.emplace(layer->name, &layer->weight);
      }
    }
    if (!model.network.output.parts.empty()) {
      weights_.emplace(models::kOutputName, &model.network.output.parts.front().weight);
    }
  }

  // Why they can't take the recipe; empty: they can.
  std::string problem(const Files& files) const {
    if (recipe_.target && !files.mixes()) {
      return fmt::format("{} has one scheme for all layers, and no mixture", files.method());
    }
    std::optional<Scheme> first;
    for (const auto& [name, scheme] : schemes_) {
      const std::string problem = problem_of_layer(files, name, scheme);
      if (!problem.empty()) {
        return fmt::format("layer {}: {}", core::printable(name), problem);
      }
      if (!formats::has_codes(scheme) || files.mixes()) {
        continue;
      }
      if (first && !(*first == scheme)) {
        return fmt::format("{} has one scheme for all layers, not {} and {}", files.method(),
                           *first, scheme);
      }
      first = scheme;
    }
    return first || files.mixes() ? "" : "the recipe leaves all layers as they are";
  }

  // Of a file for the recipe.
  int bits(const Files& files) const { return files.nearest(recipe_.scheme).code.bits; }

  [[noreturn]] void refuse(const std::string& problem) const {
    const std::optional<Scheme> nearest = nearest_scheme();
    core::fail(ErrorKind::kUsage, "recipe '{}' is not for {}: {}{}", core::printable(recipe_.name),
               target_.name, problem,
               nearest ? fmt::format("; the nearest that it takes over is {}",
                                     preset_of(recipe_, *nearest))
                       : "");
  }

 private:
  // With as many bits, if that can be; then with zero points where the recipe has them.
  std::optional<Scheme> nearest_scheme() const {
    const Scheme& wanted = recipe_.scheme;
    const auto distance = [&](const Scheme& scheme) {
      return std::pair(std::abs(scheme.code.bits - wanted.code.bits),
                       formats::has_zeros(scheme) != formats::has_zeros(wanted));
    };
    std::optional<Scheme> best;
    for (const std::string_view method : target_.methods) {
      const auto found = nearest_scheme(Files(method));
      if (found && (!best || distance(*found) < distance(*best))) {
        best = found;
      }
    }
    return best;
  }

  // In the files of a method, with groups that divide the rows of all layers.
  std::optional<Scheme> nearest_scheme(const Files& files) const {
    Scheme scheme = files.nearest(recipe_.scheme);
    scheme.activation = {};
    for (const std::int64_t group : {scheme.scale.group, kGroups[0], kGroups[1], kGroups[2]}) {
      scheme.scale.group = group;
      const bool fits = std::all_of(schemes_.begin(), schemes_.end(), [&](const auto& layer) {
        return layer.first == models::kOutputName ||
               files.problem(scheme, *weights_.at(layer.first)).empty();
      });
      if (fits) {
        return scheme;
      }
    }
    return std::nullopt;
  }

  std::string problem_of_layer(const Files& files, const std::string& name,
                               const Scheme& scheme) const {
    if (name == models::kOutputName && !files.mixes()) {
      return fmt::format("the output layer stays in 16 bits in {}", files.method());
    }
    const formats::PackedWeight& weight = *weights_.at(name);
    if (!recipe_.target || rule_for(recipe_, name) != nullptr) {
      return files.problem(scheme, weight);
    }
    std::string of_rows;
    bool held = false;
    for (const Scheme& choice : recipe_.choices) {
      const std::string problem = files.problem(choice, weight);
      if (!problem.empty() && formats::block_type_of(choice) == nullptr) {
        return problem;
      }
      held = held || problem.empty();
      of_rows = problem.empty() ? of_rows : problem;
    }
    return held ? "" : of_rows;  // layers take the choices whose blocks divide their rows
  }

  const Recipe& recipe_;
  const ExportTarget& target_;
  std::map<std::string, Scheme> schemes_;
  std::map<std::string, const formats::PackedWeight*> weights_;
};

// Those of the model, in at most 16 bits.
Scheme plain_numbers(const models::Model& model) {
  const ops::Linear& first = *models::layers_of(*models::all_blocks(model.network).front()).front();
  Scheme plain = first.weight.scheme;
  if (plain.code.dense == core::DType::kF32) {
    plain.code.dense = core::DType::kF16;
  }
  return plain;
}

void require_model(const models::Model& model, const Files& files) {
  if (files.mixes()) {
    (void)models::gguf_architecture(model);
    (void)models::vocabulary_of(model);
  } else {
    models::require_family(model, files.method());
  }
}

}  // namespace

std::span<const ExportTarget> export_targets() {
  return kTargets;
}

const ExportTarget& find_export_target(std::string_view name) {
  std::vector<std::string> names;
  for (const ExportTarget& target : kTargets) {
    if (target.name == name) {
      return target;
    }
    names.emplace_back(target.name);
  }
  core::fail(ErrorKind::kUsage, "there is no target '{}'{}; there are {}", core::printable(name),
             core::suggestion(std::string(name), names), fmt::join(names, ", "));
}

std::string choose_method(const models::Model& model, Recipe& recipe, const ExportTarget& target) {
  if (recipe.target && target.methods.front() == kGguf) {
    recipe.target->in_gguf = true;
    if (recipe.choices.empty()) {
      recipe.choices = gguf_choices();
      recipe.choices.push_back(plain_numbers(model));
    }
  }
  const Chooser chooser(model, recipe, target);
  std::optional<Files> best;
  std::string problem;
  for (const std::string_view method : target.methods) {
    Files files(method);
    const std::string of_method = chooser.problem(files);
    problem = problem.empty() ? of_method : problem;
    if (of_method.empty() && (!best || chooser.bits(files) < chooser.bits(*best))) {
      best = std::move(files);
    }
  }
  if (!best) {
    chooser.refuse(problem);
  }
  require_model(model, *best);
  return std::string(best->method());
}

}  // namespace nibble::compress
