#include "ops/cpu/packed/variants.h"

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "ops/cpu/architecture/architecture.h"

namespace nibble::ops::cpu {

std::span<const Variant> variants() {
  static const std::vector<Variant> all = [] {
    std::vector<Variant> found = {scalar_variant()};
    for (const Variant& variant : architecture_variants()) {
      found.push_back(variant);
    }
    return found;
  }();
  return all;
}

const Variant& choose_variant(const char* name) {
  const std::string_view wanted = name == nullptr ? "" : name;
  const Variant* best = nullptr;
  std::string here;
  for (const Variant& variant : variants()) {
    const bool runs = variant.runs_here();
    if (runs) {
      best = &variant;
      here += (here.empty() ? "" : ", ") + std::string(variant.name);
    }
    if (wanted != variant.name) {
      continue;
    }
    core::require(runs, core::ErrorKind::kUsage,
                  "NIBBLE_ISA={}: this machine lacks {}; unset it or take one of the others",
                  variant.name, variant.needs);
    return variant;
  }
  core::require(wanted.empty(), core::ErrorKind::kUsage,
                "NIBBLE_ISA={}: this build knows no such instruction set; here run: {}",
                core::printable(wanted), here);
  return *best;
}

const Variant& active_variant() {
  static const Variant& active = choose_variant(std::getenv("NIBBLE_ISA"));
  return active;
}

const Variant* named_variant() {
  const char* name = std::getenv("NIBBLE_ISA");
  return name == nullptr || *name == '\0' ? nullptr : &active_variant();
}

}  // namespace nibble::ops::cpu
