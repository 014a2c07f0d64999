#include "jinja/compare.h"
#include "jinja/interpreter.h"
#include "jinja/iterate.h"
#include "jinja/spell.h"
#include "jinja/subscript.h"

namespace nibble::jinja {
Interpreter::Flow Interpreter::execute(const Block& block) {
  const DepthGuard level = go_deeper();
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
  const bool any_finished = run_rounds(statement, loop);
  loop->close();  // the variable may outlive the statement, but its rounds end here
  if (any_finished || !statement.has_otherwise) {
    return Flow::kNormal;
  }
  Scope scope(*this, frame_);
  return execute(statement.otherwise);
}

// Whether a round came to its end. Jinja's else part runs unless one did, so it also runs after a
// break or continue in every round.
bool Interpreter::run_rounds(const For& statement, const std::shared_ptr<Loop>& loop) {
  Scope scope(*this, frame_);
  bool any_finished = false;
  while (loop->advance()) {
    runtime_.step();
    scope.frame().variables.clear();
    assign(statement.target, loop->current());
    scope.frame().variables.insert_or_assign("loop", Value(Value::Storage(loop)));
    const Flow flow = execute(statement.body);
    if (flow == Flow::kBreak) {
      break;
    }
    any_finished = any_finished || flow == Flow::kNormal;
  }
  return any_finished;
}

Interpreter::Flow Interpreter::run(const Set& statement, Position at) {
  Value value = evaluate(*statement.value);
  runtime_.at(at);
  assign(statement.target, std::move(value));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run(const SetBlock& statement, Position at) {
  Value text;
  const Flow flow = capture(statement.body, text);
  if (flow == Flow::kNormal) {
    runtime_.at(at);
    assign(statement.target, std::move(text));
  }
  return flow;
}

Interpreter::Flow Interpreter::run(const MacroStatement& statement, Position) {
  runtime_.grow(sizeof(Function));
  const auto function =
      std::make_shared<const Function>(Function{nullptr, {}, statement.macro.get(), frame_->id});
  frame_->variables.insert_or_assign(statement.macro->name, Value(Value::Storage(function)));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run(const Generation& statement, Position) {
  Scope scope(*this, frame_);
  return execute(statement.body);
}

Interpreter::Flow Interpreter::run(const Jump& statement, Position) {
  return statement.ends_loop ? Flow::kBreak : Flow::kContinue;
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

void Interpreter::assign(const Target& target, Value value) {
  if (!target.unpacks) {
    return assign(target.places.front(), std::move(value));
  }
  runtime_.at(target.places.front().at);
  require_defined(runtime_, value);
  const Items items = items_of(runtime_, value);
  runtime_.require(items.size() == target.places.size(), "cannot unpack {} values into {} names",
                   items.size(), target.places.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    assign(target.places[i], items[i]);
  }
}

void Interpreter::assign(const Target::Place& place, Value value) {
  if (place.attribute.empty()) {
    frame_->variables.insert_or_assign(place.name, std::move(value));
    return;
  }
  runtime_.at(place.at);
  const Value* space = find_variable(place.name);
  runtime_.require(space != nullptr && space->is(Kind::kNamespace),
                   "'{}' is no namespace, so its attributes cannot be set",
                   core::printable(place.name));
  runtime_.grow(sizeof(Dict::Entry));
  space->space().attributes.set(make_text(runtime_, place.attribute), std::move(value));
}

}  // namespace nibble::jinja
