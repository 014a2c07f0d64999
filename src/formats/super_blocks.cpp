#include "formats/super_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "formats/fp16_scale.h"

namespace nibble::formats {
namespace {

// Of IQ4_NL and IQ4_XS.
constexpr std::array<float, 16> kIq4Book = {-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};

constexpr std::array kTypes = {
    SuperBlockType{"q2_k", "int2-min-g16-s8", 84, 2, 0, 15},
    SuperBlockType{"q3_k", "int3-sym-g16-s8", 110, 3, -32, 31},
    SuperBlockType{"iq4_xs", "lut4-matrix-g32-s8", 136, 4, -32, 31, kIq4Book},
    SuperBlockType{"q4_k", "int4-min-g32-s8", 144, 4, 0, 63},
    SuperBlockType{"q5_k", "int8-min-g32-s8", 176, 5, 0, 63},
    SuperBlockType{"q6_k", "int8-sym-g16-s8", 210, 6, -128, 127},
};

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

std::vector<Scheme> parsed_schemes() {
  std::vector<Scheme> schemes;
  for (const SuperBlockType& type : kTypes) {
    schemes.push_back(parse_scheme(type.scheme));
  }
  return schemes;
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

core::Fp16 round_scales(const SuperBlockType& type, std::span<GroupParameters> groups) {
  // A type with a sign has one multiple more below 0, and d takes the sign that makes it useful.
  const int farthest = type.least_multiple < 0 ? type.least_multiple : type.most_multiple;
  const float d = round_scale(static_cast<double>(signed_extreme(groups)) / farthest);
  for (GroupParameters& group : groups) {
    float multiple = nearest_multiple(group.scale, d, type.least_multiple, type.most_multiple);
    if (multiple == 0) {
      multiple = type.least_multiple < 0 && group.scale / d < 0 ? -1.0f : 1.0f;
    }
    group.scale = d * multiple;
  }
  return core::to_fp16(d);
}

core::Fp16 round_minima(const SuperBlockType& type, std::span<GroupParameters> groups) {
  float lowest = 0;
  for (const GroupParameters& group : groups) {
    lowest = std::min(lowest, group.minimum);
  }
  if (lowest == 0) {
    return {};
  }
  const float m = round_scale(static_cast<double>(lowest) / type.most_multiple);
  for (GroupParameters& group : groups) {
    group.minimum = m * nearest_multiple(group.minimum, m, 0, type.most_multiple);
  }
  return core::to_fp16(m);
}

}  // namespace

std::span<const SuperBlockType> super_block_types() {
  return kTypes;
}

const SuperBlockType* super_block_type(const Scheme& scheme) {
  if (!has_supers(scheme)) {
    return nullptr;
  }
  static const std::vector<Scheme> schemes = parsed_schemes();
  Scheme weights = scheme;
  weights.activation = {};
  const auto found = std::find(schemes.begin(), schemes.end(), weights);
  return found == schemes.end() ? nullptr : &kTypes[index(found - schemes.begin())];
}

const SuperBlockType* find_super_block_type(std::string_view name) {
  const auto* const found = std::find_if(
      kTypes.begin(), kTypes.end(), [&](const SuperBlockType& type) { return type.name == name; });
  return found == kTypes.end() ? nullptr : found;
}

Scheme small_block_scheme(const Scheme& scheme) {
  const SuperBlockType* const type = super_block_type(scheme);
  core::require(type != nullptr, core::ErrorKind::kFailed, "no block of GGUF holds {}", scheme);
  Scheme small = parse_scheme(type->code_bits <= 4 ? "int4-sym-g32" : "int8-sym-g32");
  small.activation = scheme.activation;
  return small;
}

std::vector<Super> round_to_supers(const Scheme& scheme, std::span<GroupParameters> groups) {
  const SuperBlockType* const type = super_block_type(scheme);
  core::require(type != nullptr, core::ErrorKind::kFailed, "no block of GGUF holds {}", scheme);
  const std::size_t size = index(kSuperGroup / scheme.scale.group);
  std::vector<Super> supers;
  for (std::size_t first = 0; first < groups.size(); first += size) {
    const auto block = groups.subspan(first, size);
    const core::Fp16 scale = round_scales(*type, block);
    supers.push_back({scale, has_minima(scheme) ? round_minima(*type, block) : core::Fp16{}});
  }
  return supers;
}

}  // namespace nibble::formats
