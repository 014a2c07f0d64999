#include <algorithm>
#include <array>

#include "characters/case_mapping.h"
#include "jinja/callable.h"
#include "jinja/compare.h"
#include "jinja/iterate.h"
#include "jinja/make.h"
#include "jinja/sort.h"
#include "jinja/subscript.h"

namespace nibble::jinja {
namespace {

struct Keyed {
  Value key;
  Value item;
};

// What the filters compare items by: a text in lower case unless case counts.
Value key_of(const Call& call, const Value& value, bool case_sensitive) {
  return value.is_string() && !case_sensitive
             ? make_text(call.runtime(), characters::to_lower(value.bytes()))
             : value;
}

Value sorted(const Call& call, std::vector<Keyed> keyed, bool reverse) {
  // `reverse` keeps equal items in order, as Python's sorted does.
  merge_sort(keyed, [&](const Keyed& a, const Keyed& b) {
    return reverse ? is_less(call.runtime(), b.key, a.key) : is_less(call.runtime(), a.key, b.key);
  });
  Items items;
  for (Keyed& entry : keyed) {
    items.push_back(std::move(entry.item));
  }
  return make_sequence(call.runtime(), std::move(items));
}

Value sort(Call& call) {
  std::vector<Keyed> keyed;
  for (const Value& item : items_of(call.runtime(), call.self())) {
    const Value part =
        call.find(2) != nullptr ? follow_path(call.runtime(), item, call.text(2)) : item;
    keyed.push_back({key_of(call, part, call.flag(1, false)), item});
  }
  return sorted(call, std::move(keyed), call.flag(0, false));
}

const Dict& self_dict(const Call& call) {
  require_defined(call.runtime(), call.self());
  if (!call.self().is(Kind::kDict)) {
    call.fail("needs a dict, got a {}", call.self().type_name());
  }
  return call.self().dict();
}

Value pair_of(const Call& call, const Dict::Entry& entry) {
  return make_sequence(call.runtime(), {entry.key, entry.value}, Sequence::Form::kTuple);
}

Value dictsort(Call& call) {
  std::vector<Keyed> keyed;
  for (const Dict::Entry& entry : self_dict(call).entries()) {
    keyed.push_back({key_of(call, entry.key, call.flag(0, false)), pair_of(call, entry)});
  }
  return sorted(call, std::move(keyed), false);
}

Value unique(Call& call) {
  Items kept;
  Dict seen;
  for (const Value& item : items_of(call.runtime(), call.self())) {
    Value key = key_of(call, item, call.flag(0, false));
    if (!key.is_string()) {
      call.fail("compares strings in Nibble's templates, got a {}", key.type_name());
    }
    if (seen.find(key.bytes()) == nullptr) {
      seen.set(std::move(key), Value());
      kept.push_back(item);
    }
  }
  return make_sequence(call.runtime(), std::move(kept), Sequence::Form::kGenerator);
}

Value first(Call& call) {
  if (call.self().is(Sequence::Form::kGenerator)) {
    const Sequence& generator = call.self().sequence();
    return generator.next < generator.items.size() ? generator.items[generator.next++]
                                                   : Value::undefined("there is no first item");
  }
  const Items items = items_of(call.runtime(), call.self());
  return items.empty() ? Value::undefined("there is no first item") : items.front();
}

Value last(Call& call) {
  if (call.self().is(Sequence::Form::kGenerator)) {
    call.fail("needs a sequence; add |list before it");
  }
  const Items items = items_of(call.runtime(), call.self());
  return items.empty() ? Value::undefined("there is no last item") : items.back();
}

Value to_list(Call& call) {
  return make_sequence(call.runtime(), items_of(call.runtime(), call.self()));
}

Value reverse(Call& call) {
  if (call.self().is_string()) {
    return slice_of(call.runtime(), call.self(), {}, {}, Value::integer(-1));
  }
  Items items = items_of(call.runtime(), call.self());
  std::reverse(items.begin(), items.end());
  return make_sequence(call.runtime(), std::move(items), Sequence::Form::kGenerator);
}

Value items(Call& call) {
  Items pairs;
  if (!call.self().is_undefined()) {
    for (const Dict::Entry& entry : self_dict(call).entries()) {
      pairs.push_back(pair_of(call, entry));
    }
  }
  return make_sequence(call.runtime(), std::move(pairs), Sequence::Form::kGenerator);
}

constexpr std::array<Builtin, 8> kSequenceFilters = {{
    {"dictsort", dictsort, 0, {"case_sensitive"}},
    {"first", first, 0, {}},
    {"items", items, 0, {}},
    {"last", last, 0, {}},
    {"list", to_list, 0, {}},
    {"reverse", reverse, 0, {}},
    {"sort", sort, 0, {"reverse", "case_sensitive", "attribute"}},
    {"unique", unique, 0, {"case_sensitive"}},
}};

}  // namespace

std::span<const Builtin> sequence_filters() {
  return kSequenceFilters;
}

}  // namespace nibble::jinja
