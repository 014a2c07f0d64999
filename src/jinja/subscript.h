#pragma once

#include <string_view>

#include "jinja/runtime.h"
#include "jinja/value.h"

// Access to parts of values. Only what is listed here and in the method tables can be reached:
// there are no classes, no underscored names, nothing of the host.
namespace nibble::jinja {

/// Throws, with the reason, when the value is undefined.
void require_defined(const Runtime& runtime, const Value& value);

/// object.name: a method or attribute, else the item of that name, else undefined.
Value attribute_of(Runtime& runtime, const Value& object, std::string_view name);

/// object[key]: the item, else for a text key the attribute of that name, else undefined.
Value item_of(Runtime& runtime, const Value& object, const Value& key);

/// object[start:stop:step] of a text, list or tuple; none stands for a bound left out.
Value slice_of(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
               const Value& step);

/// What the filters' attribute="a.b.0" means: one item_of per part.
Value follow_path(Runtime& runtime, const Value& object, std::string_view path);

}  // namespace nibble::jinja
