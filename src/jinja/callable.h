#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "jinja/runtime.h"
#include "jinja/value.h"

// Everything built in that templates call by name: filters, tests, methods, global functions. Each
// family is a table of Builtin rows; adding one is adding its row.
namespace nibble::jinja {

struct Arguments {
  Items positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Call;

/// Parameters of a Builtin that takes any arguments and looks at them itself.
inline constexpr int kVariadic = -1;
inline constexpr std::size_t kMaxParameters = 4;

struct Builtin {
  std::string_view name;
  Value (*run)(Call&);
  int required = 0;  // how many of the parameters must be given, or kVariadic
  std::array<std::string_view, kMaxParameters> parameters = {};  // "_x" cannot be given by name
};

/// One call of a builtin on `self`, the value that stands before the pipe, `is` or dot.
class Call {
 public:
  Call(Runtime& runtime, const Builtin& builtin, const Value& self, const Arguments& arguments);

  Runtime& runtime() const { return runtime_; }
  const Value& self() const { return self_; }
  const Arguments& arguments() const { return arguments_; }

  /// The argument for parameter number `index`, null when it was not given.
  const Value* find(std::size_t index) const { return bound_[index]; }

  /// Arguments that must have a type; the fallback stands for one that was not given.
  const Value& at(std::size_t index) const { return *bound_[index]; }
  bool flag(std::size_t index, bool fallback) const;
  std::int64_t integer(std::size_t index, std::int64_t fallback) const;
  const std::string& text(std::size_t index) const;

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    runtime_.fail("{}: {}", builtin_.name, fmt::format(format, std::forward<Args>(args)...));
  }

  /// What messages call parameter number `index`.
  std::string_view parameter(std::size_t index) const;

 private:
  void bind();

  Runtime& runtime_;
  const Builtin& builtin_;
  const Value& self_;
  const Arguments& arguments_;
  std::array<const Value*, kMaxParameters> bound_ = {};
};

/// Binds the arguments and runs the builtin.
Value invoke(Runtime& runtime, const Builtin& builtin, const Value& self,
             const Arguments& arguments);

// The tables.
std::span<const Builtin> text_filters();
std::span<const Builtin> sequence_filters();
std::span<const Builtin> selection_filters();
std::span<const Builtin> value_filters();
std::span<const Builtin> text_methods();

/// The row called `name`, null when there is none.
const Builtin* find_builtin(std::span<const Builtin> table, std::string_view name);

const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_global(std::string_view name);
const Builtin* find_method(const Value& self, std::string_view name);

struct Macro;

/// A value that can be called: a builtin (with `self` for a method), or a macro of the template.
struct Function {
  const Builtin* builtin = nullptr;
  Value self;
  const Macro* macro = nullptr;
  std::uint64_t frame = 0;  // the frame that the macro was defined in
};

}  // namespace nibble::jinja
