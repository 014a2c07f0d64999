#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/arithmetic.h"
#include "jinja/callable.h"

// A parsed template. Immutable, so that one template may be rendered by many threads.
namespace nibble::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr more_positional;  // *items; may be null
  ExprPtr more_named;       // **dict; may be null
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct SequenceLiteral {
  bool tuple = false;
  std::vector<ExprPtr> items;
};
struct DictLiteral {
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};
struct Not {
  ExprPtr operand;
};
struct Sign {
  bool negative = false;
  ExprPtr operand;
};
struct Arithmetic {
  Operator op = Operator::kAdd;
  ExprPtr left;
  ExprPtr right;
};
/// `and`, `or`: gives the operand that decides.
struct Logical {
  bool is_and = false;
  ExprPtr left;
  ExprPtr right;
};
enum class Comparison {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};
/// a < b <= c: all must hold, each operand is evaluated once.
struct Compare {
  ExprPtr first;
  std::vector<std::pair<Comparison, ExprPtr>> rest;
};
struct Concat {
  std::vector<ExprPtr> parts;
};
struct Conditional {
  ExprPtr condition;
  ExprPtr then;
  ExprPtr otherwise;  // may be null: undefined
};
struct Attribute {
  ExprPtr object;
  std::string name;
};
struct Item {
  ExprPtr object;
  ExprPtr key;
};
struct Slice {
  ExprPtr object;
  ExprPtr start;  // each may be null
  ExprPtr stop;
  ExprPtr step;
};
struct FunctionCall {
  ExprPtr callee;
  CallArguments arguments;
};
struct Filter {
  ExprPtr operand;
  std::string name;
  const Builtin* builtin = nullptr;  // null: unknown, an error only when it is reached
  CallArguments arguments;
};
struct Test {
  ExprPtr operand;
  std::string name;
  const Builtin* builtin = nullptr;
  CallArguments arguments;
};
/// The text of the enclosing filter or set block, on which its filters work.
struct CapturedText {};

struct Expr {
  using Node = std::variant<Literal, Name, SequenceLiteral, DictLiteral, Not, Sign, Arithmetic,
                            Logical, Compare, Concat, Conditional, Attribute, Item, Slice,
                            FunctionCall, Filter, Test, CapturedText>;
  Position at;
  int depth = 1;  // levels of the tree below, itself included
  Node node;
};

struct Statement;
using Block = std::vector<Statement>;

/// What can be assigned to: a name, an attribute of a namespace, or a tuple of such.
struct Target {
  Position at;
  std::string name;
  std::string attribute;      // of the namespace `name`; empty: the name itself
  std::vector<Target> items;  // of a tuple, when `is_tuple`
  bool is_tuple = false;
};

/// A callable piece of template: a macro, or the body of a call block.
struct Macro {
  struct Parameter {
    std::string name;
    ExprPtr fallback;  // may be null: undefined
  };
  std::string name;
  std::vector<Parameter> parameters;
  Block body;
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

struct TextPiece {
  std::string text;
};
struct Output {
  ExprPtr value;
};
struct If {
  std::vector<std::pair<ExprPtr, Block>> branches;  // if and elif, in order
  Block otherwise;
};
struct For {
  Target target;
  ExprPtr iterable;
  ExprPtr condition;  // may be null
  Block body;
  Block otherwise;
  bool has_otherwise = false;
};
struct Set {
  Target target;
  ExprPtr value;
};
struct SetBlock {
  Target target;
  ExprPtr filters;  // over CapturedText; may be null
  Block body;
};
struct MacroStatement {
  std::unique_ptr<const Macro> macro;
};
struct CallBlock {
  std::unique_ptr<const Macro> caller;
  ExprPtr call;  // a FunctionCall
};
struct FilterBlock {
  ExprPtr filters;
  Block body;
};
struct With {
  std::vector<std::pair<Target, ExprPtr>> variables;
  Block body;
};
/// {% generation %}: marks what the assistant said; renders as its body.
struct Generation {
  Block body;
};
struct Break {};
struct Continue {};

struct Statement {
  using Node = std::variant<TextPiece, Output, If, For, Set, SetBlock, MacroStatement, CallBlock,
                            FilterBlock, With, Generation, Break, Continue>;
  Position at;
  Node node;
};

}  // namespace nibble::jinja
