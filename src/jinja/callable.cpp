#include "jinja/callable.h"

#include <algorithm>

#include "jinja/compare.h"

namespace nibble::jinja {

Call::Call(Runtime& runtime, const Builtin& builtin, const Value& self, const Arguments& arguments)
    : runtime_(runtime), builtin_(builtin), self_(self), arguments_(arguments) {
  if (builtin.required != kVariadic) {
    bind();
  }
}

void Call::bind() {
  const auto& names = builtin_.parameters;
  const auto count = static_cast<std::size_t>(
      std::find(names.begin(), names.end(), std::string_view()) - names.begin());
  if (arguments_.positional.size() > count) {
    fail("takes at most {} argument(s), got {}", count, arguments_.positional.size());
  }
  for (std::size_t i = 0; i < arguments_.positional.size(); ++i) {
    bound_[i] = &arguments_.positional[i];
  }
  for (const auto& [name, value] : arguments_.named) {
    const auto at =
        static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (at >= count || name.starts_with('_')) {
      fail("has no argument called '{}'", core::printable(name));
    }
    if (bound_[at] != nullptr) {
      fail("got the argument '{}' twice", name);
    }
    bound_[at] = &value;
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(builtin_.required); ++i) {
    if (bound_[i] == nullptr) {
      fail("needs the argument '{}'", parameter(i));
    }
  }
}

std::string_view Call::parameter(std::size_t index) const {
  const std::string_view name = builtin_.parameters[index];
  return name.substr(name.starts_with('_') ? 1 : 0);
}

bool Call::flag(std::size_t index, bool fallback) const {
  return bound_[index] == nullptr ? fallback : is_true(*bound_[index]);
}

std::int64_t Call::integer(std::size_t index, std::int64_t fallback) const {
  if (bound_[index] == nullptr) {
    return fallback;
  }
  const Value& value = *bound_[index];
  if (!value.is_integral()) {
    fail("needs an integer as '{}', got a {}", parameter(index), value.type_name());
  }
  const auto number = static_cast<std::int64_t>(value.integral());
  if (number != value.integral()) {
    fail("needs a number of 64 bits as '{}'", parameter(index));
  }
  return number;
}

const std::string& Call::text(std::size_t index) const {
  const Value& value = at(index);
  if (!value.is_string()) {
    fail("needs a string as '{}', got a {}", parameter(index), value.type_name());
  }
  return value.bytes();
}

Value invoke(Runtime& runtime, const Builtin& builtin, const Value& self,
             const Arguments& arguments) {
  runtime.step();
  if (self.is_string()) {
    runtime.scan(self.bytes().size());
  }
  Call call(runtime, builtin, self, arguments);
  return builtin.run(call);
}

}  // namespace nibble::jinja
