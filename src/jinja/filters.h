#pragma once

#include <span>

#include "jinja/callable.h"

namespace nibble::jinja {

std::span<const Builtin> text_filters();
std::span<const Builtin> number_filters();
std::span<const Builtin> sequence_filters();
std::span<const Builtin> selection_filters();
std::span<const Builtin> value_filters();

}  // namespace nibble::jinja
