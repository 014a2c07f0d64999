#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compress/recipe/pass.h"
#include "core/json_type.h"
#include "formats/scheme.h"
#include "models/layer_part.h"
#include "models/tuned_step.h"

namespace nibble::compress {

/// One step of a recipe: a pass's name and its options.
struct RecipeStep {
  std::string pass;
  core::HeldJson options = core::HeldJson::object();
};

/// Layers with a scheme of their own: those whose prefix ("model.layers.0.mlp.down_proj") one of
/// the patterns matches (* any text, ? one character, [ab] one of these).
struct LayerRule {
  std::vector<std::string> match;
  formats::Scheme scheme;
};

/// A size to keep to by mixing formats. One of the two is set.
struct SizeTarget {
  double bits = 0;         // for each weight of the layers that are compressed, everything counted
  std::int64_t bytes = 0;  // of all weights of the model
  bool in_gguf = false;    // of a GGUF file, whose blocks of 5 and 6 bits are not held in 8
};

/// What to do with a model: the scheme of every linear layer of its blocks, and the passes that
/// choose the numbers, in order. Embeddings and norms are not rounded.
struct Recipe {
  std::string name;
  formats::Scheme scheme;         // of all layers that no rule matches
  std::vector<LayerRule> layers;  // the first that matches wins
  std::vector<RecipeStep> steps;
  /// Measure the inputs of each set of layers behind the compressed sets before it, not behind
  /// those of the original block.
  bool true_sequential = false;
  /// Every layer that no rule matches gets one of the choices instead of `scheme`, so that the
  /// loss grows as little as possible (allocation/allocate_formats.h).
  std::optional<SizeTarget> target = std::nullopt;
  std::vector<formats::Scheme> choices = {};  // only with a target; empty: format_choices(scheme)
  /// Of the output layer, which then is a matrix of its own even where the model shares it with the
  /// embedding; without it stays as it is. The passes that can serve it (Pass::serves_output) work
  /// on it after the last block.
  std::optional<formats::Scheme> output = std::nullopt;
  /// Of the parts of each layer, in place of `scheme`. What a part that is not there holds stays as
  /// it is, whatever `layers` says, and computes as in the original.
  std::optional<models::PartSchemes> parts = std::nullopt;
  /// The step that the parts were chosen for.
  std::optional<models::TunedStep> tuned = std::nullopt;
};

/// A preset's name, or the path of a JSON file (it ends in ".json"):
///
///   f16 bf16 w8a8 mxfp4 nvfp4
///   rtn-w<2|3|4|8>[g<size>|row][-sym][-<activations>]   gptq-w<...>
///   q2_k q3_k iq4_xs iq4_nl q4_0 q4_1 q4_k q5_0 q5_1 q5_k q6_k q8_0     blocks of GGUF
///   nf4[g<size>|row]  fp4[...]  af4[...]  any4[...]  any3[...]  any2[...]
///
///   w<bits>a<bits>[g<size>|row][-asym]  i4-qall[...]  i8-qall[...]   (part_words.h; w4a4 and w8a8)
///
///   awq-w<...>  awq-gptq-w<...>  smoothquant-w8a8
///
///   atom-w4a4  atom-rot-w4a4  atom-w3a3
///
/// <activations> are the words of a scheme: a8, a4, a4-asym, a4g128c0.9, ...
///
/// magnitude24-, wanda24- or sparsegpt24- in front of any of them, or of best4, keeps two weights
/// of every four (14: one of four; 48, 12, ... alike), wanda-s50- half of each row, before the rest
/// is rounded; one of these alone leaves the rest in f16.
///
/// gqsa-w<bits>[a8][g<size>]s<percent>[-t16][-matrix][-refine] leaves out that share of the groups
/// (of 16) of each row, or the same ones of each 16 rows, or of each matrix;
/// gqsa-f16[g<size>]s<percent>[-matrix] too, and leaves the others in float16.
///
/// quarot- in front of all the others turns the model by Hadamard matrices first; shortgpt2- in
/// front of any name removes the two blocks of least influence before that, alone it leaves f16.
///
/// and behind them, in this order: -gptq (books, blocks, mxfp4 and nvfp4: GPTQ instead of round to
/// nearest), -search (search the scales first), -refine (coordinate descent at the end).
///
/// @3.5 or @2GiB behind the name sets a target (with_target).
///
///   {"name": "mine", "scheme": "int4-asym-g64",
///    "layers": [{"match": "*.down_proj", "scheme": "int8-sym-row-a8"}],
///    "passes": [{"pass": "gptq", "damp": 0.02}]}
///
///   {"scheme": "int4-asym-g64", "target_bits": 3.5, "passes": ["gptq"],   or "fit": "2GiB"
///    "choices": ["int3-asym-g128", "int4-asym-g64", "int8-sym-row"]}      may be left out
///
///   {"scheme": "int4-asym-g64", "passes": ["gptq"], "output": "int8-sym-g32"}
///
///   {"scheme": "int4-sym-row-a4", "passes": ["rtn"],
///    "parts": {"qkv": "w8a8", "mlp-in": "int4-sym-g128-a8"}}      the other parts stay float
///
/// A layer with a dense scheme stays as it is under passes that can't serve dense weights.
///
/// Throws kUsage for a name that is not built, with the names that are.
Recipe find_recipe(std::string_view name_or_file);

/// The recipe with a target, which its name then shows: "gptq-w4g128@3.5". Throws kUsage for a
/// recipe that has one already, that turns or reorders inputs, or that has one format only.
Recipe with_target(Recipe recipe, const SizeTarget& target);

/// The recipe with a scheme for the output layer, which its name then shows. Throws kUsage for a
/// recipe that has one already, and for schemes that turn or reorder inputs.
Recipe with_output(Recipe recipe, const formats::Scheme& scheme);

/// The recipe with schemes for the parts of each layer, which its name then shows. Throws kUsage
/// for a recipe that has them already or that has a target, and for parts that stay float in a
/// model that a pass turns.
Recipe with_parts(Recipe recipe, const models::PartSchemes& parts);

/// The name of the recipe that `nibble tune-strategy` stores for a model, which no one can find
/// without that model.
inline constexpr std::string_view kBestRecipe = "qbest";

/// One line for each preset, for help texts.
std::vector<std::string> recipe_names();

core::Json to_json(const Recipe& recipe);

/// Whether layers of a model compressed by the recipe read what those of the original do: passes
/// that transform change it, but for those whose change stays inside a layer.
bool keeps_inputs(const Recipe& recipe);

}  // namespace nibble::compress
