#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compress/recipe/recipe.h"
#include "models/model.h"

namespace nibble::compress {

/// A program that a model is quantized for.
struct ExportTarget {
  std::string_view name;    // "vllm"
  std::string_view recipe;  // where none is given
  /// Files that it reads, by models::convert_folder's names or "gguf": of equal size the first.
  std::span<const std::string_view> methods;
  /// The words of a command that runs what was written.
  std::vector<std::string> (*run)(const std::string& output);
};

/// vllm, llama.cpp, transformers, mlx.
std::span<const ExportTarget> export_targets();

/// Throws kUsage for a name that is none of them.
const ExportTarget& find_export_target(std::string_view name);

/// The method whose files take over codes and scales of all layers that `recipe` makes of `model`;
/// of several that with the fewest bits. A mixture of formats gets `recipe.choices` of the target.
///
/// Throws kUsage naming a layer that none can hold and the nearest recipe, and for mixtures where
/// the files have one scheme for all layers; kInvalidModel for models that are not written so.
std::string choose_method(const models::Model& model, Recipe& recipe, const ExportTarget& target);

}  // namespace nibble::compress
