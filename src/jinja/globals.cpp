#include <array>

#include "jinja/callable.h"
#include "jinja/iterate.h"
#include "jinja/limits.h"
#include "jinja/make.h"
#include "jinja/spell.h"
#include "jinja/strftime.h"

// The functions that a template can call by name.
namespace nibble::jinja {
namespace {

Value raise_exception(Call& call) {
  constexpr std::size_t kMaxMessageBytes = 500;
  const Value message = to_text(call.runtime(), call.at(0));
  core::fail(core::ErrorKind::kUsage, "the chat template refuses this conversation: {}",
             core::printable(message.bytes(), kMaxMessageBytes));
}

Value strftime_now(Call& call) {
  return make_text(call.runtime(), format_time(call.runtime(), call.text(0), call.runtime().now()));
}

Int range_size(Int start, Int stop, Int step) {
  const Int distance = step > 0 ? stop - start : start - stop;
  const Int stride = step > 0 ? step : -step;
  return distance <= 0 ? 0 : (distance - 1) / stride + 1;
}

Value range(Call& call) {
  const bool only_stop = call.find(1) == nullptr;
  const Int start = only_stop ? 0 : call.integer(0, 0);
  const Int stop = call.integer(only_stop ? 0 : 1, 0);
  const Int step = call.integer(2, 1);
  if (step == 0) {
    call.fail("the step cannot be zero");
  }
  const Int size = range_size(start, stop, step);
  if (size > kMaxRange) {
    call.fail("more than {} numbers", kMaxRange);
  }
  call.runtime().step(static_cast<std::int64_t>(size));
  Items numbers;
  for (Int i = 0; i < size; ++i) {
    numbers.push_back(Value::integer(start + i * step));
  }
  return make_sequence(call.runtime(), std::move(numbers), Sequence::Form::kRange);
}

// The arguments of dict(...) and namespace(...), all by name.
Dict build_dict(Call& call) {
  if (!call.arguments().positional.empty()) {
    call.fail("takes only arguments by name in Nibble's templates");
  }
  Dict dict;
  for (const auto& [name, value] : call.arguments().named) {
    dict.set(make_text(call.runtime(), name), value);
  }
  return dict;
}

Value make_dictionary(Call& call) {
  return make_dict(call.runtime(), build_dict(call));
}

Value make_namespace(Call& call) {
  const auto space = std::make_shared<Namespace>(Namespace{build_dict(call)});
  call.runtime().grow(sizeof(Namespace) + space->attributes.entries().size() * sizeof(Dict::Entry));
  call.runtime().keep(space);
  return Value(Value::Storage(space.get()));
}

constexpr std::array<Builtin, 5> kGlobals = {{
    {"dict", make_dictionary, kVariadic, {}},
    {"namespace", make_namespace, kVariadic, {}},
    {"raise_exception", raise_exception, 1, {"message"}},
    {"range", range, 1, {"_start", "_stop", "_step"}},
    {"strftime_now", strftime_now, 1, {"format"}},
}};

}  // namespace

const Builtin* find_global(std::string_view name) {
  return find_builtin(kGlobals, name);
}

}  // namespace nibble::jinja
