#include "jinja/compare.h"
#include "jinja/interpreter.h"
#include "jinja/iterate.h"
#include "jinja/print.h"
#include "jinja/subscript.h"

namespace nibble::jinja {
namespace {

/// A loop variable may outlive its statement, but its rounds end there.
class LoopCloser {
 public:
  explicit LoopCloser(Loop& loop) : loop_(loop) {}
  ~LoopCloser() { loop_.close(); }
  LoopCloser(const LoopCloser&) = delete;
  LoopCloser& operator=(const LoopCloser&) = delete;

 private:
  Loop& loop_;
};

}  // namespace

Interpreter::Flow Interpreter::execute(const Block& block) {
  const Level level(*this);
  for (const Statement& statement : block) {
    runtime_.at(statement.at);
    runtime_.step();
    const Flow flow =
        std::visit([&](const auto& node) { return run(node, statement.at); }, statement.node);
    if (flow != Flow::kNormal) {
      return flow;
    }
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run(const TextPiece& statement, Position) {
  out_->add(statement.text);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run(const Output& statement, Position at) {
  const Value value = evaluate(*statement.value);
  runtime_.at(at);
  print_value(runtime_, *out_, value);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run(const If& statement, Position) {
  for (const auto& [condition, body] : statement.branches) {
    if (is_true(evaluate(*condition))) {
      return execute(body);
    }
  }
  return execute(statement.otherwise);
}

Interpreter::Flow Interpreter::run(const For& statement, Position at) {
  const Value iterable = evaluate(*statement.iterable);
  runtime_.at(at);
  Frame* const outer = frame_;
  bool testing = false;
  Loop::Test test;
  if (statement.condition != nullptr) {
    test = [&](const Value& item) {
      runtime_.require(!testing, "the condition of a loop asks about the loop itself");
      testing = true;
      Scope scope(*this, outer);
      assign(statement.target, item);
      const bool passes = is_true(evaluate(*statement.condition));
      testing = false;
      return passes;
    };
  }
  const auto loop = std::make_shared<Loop>(items_of(runtime_, iterable), std::move(test));
  const LoopCloser closer(*loop);
  bool any_finished = false;
  const Flow flow = run_rounds(statement, *loop, Value(Value::Storage(loop)), any_finished);
  if (flow != Flow::kNormal || any_finished || !statement.has_otherwise) {
    return flow;
  }
  Scope scope(*this, frame_);
  return execute(statement.otherwise);
}

// `any_finished`: Jinja's else part runs unless a round came to its end, so it also runs after a
// break or continue in every round.
Interpreter::Flow Interpreter::run_rounds(const For& statement, Loop& loop, const Value& loop_value,
                                          bool& any_finished) {
  Scope scope(*this, frame_);
  while (loop.advance()) {
    runtime_.step();
    scope.frame().variables.clear();
    assign(statement.target, loop.current());
    scope.frame().variables.insert_or_assign("loop", loop_value);
    const Flow flow = execute(statement.body);
    if (flow == Flow::kBreak) {
      break;
    }
    any_finished = any_finished || flow == Flow::kNormal;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run(const Set& statement, Position at) {
  Value value = evaluate(*statement.value);
  runtime_.at(at);
  assign(statement.target, std::move(value));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run(const SetBlock& statement, Position at) {
  Value text;
  if (const Flow flow = capture(statement.body, text); flow != Flow::kNormal) {
    return flow;
  }
  if (statement.filters != nullptr) {
    text = apply_filters(*statement.filters, std::move(text));
  }
  runtime_.at(at);
  assign(statement.target, std::move(text));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run(const MacroStatement& statement, Position) {
  frame_->variables.insert_or_assign(statement.macro->name, make_macro(*statement.macro));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run(const CallBlock& statement, Position at) {
  const auto& node = std::get<FunctionCall>(statement.call->node);
  const Value callee = evaluate(*node.callee);
  Arguments arguments = evaluate_arguments(node.arguments);
  arguments.named.emplace_back("caller", make_macro(*statement.caller));
  runtime_.at(at);
  print_value(runtime_, *out_, call(callee, arguments));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run(const FilterBlock& statement, Position at) {
  Value text;
  if (const Flow flow = capture(statement.body, text); flow != Flow::kNormal) {
    return flow;
  }
  const Value filtered = apply_filters(*statement.filters, std::move(text));
  runtime_.at(at);
  print_value(runtime_, *out_, filtered);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run(const With& statement, Position) {
  std::vector<Value> values;
  for (const auto& [target, expr] : statement.variables) {
    values.push_back(evaluate(*expr));
  }
  Scope scope(*this, frame_);
  for (std::size_t i = 0; i < values.size(); ++i) {
    assign(statement.variables[i].first, std::move(values[i]));
  }
  return execute(statement.body);
}

Interpreter::Flow Interpreter::run(const Generation& statement, Position) {
  Scope scope(*this, frame_);
  return execute(statement.body);
}

Interpreter::Flow Interpreter::run(const Break&, Position) {
  return Flow::kBreak;
}

Interpreter::Flow Interpreter::run(const Continue&, Position) {
  return Flow::kContinue;
}

Interpreter::Flow Interpreter::capture(const Block& block, Value& text) {
  TextBuilder captured(runtime_);
  TextBuilder* const outer = std::exchange(out_, &captured);
  Scope scope(*this, frame_);
  const Flow flow = execute(block);
  out_ = outer;
  text = captured.value();
  return flow;
}

Value Interpreter::apply_filters(const Expr& filters, Value text) {
  Value outer = std::exchange(captured_, std::move(text));
  Value result = evaluate(filters);
  captured_ = std::move(outer);
  return result;
}

Value Interpreter::make_macro(const Macro& macro) {
  runtime_.grow(sizeof(Function));
  return Value(
      Value::Storage(std::make_shared<const Function>(Function{nullptr, {}, &macro, frame_->id})));
}

void Interpreter::assign(const Target& target, Value value) {
  if (target.is_tuple) {
    runtime_.at(target.at);
    require_defined(runtime_, value);
    const Items items = items_of(runtime_, value);
    runtime_.require(items.size() == target.items.size(), "cannot unpack {} values into {} names",
                     items.size(), target.items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      assign(target.items[i], items[i]);
    }
  } else if (!target.attribute.empty()) {
    assign_attribute(target, std::move(value));
  } else {
    frame_->variables.insert_or_assign(target.name, std::move(value));
  }
}

void Interpreter::assign_attribute(const Target& target, Value value) {
  runtime_.at(target.at);
  const Value* space = find_variable(target.name);
  runtime_.require(space != nullptr && space->is(Kind::kNamespace),
                   "'{}' is no namespace, so its attributes cannot be set",
                   core::printable(target.name));
  runtime_.grow(sizeof(Dict::Entry));
  space->space().attributes.set(make_text(runtime_, target.attribute), std::move(value));
}

}  // namespace nibble::jinja
