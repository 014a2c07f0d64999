#include "formats/super_blocks.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "formats/fp16_scale.h"
#include "formats/gguf_types.h"

namespace nibble::formats {
namespace {

using gguf_blocks::BlockForm;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// The multiple of `unit` that is nearest to `value`, in [least, most].
float nearest_multiple(float value, float unit, int least, int most) {
  return static_cast<float>(std::clamp(std::nearbyint(static_cast<double>(value) / unit),
                                       static_cast<double>(least), static_cast<double>(most)));
}

// The scale of largest magnitude, the first of equals.
float signed_extreme(std::span<const GroupParameters> groups) {
  float extreme = 0;
  for (const GroupParameters& group : groups) {
    extreme = std::abs(group.scale) > std::abs(extreme) ? group.scale : extreme;
  }
  return extreme;
}

core::Fp16 round_scales(const BlockForm& form, std::span<GroupParameters> groups) {
  // A type with a sign has one multiple more below 0, and d takes the sign that makes it useful.
  const int farthest = form.least_multiple < 0 ? form.least_multiple : form.most_multiple;
  const float d = round_scale(static_cast<double>(signed_extreme(groups)) / farthest);
  for (GroupParameters& group : groups) {
    float multiple = nearest_multiple(group.scale, d, form.least_multiple, form.most_multiple);
    if (multiple == 0) {
      multiple = form.least_multiple < 0 && group.scale / d < 0 ? -1.0f : 1.0f;
    }
    group.scale = d * multiple;
  }
  return core::to_fp16(d);
}

core::Fp16 round_minima(const BlockForm& form, std::span<GroupParameters> groups) {
  float lowest = 0;
  for (const GroupParameters& group : groups) {
    lowest = std::min(lowest, group.minimum);
  }
  if (lowest == 0) {
    return {};
  }
  const float m = round_scale(static_cast<double>(lowest) / form.most_multiple);
  for (GroupParameters& group : groups) {
    group.minimum = m * nearest_multiple(group.minimum, m, 0, form.most_multiple);
  }
  return core::to_fp16(m);
}

}  // namespace

std::vector<Super> round_to_supers(const Scheme& scheme, std::span<GroupParameters> groups) {
  const gguf_blocks::BlockType* const type = has_supers(scheme) ? block_type_of(scheme) : nullptr;
  core::require(type != nullptr, core::ErrorKind::kFailed, "no block of GGUF holds {}", scheme);
  const std::size_t size = index(kSuperGroup / scheme.scale.group);
  std::vector<Super> supers;
  for (std::size_t first = 0; first < groups.size(); first += size) {
    const auto block = groups.subspan(first, size);
    const core::Fp16 scale = round_scales(*type->form, block);
    supers.push_back({scale, has_minima(scheme) ? round_minima(*type->form, block) : core::Fp16{}});
  }
  return supers;
}

}  // namespace nibble::formats
