#pragma once

#include <memory>

#include <nlohmann/json_fwd.hpp>

#include "text/grammar/grammar.h"

namespace nibble::text {

/// JSON texts that a JSON Schema (draft 2020-12) allows, as a grammar.
///
/// Known: type (one or several), enum, const, anyOf, oneOf (as anyOf), allOf of one schema, $ref
/// within the document (also recursive), properties, required, additionalProperties, items,
/// prefixItems, minItems, maxItems, minLength, maxLength, pattern, format (date, time, date-time,
/// uuid; others mean nothing), minimum, maximum and their exclusive forms of integers. Annotations
/// (title, description, default, ...) mean nothing. Any other keyword is refused with kUsage,
/// naming it and its place: what was asked for would not be kept.
///
/// More than kMaxSchemaDepth schemas in one another, by nesting or reference, are refused, and
/// names of more than kMaxNameBytes.
///
/// Objects have their properties in the order of the schema; without additionalProperties they have
/// no others, unless the schema names none. Between parts stands at most a space or a line break
/// with indentation, so that a text cannot go on without end.
std::shared_ptr<const Grammar> json_schema_grammar(const nlohmann::ordered_json& schema);

/// The same as a part of a grammar that is being put together. References mean places in `schema`.
GrammarSequence json_schema_sequence(GrammarBuilder& builder, const nlohmann::ordered_json& schema);

inline constexpr int kMaxSchemaDepth = 256;
inline constexpr std::size_t kMaxNameBytes = 1000;

/// Any JSON value, or any object ("json_object").
std::shared_ptr<const Grammar> json_grammar(bool only_objects);

}  // namespace nibble::text
