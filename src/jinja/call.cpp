#include <algorithm>

#include "jinja/interpreter.h"
#include "jinja/iterate.h"
#include "jinja/subscript.h"

namespace nibble::jinja {

Arguments Interpreter::evaluate_arguments(const CallArguments& arguments) {
  Arguments result;
  for (const ExprPtr& expr : arguments.positional) {
    result.positional.push_back(evaluate(*expr));
  }
  for (const auto& [name, expr] : arguments.named) {
    result.named.emplace_back(name, evaluate(*expr));
  }
  if (arguments.more_positional != nullptr) {
    const Items more = items_of(runtime_, evaluate(*arguments.more_positional));
    result.positional.insert(result.positional.end(), more.begin(), more.end());
  }
  if (arguments.more_named != nullptr) {
    const Value more = evaluate(*arguments.more_named);
    runtime_.require(more.is(Kind::kDict), "** needs a dict, got a {}", more.type_name());
    for (const auto& [key, value] : more.dict()->entries()) {
      runtime_.require(key.is_string(), "** needs a dict whose keys are strings");
      result.named.emplace_back(key.bytes(), value);
      runtime_.grow(key.bytes().size() + sizeof(Value));
    }
  }
  return result;
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  require_defined(runtime_, callee);
  runtime_.require(callee.is(Kind::kFunction), "a {} cannot be called", callee.type_name());
  const Function& function = callee.function();
  return function.macro != nullptr ? call_macro(function, arguments)
                                   : invoke(runtime_, *function.builtin, function.self, arguments);
}

Value Interpreter::call_macro(const Function& function, const Arguments& arguments) {
  const Level level(*this);
  const Macro& macro = *function.macro;
  const Frame* defined_in = find_frame(function.frame);
  runtime_.require(defined_in != nullptr, "the macro '{}' is called outside of its block",
                   core::printable(macro.name));
  Scope scope(*this, defined_in);
  bind_parameters(macro, arguments, scope.frame());
  TextBuilder text(runtime_);
  TextBuilder* const outer = std::exchange(out_, &text);
  execute(macro.body);
  out_ = outer;
  return text.value();
}

void Interpreter::bind_parameters(const Macro& macro, const Arguments& arguments, Frame& frame) {
  bind_rest(macro, arguments, frame);
  for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
    const Macro::Parameter& parameter = macro.parameters[i];
    const auto named =
        std::find_if(arguments.named.begin(), arguments.named.end(),
                     [&](const auto& argument) { return argument.first == parameter.name; });
    Value value;
    if (i < arguments.positional.size()) {
      value = arguments.positional[i];
    } else if (named != arguments.named.end()) {
      value = named->second;
    } else {
      value = evaluate_or(parameter.fallback,
                          Value::undefined(fmt::format("parameter '{}' was not provided",
                                                       core::printable(parameter.name))));
    }
    frame.variables.insert_or_assign(parameter.name, std::move(value));
  }
}

// Arguments beyond the parameters: kept as varargs, kwargs and caller where the macro reads those,
// refused otherwise.
void Interpreter::bind_rest(const Macro& macro, const Arguments& arguments, Frame& frame) {
  const std::size_t count = macro.parameters.size();
  const std::size_t given = std::min(arguments.positional.size(), count);
  runtime_.require(macro.uses_varargs || arguments.positional.size() <= count,
                   "the macro '{}' takes at most {} argument(s), got {}",
                   core::printable(macro.name), count, arguments.positional.size());
  if (macro.uses_varargs) {
    const auto rest = arguments.positional.begin() + static_cast<std::ptrdiff_t>(given);
    frame.variables.insert_or_assign("varargs",
                                     make_tuple(runtime_, Items(rest, arguments.positional.end())));
  }
  if (macro.uses_caller) {
    frame.variables.insert_or_assign("caller",
                                     Value::undefined("this macro was not called by a call block"));
  }
  Dict more;
  for (const auto& argument : arguments.named) {
    const auto& [name, value] = argument;
    const auto free_parameter = std::find_if(
        macro.parameters.begin() + static_cast<std::ptrdiff_t>(given), macro.parameters.end(),
        [&](const Macro::Parameter& parameter) { return parameter.name == argument.first; });
    if (free_parameter != macro.parameters.end()) {
      continue;
    }
    if (macro.uses_caller && name == "caller") {
      frame.variables.insert_or_assign("caller", value);
      continue;
    }
    runtime_.require(macro.uses_kwargs, "the macro '{}' has no parameter called '{}'",
                     core::printable(macro.name), core::printable(name));
    more.set(make_text(runtime_, name), value);
  }
  if (macro.uses_kwargs) {
    frame.variables.insert_or_assign("kwargs", make_dict(runtime_, std::move(more)));
  }
}

}  // namespace nibble::jinja
