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
  const DepthGuard level = go_deeper();
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
  const std::size_t given = arguments.positional.size();
  runtime_.require(given <= macro.parameters.size(),
                   "the macro '{}' takes at most {} argument(s), got {}",
                   core::printable(macro.name), macro.parameters.size(), given);
  for (const auto& [name, value] : arguments.named) {
    const bool known = std::any_of(
        macro.parameters.begin() + static_cast<std::ptrdiff_t>(given), macro.parameters.end(),
        [&wanted = name](const Macro::Parameter& parameter) { return parameter.name == wanted; });
    runtime_.require(known, "the macro '{}' has no free parameter called '{}'",
                     core::printable(macro.name), core::printable(name));
  }
  for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
    const Macro::Parameter& parameter = macro.parameters[i];
    const auto named =
        std::find_if(arguments.named.begin(), arguments.named.end(),
                     [&](const auto& argument) { return argument.first == parameter.name; });
    Value value = i < given ? arguments.positional[i]
                  : named != arguments.named.end()
                      ? named->second
                      : evaluate_or(parameter.fallback,
                                    Value::undefined(fmt::format("parameter '{}' was not provided",
                                                                 core::printable(parameter.name))));
    frame.variables.insert_or_assign(parameter.name, std::move(value));
  }
}

}  // namespace nibble::jinja
