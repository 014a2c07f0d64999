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

const Value* named_argument(const Call& call, std::string_view name) {
  for (const auto& [argument, value] : call.arguments().named) {
    if (argument == name) {
      return &value;
    }
  }
  return nullptr;
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

Value map_attribute(const Call& call, const Value& path) {
  if (!path.is_string()) {
    call.fail("needs the name of an attribute, got a {}", path.type_name());
  }
  const Value* fallback = named_argument(call, "default");
  const std::size_t known = fallback != nullptr ? 2 : 1;
  if (call.arguments().named.size() != known) {
    call.fail("takes 'attribute' and 'default' by name, nothing else with them");
  }
  Items mapped;
  for (const Value& item : items_or_none(call)) {
    Value found = follow_path(call.runtime(), item, path.bytes());
    const bool missing = found.is_undefined() && fallback != nullptr && !fallback->is_none();
    mapped.push_back(missing ? *fallback : std::move(found));
  }
  return make_sequence(call.runtime(), std::move(mapped), Sequence::Form::kGenerator);
}

Value map(Call& call) {
  const Value* path = named_argument(call, "attribute");
  if (call.arguments().positional.empty() && path != nullptr) {
    return map_attribute(call, *path);
  }
  if (call.arguments().positional.empty()) {
    call.fail("needs the name of a filter, or attribute=");
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

// Items that pass (or, rejecting, fail) the test: argument number `test_at` names it, without one
// truth decides. With `by_attribute` argument 0 says which part of each item is tested.
Value choose(const Call& call, bool by_attribute, bool rejecting) {
  const std::size_t test_at = by_attribute ? 1 : 0;
  const std::size_t given = call.arguments().positional.size();
  if (given < test_at) {
    call.fail("needs the name of an attribute");
  }
  const Builtin* test = nullptr;
  Arguments arguments;
  if (given > test_at) {
    const std::string& name = name_at(call, test_at);
    test = find_test(name);
    if (test == nullptr) {
      call.fail("the test '{}' is not supported by Nibble's templates", core::printable(name));
    }
    arguments = arguments_after(call, test_at + 1);
  }
  Items chosen;
  for (const Value& item : items_or_none(call)) {
    const Value tested = by_attribute ? follow_path(call.runtime(), item, name_at(call, 0)) : item;
    const bool passes =
        is_true(test != nullptr ? invoke(call.runtime(), *test, tested, arguments) : tested);
    if (passes != rejecting) {
      chosen.push_back(item);
    }
  }
  return make_sequence(call.runtime(), std::move(chosen), Sequence::Form::kGenerator);
}

Value select(Call& call) {
  return choose(call, false, false);
}
Value reject(Call& call) {
  return choose(call, false, true);
}
Value selectattr(Call& call) {
  return choose(call, true, false);
}
Value rejectattr(Call& call) {
  return choose(call, true, true);
}

constexpr std::array<Builtin, 5> kSelectionFilters = {{
    {"map", map, kVariadic, {}},
    {"reject", reject, kVariadic, {}},
    {"rejectattr", rejectattr, kVariadic, {}},
    {"select", select, kVariadic, {}},
    {"selectattr", selectattr, kVariadic, {}},
}};

}  // namespace

std::span<const Builtin> selection_filters() {
  return kSelectionFilters;
}

}  // namespace nibble::jinja
