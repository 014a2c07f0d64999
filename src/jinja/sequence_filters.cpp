#include <algorithm>
#include <array>

#include "characters/case_mapping.h"
#include "jinja/arithmetic.h"
#include "jinja/compare.h"
#include "jinja/filters.h"
#include "jinja/iterate.h"
#include "jinja/make.h"
#include "jinja/sort.h"
#include "jinja/subscript.h"

namespace nibble::jinja {
namespace {

// What the filters compare by: a text in lower case unless case counts.
Value comparable(const Call& call, const Value& value, bool case_sensitive) {
  return value.is_string() && !case_sensitive
             ? make_text(call.runtime(), characters::to_lower(value.bytes()))
             : value;
}

Value key_of(const Call& call, const Value& item, const Value* path, bool case_sensitive) {
  const Value found = path != nullptr ? follow_path(call.runtime(), item, *path) : item;
  return comparable(call, found, case_sensitive);
}

struct Keyed {
  Value key;
  Value item;
};

// Stable; `reverse` keeps equal items in order, as Python's sorted does.
void sort_by_key(const Call& call, std::vector<Keyed>& items, bool reverse) {
  merge_sort(items, [&](const Keyed& a, const Keyed& b) {
    return reverse ? is_less(call.runtime(), b.key, a.key) : is_less(call.runtime(), a.key, b.key);
  });
}

Value list_of_items(const Call& call, std::vector<Keyed> keyed) {
  Items items;
  for (Keyed& entry : keyed) {
    items.push_back(std::move(entry.item));
  }
  return make_list(call.runtime(), std::move(items));
}

// "a,b" sorts by a, then by b.
Value sort_key(const Call& call, const Value& item, const Value* path, bool case_sensitive) {
  if (path == nullptr || !path->is_string()) {
    return key_of(call, item, path, case_sensitive);
  }
  Items keys;
  for (std::string_view rest = path->bytes();;) {
    const std::size_t comma = rest.find(',');
    const Value part = make_text(call.runtime(), rest.substr(0, comma));
    keys.push_back(key_of(call, item, &part, case_sensitive));
    if (comma == std::string_view::npos) {
      return make_tuple(call.runtime(), std::move(keys));
    }
    rest.remove_prefix(comma + 1);
  }
}

Value sort(Call& call) {
  std::vector<Keyed> keyed;
  for (const Value& item : items_of(call.runtime(), call.self())) {
    keyed.push_back({sort_key(call, item, call.find(2), call.flag(1, false)), item});
  }
  sort_by_key(call, keyed, call.flag(0, false));
  return list_of_items(call, std::move(keyed));
}

Value dictsort(Call& call) {
  require_defined(call.runtime(), call.self());
  const std::string by = call.find(1) != nullptr ? call.text(1) : "key";
  if (!call.self().is(Kind::kDict) || (by != "key" && by != "value")) {
    call.fail("needs a dict, and 'key' or 'value' to sort by");
  }
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : call.self().dict()->entries()) {
    keyed.push_back({comparable(call, by == "key" ? key : value, call.flag(0, false)),
                     make_tuple(call.runtime(), {key, value})});
  }
  sort_by_key(call, keyed, call.flag(2, false));
  return list_of_items(call, std::move(keyed));
}

Value unique(Call& call) {
  Items kept;
  Dict seen;
  for (const Value& item : items_of(call.runtime(), call.self())) {
    Value key = key_of(call, item, call.find(1), call.flag(0, false));
    if (!Dict::can_be_key(key)) {
      call.fail("cannot compare values of type {}", key.type_name());
    }
    if (seen.find(key) == nullptr) {
      seen.set(std::move(key), Value());
      kept.push_back(item);
    }
  }
  return make_generator(call.runtime(), std::move(kept));
}

Value first(Call& call) {
  if (call.self().is(Kind::kGenerator)) {
    Generator& generator = call.self().generator();
    if (generator.next < generator.items.size()) {
      return generator.items[generator.next++];
    }
    return Value::undefined("there is no first item");
  }
  const Items items = items_of(call.runtime(), call.self());
  return items.empty() ? Value::undefined("there is no first item") : items.front();
}

Value last(Call& call) {
  if (call.self().is(Kind::kGenerator)) {
    call.fail("needs a sequence; add |list before it");
  }
  const Items items = items_of(call.runtime(), call.self());
  return items.empty() ? Value::undefined("there is no last item") : items.back();
}

Value to_list(Call& call) {
  return make_list(call.runtime(), items_of(call.runtime(), call.self()));
}

Value reverse(Call& call) {
  if (call.self().is_string()) {
    return slice_of(call.runtime(), call.self(), {}, {}, Value::integer(-1));
  }
  Items items = items_of(call.runtime(), call.self());
  std::reverse(items.begin(), items.end());
  return call.self().is(Kind::kGenerator) ? make_list(call.runtime(), std::move(items))
                                          : make_generator(call.runtime(), std::move(items));
}

Value items(Call& call) {
  if (call.self().is_undefined()) {
    return make_generator(call.runtime(), {});
  }
  if (!call.self().is(Kind::kDict)) {
    call.fail("needs a dict, got a {}", call.self().type_name());
  }
  const Value view(Value::Storage(DictView{DictView::Part::kItems, call.self().dict()}));
  return make_generator(call.runtime(), items_of(call.runtime(), view));
}

Value sum(Call& call) {
  Value total = call.find(1) != nullptr ? call.at(1) : Value::integer(0);
  for (const Value& item : items_of(call.runtime(), call.self())) {
    const Value path = call.find(0) != nullptr ? call.at(0) : Value();
    total =
        calculate(call.runtime(), Operator::kAdd, total, follow_path(call.runtime(), item, path));
  }
  return total;
}

Value extreme(Call& call, bool largest) {
  const Items items = items_of(call.runtime(), call.self());
  if (items.empty()) {
    return Value::undefined("there is no item to choose");
  }
  const auto key = [&](const Value& item) {
    return key_of(call, item, call.find(1), call.flag(0, false));
  };
  Value best = items.front();
  Value best_key = key(best);
  for (std::size_t i = 1; i < items.size(); ++i) {
    Value candidate = key(items[i]);
    if (largest ? is_less(call.runtime(), best_key, candidate)
                : is_less(call.runtime(), candidate, best_key)) {
      best = items[i];
      best_key = std::move(candidate);
    }
  }
  return best;
}

Value minimum(Call& call) {
  return extreme(call, false);
}
Value maximum(Call& call) {
  return extreme(call, true);
}

Value batch(Call& call) {
  const std::int64_t size = call.integer(0, 1);
  if (size < 1) {
    call.fail("needs a positive number of items");
  }
  Items batches;
  Items current;
  for (const Value& item : items_of(call.runtime(), call.self())) {
    if (static_cast<std::int64_t>(current.size()) == size) {
      batches.push_back(make_list(call.runtime(), std::exchange(current, {})));
    }
    current.push_back(item);
  }
  const bool fills = call.find(1) != nullptr && !call.at(1).is_none();
  while (fills && !current.empty() && static_cast<std::int64_t>(current.size()) < size) {
    call.runtime().grow(sizeof(Value));
    current.push_back(call.at(1));
  }
  if (!current.empty()) {
    batches.push_back(make_list(call.runtime(), std::move(current)));
  }
  return make_generator(call.runtime(), std::move(batches));
}

constexpr std::array<Builtin, 12> kSequenceFilters = {{
    {"batch", batch, 1, {"linecount", "fill_with"}},
    {"dictsort", dictsort, 0, {"case_sensitive", "by", "reverse"}},
    {"first", first, 0, {}},
    {"items", items, 0, {}},
    {"last", last, 0, {}},
    {"list", to_list, 0, {}},
    {"max", maximum, 0, {"case_sensitive", "attribute"}},
    {"min", minimum, 0, {"case_sensitive", "attribute"}},
    {"reverse", reverse, 0, {}},
    {"sort", sort, 0, {"reverse", "case_sensitive", "attribute"}},
    {"sum", sum, 0, {"attribute", "start"}},
    {"unique", unique, 0, {"case_sensitive", "attribute"}},
}};

}  // namespace

std::span<const Builtin> sequence_filters() {
  return kSequenceFilters;
}

}  // namespace nibble::jinja
