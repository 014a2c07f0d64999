#include "cli/grammar_options.h"

#include "cli/option.h"
#include "core/error.h"
#include "core/ordered_json.h"
#include "io/text_file.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/regex_grammar.h"

namespace nibble::cli {
namespace {

constexpr std::int64_t kMaxGrammarBytes = 1 << 20;

}  // namespace

void GrammarOptions::add(CLI::App& app) {
  CLI::App& group = add_group(app, "Constrained text", "what the text must be, one of");
  add_option(group, "--grammar", grammar_, "A grammar in GBNF");
  add_option(group, "--grammar-file", grammar_file_, "The same, from a file");
  add_option(group, "-j,--json-schema", schema_, "A JSON schema ({} for any value)");
  add_option(group, "--json-schema-file", schema_file_, "The same, from a file");
  add_option(group, "--regex", regex_, "A regular expression that matches all of it");
  allow_one(group);
}

std::shared_ptr<const text::Grammar> GrammarOptions::open() const {
  if (!grammar_.empty() || !grammar_file_.empty()) {
    return text::parse_gbnf(
        grammar_file_.empty() ? grammar_ : io::read_named_text(grammar_file_, kMaxGrammarBytes));
  }
  if (!schema_.empty() || !schema_file_.empty()) {
    const std::string what = schema_file_.empty() ? "JSON schema" : schema_file_;
    const std::string text =
        schema_file_.empty() ? schema_ : io::read_named_text(schema_file_, kMaxGrammarBytes);
    try {
      return text::json_schema_grammar(core::parse_ordered_json(text, what));
    } catch (const core::Error& error) {
      throw core::Error(
          error.kind() == core::ErrorKind::kInvalidModel ? core::ErrorKind::kUsage : error.kind(),
          error.what());
    }
  }
  return regex_.empty() ? nullptr : text::parse_regex_grammar(regex_);
}

}  // namespace nibble::cli
