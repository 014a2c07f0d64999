#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compress/recipe/pass.h"
#include "compress/recipe/recipe.h"

namespace nibble::compress {

/// The passes of a recipe in their order, and what they need together.
class RecipePasses {
 public:
  struct Entry {
    std::string name;
    std::unique_ptr<const Pass> pass;
    PassTraits traits;
  };

  explicit RecipePasses(const Recipe& recipe);

  /// Of the model, before all else.
  std::int64_t removed_blocks() const;

  const std::vector<Entry>& entries() const { return entries_; }

  /// What the passes need of the layers' inputs: all of them, or those that transform.
  StatisticsKind needs() const;
  StatisticsKind transforms_need() const;
  bool needs_curvature() const;
  bool needs_magnitudes() const;
  bool transforms_model() const;

  /// What one of them makes of the whole model; null where none does. Throws kUsage for models that
  /// it can't serve.
  std::unique_ptr<ModelTransform> transform(const models::Network& network) const;

  /// The names of those that have no part in an output layer with this scheme: "atom-reorder, awq".
  std::string left_out_of_output(const formats::Scheme& scheme) const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace nibble::compress
