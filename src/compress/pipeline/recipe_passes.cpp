#include "compress/pipeline/recipe_passes.h"

#include <algorithm>

namespace nibble::compress {

RecipePasses::RecipePasses(const Recipe& recipe) {
  for (const RecipeStep& step : recipe.steps) {
    auto pass = make_pass(step.pass, *step.options);
    const PassTraits traits = pass->traits();
    entries_.push_back({step.pass, std::move(pass), traits});
  }
}

std::int64_t RecipePasses::removed_blocks() const {
  std::int64_t blocks = 0;
  for (const Entry& entry : entries_) {
    blocks += entry.pass->removed_blocks();
  }
  return blocks;
}

StatisticsKind RecipePasses::needs() const {
  StatisticsKind most = StatisticsKind::kNone;
  for (const Entry& entry : entries_) {
    most = std::max(most, entry.traits.statistics);
  }
  return most;
}

StatisticsKind RecipePasses::transforms_need() const {
  StatisticsKind most = StatisticsKind::kNone;
  for (const Entry& entry : entries_) {
    if (entry.traits.stage <= Stage::kTransforms) {
      most = std::max(most, entry.traits.statistics);
    }
  }
  return most;
}

bool RecipePasses::needs_curvature() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.traits.needs_curvature; });
}

bool RecipePasses::needs_magnitudes() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.traits.reads_magnitudes; });
}

bool RecipePasses::transforms_model() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
    return entry.traits.stage == Stage::kTransformsModel;
  });
}

std::unique_ptr<ModelTransform> RecipePasses::transform(const models::Network& network) const {
  std::unique_ptr<ModelTransform> found;
  for (const Entry& entry : entries_) {
    if (auto transform = entry.pass->transform(network)) {
      found = std::move(transform);
    }
  }
  return found;
}

std::string RecipePasses::left_out_of_output(const formats::Scheme& scheme) const {
  std::string names;
  for (const Entry& entry : entries_) {
    if (!entry.pass->serves_output(scheme)) {
      names += (names.empty() ? "" : ", ") + entry.name;
    }
  }
  return names;
}

}  // namespace nibble::compress
