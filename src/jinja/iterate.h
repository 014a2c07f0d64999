#pragma once

#include <cstdint>
#include <optional>

#include "jinja/runtime.h"
#include "jinja/value.h"

namespace nibble::jinja {

/// Whether `for` accepts the value. Undefined counts as empty, as in Jinja.
bool is_iterable(const Value& value);

/// What `for` walks over: items, keys of a dict, characters of a text. Uses a generator up.
/// Refuses values that are not iterable.
Items items_of(Runtime& runtime, const Value& value);

/// len(value); nullopt for values without a length.
std::optional<std::int64_t> length_of(Runtime& runtime, const Value& value);

}  // namespace nibble::jinja
