#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/ast.h"
#include "jinja/loop.h"
#include "jinja/make.h"

namespace nibble::jinja {

/// The variables of one scope. Names not found here are looked up in the parent.
struct Frame {
  const Frame* parent = nullptr;
  std::uint64_t id = 0;
  // Keys point into the parsed template. A tree, since a client names some of them.
  std::map<std::string_view, Value> variables;
};

/// Renders one template once: walks the tree, spends from the runtime's budget.
class Interpreter {
 public:
  explicit Interpreter(Runtime& runtime);

  /// Gives the template a variable. `name` must outlive the interpreter.
  void define(std::string_view name, Value value);

  std::string render(const Block& block);

 private:
  enum class Flow { kNormal, kBreak, kContinue };

  // A frame that is current while the object lives.
  class Scope {
   public:
    Scope(Interpreter& interpreter, const Frame* parent);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    Frame& frame() { return frame_; }

   private:
    Interpreter& interpreter_;
    Frame* outer_;
    Frame frame_;
  };

  // Statements (execute.cpp).
  Flow execute(const Block& block);
  Flow run(const TextPiece& statement, Position at);
  Flow run(const Output& statement, Position at);
  Flow run(const If& statement, Position at);
  Flow run(const For& statement, Position at);
  Flow run(const Set& statement, Position at);
  Flow run(const SetBlock& statement, Position at);
  Flow run(const MacroStatement& statement, Position at);
  Flow run(const Generation& statement, Position at);
  Flow run(const Jump& statement, Position at);
  bool run_rounds(const For& statement, const std::shared_ptr<Loop>& loop);
  Flow capture(const Block& block, Value& text);
  void assign(const Target& target, Value value);
  void assign(const Target::Place& place, Value value);

  // Expressions (evaluate.cpp).
  Value evaluate(const Expr& expr);
  Value evaluate_or(const ExprPtr& expr, Value fallback);
  Value value_of(const Literal& node, Position at);
  Value value_of(const Name& node, Position at);
  Value value_of(const SequenceLiteral& node, Position at);
  Value value_of(const DictLiteral& node, Position at);
  Value value_of(const Not& node, Position at);
  Value value_of(const Negation& node, Position at);
  Value value_of(const Binary& node, Position at);
  Value value_of(const Conditional& node, Position at);
  Value value_of(const Attribute& node, Position at);
  Value value_of(const Item& node, Position at);
  Value value_of(const Slice& node, Position at);
  Value value_of(const FunctionCall& node, Position at);
  Value value_of(const Filter& node, Position at);
  Value value_of(const Test& node, Position at);

  // Calls (call.cpp).
  Arguments evaluate_arguments(const CallArguments& arguments);
  Value call(const Value& callee, const Arguments& arguments);
  Value call_macro(const Function& function, const Arguments& arguments);
  void bind_parameters(const Macro& macro, const Arguments& arguments, Frame& frame);

  const Value* find_variable(std::string_view name) const;
  const Frame* find_frame(std::uint64_t id) const;
  DepthGuard go_deeper();

  Runtime& runtime_;
  Frame root_;
  Frame* frame_ = &root_;
  std::vector<const Frame*> live_frames_;
  std::uint64_t last_frame_id_ = 0;
  TextBuilder* out_ = nullptr;
  int depth_ = 0;
};

}  // namespace nibble::jinja
