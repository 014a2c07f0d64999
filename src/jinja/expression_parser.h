#pragma once

#include <set>

#include "jinja/ast.h"
#include "jinja/token_stream.h"

namespace nibble::jinja {

/// Refuses nesting beyond kMaxNesting: one of these lives on each level of the parser's recursion.
class NestingGuard {
 public:
  NestingGuard(int& depth, Position at);
  ~NestingGuard() { --depth_; }
  NestingGuard(const NestingGuard&) = delete;
  NestingGuard& operator=(const NestingGuard&) = delete;

 private:
  int& depth_;
};

/// Recursive descent over Jinja's expressions. From loosest to tightest:
///   a if b else c · or · and · not · comparisons and in · + - · ~ · * / // % · ** · unary + -
///   · call, subscript, filter, test
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : stream_(stream) {}

  ExprPtr parse_expression();

  /// Without a conditional, where `if` means something else: heads of for and if.
  ExprPtr parse_unconditional();

  /// Expressions with commas between them make a tuple. `stop` is a name that ends it too.
  ExprPtr parse_tuple(bool with_conditional, std::string_view stop = {});

  /// name|filter|filter(...) without the operand, which is the captured text.
  ExprPtr parse_filters_of_block();

  /// name, name.attribute (where `attributes` allows it) or a tuple of such.
  Target parse_target(bool attributes);

  /// Names that the expressions read, gathered while it is set: macros ask for some of them.
  void gather_names(std::set<std::string>* names) { names_ = names; }
  std::set<std::string>* gathered_names() const { return names_; }

  int& nesting() { return nesting_; }

 private:
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_comparison();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filters);
  ExprPtr parse_primary();
  ExprPtr parse_name();
  ExprPtr parse_string();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr operand);
  ExprPtr parse_filters_and_tests(ExprPtr operand);
  ExprPtr parse_attribute(ExprPtr object);
  ExprPtr parse_subscript(ExprPtr object);
  ExprPtr parse_filter(ExprPtr operand);
  ExprPtr parse_test(ExprPtr operand);
  CallArguments parse_arguments();
  void parse_argument(CallArguments& arguments);
  bool at_tuple_end(std::string_view stop) const;
  std::string parse_dotted_name();
  Target parse_single_target(bool attributes);

  TokenStream& stream_;
  std::set<std::string>* names_ = nullptr;
  int nesting_ = 0;
};

}  // namespace nibble::jinja
