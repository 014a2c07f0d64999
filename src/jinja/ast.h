#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/arithmetic.h"
#include "jinja/callable.h"
#include "jinja/compare.h"

// A parsed template. Immutable, so that one template may be rendered by many threads.
namespace nibble::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
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
struct Negation {
  ExprPtr operand;
};
struct Binary {
  Operator op = Operator::kAdd;
  ExprPtr left;
  ExprPtr right;
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
  const Builtin* builtin = nullptr;  // null: not supported, an error only when it is reached
  CallArguments arguments;
};
struct Test {
  ExprPtr operand;
  std::string name;
  const Builtin* builtin = nullptr;
  CallArguments arguments;
};
struct Expr {
  using Node = std::variant<Literal, Name, SequenceLiteral, DictLiteral, Not, Negation, Binary,
                            Conditional, Attribute, Item, Slice, FunctionCall, Filter, Test>;
  Position at;
  int depth = 1;  // levels of the tree below, itself included
  Node node;
};

struct Statement;
using Block = std::vector<Statement>;

/// What can be assigned to: a name or an attribute of a namespace, or several into which a value is
/// unpacked.
struct Target {
  struct Place {
    Position at;
    std::string name;
    std::string attribute;  // of the namespace `name`; empty: the name itself
  };
  std::vector<Place> places;
  bool unpacks = false;
};

struct Macro {
  struct Parameter {
    std::string name;
    ExprPtr fallback;  // may be null: undefined
  };
  std::string name;
  std::vector<Parameter> parameters;
  Block body;
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
  Block body;
};
struct MacroStatement {
  std::unique_ptr<const Macro> macro;
};
/// {% generation %}: marks what the assistant said; renders as its body.
struct Generation {
  Block body;
};
/// break, or continue.
struct Jump {
  bool ends_loop = false;
};

struct Statement {
  using Node =
      std::variant<TextPiece, Output, If, For, Set, SetBlock, MacroStatement, Generation, Jump>;
  Position at;
  Node node;
};

}  // namespace nibble::jinja
