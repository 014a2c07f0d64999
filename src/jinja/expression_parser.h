#pragma once

#include <optional>

#include "jinja/ast.h"
#include "jinja/token_stream.h"

namespace nibble::jinja {

/// Recursive descent over Jinja's expressions. From loosest to tightest:
///   a if b else c · or · and · not · comparisons and in · + - · ~ · * / // % · unary -
///   · call, subscript, filter, test
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : stream_(stream) {}

  ExprPtr parse_expression();

  /// Without a conditional, where `if` means something else: heads of for and if.
  ExprPtr parse_unconditional();

  /// Expressions with commas between them make a tuple.
  ExprPtr parse_tuple(bool with_conditional);

  /// name, name.attribute (where `attributes` allows it), or several with commas between them.
  Target parse_target(bool attributes);

  /// To be kept on each level of the parser's recursion: refuses nesting beyond kMaxNesting.
  DepthGuard go_deeper();

 private:
  // What may follow an operand, beside calls.
  enum class Postfixes { kParts, kFiltersAndTests };

  ExprPtr parse_binary(int level);
  std::optional<Operator> take_operator(int level);
  ExprPtr parse_unary();
  ExprPtr parse_operand();
  ExprPtr parse_primary();
  ExprPtr parse_name();
  ExprPtr parse_string();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr operand, Postfixes which);
  ExprPtr parse_attribute(ExprPtr object);
  ExprPtr parse_subscript(ExprPtr object);
  ExprPtr parse_filter(ExprPtr operand);
  ExprPtr parse_test(ExprPtr operand);
  CallArguments parse_arguments();
  void parse_argument(CallArguments& arguments);
  bool at_tuple_end() const;
  Target::Place parse_place(bool attributes);

  TokenStream& stream_;
  int nesting_ = 0;
};

}  // namespace nibble::jinja
