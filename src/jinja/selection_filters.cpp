#include <array>

#include "jinja/callable.h"
#include "jinja/compare.h"
#include "jinja/iterate.h"
#include "jinja/make.h"
#include "jinja/subscript.h"

// Filters that apply another filter or a test, given by name, to each item.
namespace nibble::jinja {
namespace {

// Jinja passes over what is false (none, 0, undefined) before it asks whether it can be walked.
Items items_or_none(const Call& call) {
  return is_true(call.self()) ? items_of(call.runtime(), call.self()) : Items();
}

Arguments arguments_after(const Call& call, std::size_t count) {
  Arguments rest = call.arguments();
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<std::ptrdiff_t>(count));
  return rest;
}

const std::string& name_at(const Call& call, std::size_t index) {
  const Value& name = call.arguments().positional[index];
  if (!name.is_string()) {
    call.fail("needs a name, got a {}", name.type_name());
  }
  return name.bytes();
}

// map(attribute="a.b", default=x): the items' parts.
Value map_attribute(const Call& call) {
  const Value* path = nullptr;
  const Value* fallback = nullptr;
  for (const auto& [name, value] : call.arguments().named) {
    (name == "attribute" ? path : fallback) = &value;
    if (name != "attribute" && name != "default") {
      call.fail("has no argument called '{}'", core::printable(name));
    }
  }
  if (path == nullptr || !path->is_string()) {
    call.fail("needs the name of a filter, or that of an attribute as attribute=");
  }
  Items mapped;
  for (const Value& item : items_or_none(call)) {
    Value found = follow_path(call.runtime(), item, path->bytes());
    const bool missing = found.is_undefined() && fallback != nullptr && !fallback->is_none();
    mapped.push_back(missing ? *fallback : std::move(found));
  }
  return make_sequence(call.runtime(), std::move(mapped), Sequence::Form::kGenerator);
}

Value map(Call& call) {
  if (call.arguments().positional.empty()) {
    return map_attribute(call);
  }
  const std::string& name = name_at(call, 0);
  const Builtin* filter = find_filter(name);
  if (filter == nullptr) {
    call.fail("the filter '{}' is not supported by Nibble's templates", core::printable(name));
  }
  const Arguments arguments = arguments_after(call, 1);
  Items mapped;
  for (const Value& item : items_or_none(call)) {
    mapped.push_back(invoke(call.runtime(), *filter, item, arguments));
  }
  return make_sequence(call.runtime(), std::move(mapped), Sequence::Form::kGenerator);
}

// Items that pass (or, rejecting, fail) the test: argument number kTestAt names it, without one
// truth decides. Where that is 1, argument 0 says which part of each item is tested.
template <std::size_t kTestAt, bool kRejecting>
Value choose(Call& call) {
  const std::size_t given = call.arguments().positional.size();
  if (given < kTestAt) {
    call.fail("needs the name of an attribute");
  }
  const Builtin* test = nullptr;
  Arguments arguments;
  if (given > kTestAt) {
    const std::string& name = name_at(call, kTestAt);
    test = find_test(name);
    if (test == nullptr) {
      call.fail("the test '{}' is not supported by Nibble's templates", core::printable(name));
    }
    arguments = arguments_after(call, kTestAt + 1);
  }
  Items chosen;
  for (const Value& item : items_or_none(call)) {
    Value tested = kTestAt == 1 ? follow_path(call.runtime(), item, name_at(call, 0)) : item;
    if (test != nullptr) {
      tested = invoke(call.runtime(), *test, tested, arguments);
    }
    if (is_true(tested) != kRejecting) {
      chosen.push_back(item);
    }
  }
  return make_sequence(call.runtime(), std::move(chosen), Sequence::Form::kGenerator);
}

constexpr std::array<Builtin, 5> kSelectionFilters = {{
    {"map", map, kVariadic, {}},
    {"reject", choose<0, true>, kVariadic, {}},
    {"rejectattr", choose<1, true>, kVariadic, {}},
    {"select", choose<0, false>, kVariadic, {}},
    {"selectattr", choose<1, false>, kVariadic, {}},
}};

}  // namespace

std::span<const Builtin> selection_filters() {
  return kSelectionFilters;
}

}  // namespace nibble::jinja
