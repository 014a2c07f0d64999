#include <memory>

#include <fmt/format.h>

#include "core/error.h"
#include "core/ordered_json.h"
#include "scaling/scaling_case.h"
#include "serve/api_error.h"
#include "serve/json_request.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/matcher.h"
#include "text/grammar/regex_grammar.h"

namespace nibble::scaling {
namespace {

constexpr std::size_t kMost = std::size_t{1} << 19;

struct Source {
  const char* name;
  std::string (*make)(std::size_t bytes);
};

std::string numbered(std::size_t bytes, const char* begin, const char* before, const char* behind,
                     const char* end) {
  std::string text = begin;
  for (std::size_t i = 0; text.size() < bytes; ++i) {
    text += fmt::format("{}{}{}{}", i == 0 ? "" : ",", before, i, behind);
  }
  return text + end;
}

std::string nested(std::size_t bytes, std::string_view open, std::string_view inside,
                   std::string_view close) {
  const std::size_t depth = bytes / (open.size() + close.size());
  return repeated(open, depth * open.size()) + std::string(inside) +
         repeated(close, depth * close.size());
}

// Names of up to 1000 letters that differ at their ends only.
std::string long_names(std::size_t bytes) {
  const std::string start(990, 'n');
  std::string text = R"({"additionalProperties": true, "properties": {)";
  for (std::size_t i = 0; text.size() < bytes; ++i) {
    text += fmt::format("{}\"{}{}\": true", i == 0 ? "" : ",", start, i);
  }
  return text + "}}";
}

// Schemas in one another with long names, and many small ones in the innermost.
std::string long_places(std::size_t bytes) {
  constexpr std::size_t kDepth = 28;  // two levels each; requests have at most 64
  const std::string name(std::min<std::size_t>(bytes / (2 * kDepth), 900), 'n');
  std::string text;
  std::string close;
  for (std::size_t i = 0; i < kDepth; ++i) {
    text += fmt::format(R"({{"properties": {{"{}": )", name);
    close += "}}";
  }
  return text + numbered(bytes / 2, R"({"anyOf": [)", R"({"title": ")", R"("})", "]}") + close;
}

std::string required_properties(std::size_t bytes) {
  std::string properties;
  std::string required;
  for (std::size_t i = 0; properties.size() + required.size() < bytes; ++i) {
    const char* comma = i == 0 ? "" : ",";
    properties += fmt::format("{}\"{}\": true", comma, i);
    required += fmt::format("{}\"{}\"", comma, i);
  }
  return fmt::format(R"({{"properties": {{{}}}, "required": [{}]}})", properties, required);
}

const Source kSchemas[] = {
    {"many properties",
     [](std::size_t n) { return numbered(n, R"({"properties": {)", "\"", "\": true", "}}"); }},
    {"properties that are required", required_properties},
    {"required names without properties",
     [](std::size_t n) { return numbered(n, R"({"required": [)", "\"", "\"", "]}"); }},
    {"annotations",
     [](std::size_t n) { return numbered(n, R"({"$defs": {)", "\"", "\": 1", "}}"); }},
    {"keywords that are not known",
     [](std::size_t n) { return numbered(n, "{", "\"", "\": 1", "}"); }},
    {"references",
     [](std::size_t n) {
       return numbered(n / 2, R"({"$defs": {)", "\"", "\": true", "}, ") +
              numbered(n / 2, R"("anyOf": [)", R"({"$ref": "#/$defs/)", "\"}", "]}");
     }},
    {"choices", [](std::size_t n) { return numbered(n, R"({"enum": [)", "\"", "\"", "]}"); }},
    {"schemas that are alternatives",
     [](std::size_t n) { return numbered(n, R"({"anyOf": [)", R"({"const": )", "}", "]}"); }},
    {"items one after another",
     [](std::size_t n) {
       return numbered(n, R"({"minItems": 2000, "prefixItems": [)", R"({"const": )", "}", "]}");
     }},
    {"types",
     [](std::size_t n) {
       return R"({"anyOf": [)" + repeated(R"({"type": ["string", "null"]},)", n) + "true]}";
     }},
    {"a type that stands often",
     [](std::size_t n) { return R"({"type": [)" + repeated(R"("string",)", n) + R"("null"]})"; }},
    {"schemas in one another",
     [](std::size_t n) {
       const std::string deep = nested(500, R"({"items":)", "true", "}");  // 50 levels
       return R"({"anyOf": [)" + repeated(deep + ",", n) + "true]}";
     }},
    {"schemas that are too deep",
     [](std::size_t n) { return nested(n, R"({"items":)", "true", "}"); }},
    {"names that begin alike", long_names},
    {"long places", long_places},
    {"a long pattern",
     [](std::size_t n) { return R"({"pattern": ")" + repeated("[^a-c]", n) + "\"}"; }},
};

const Source kExpressions[] = {
    {"one letter", [](std::size_t n) { return repeated("a", n); }},
    {"choices", [](std::size_t n) { return different_words(n, "|"); }},
    {"classes", [](std::size_t n) { return repeated("[^a-z]", n); }},
    {"one large class", [](std::size_t n) { return "[" + repeated("z-~a-y", n) + "]"; }},
    {"groups in one another", [](std::size_t n) { return nested(n, "(", "a", ")"); }},
    {"groups", [](std::size_t n) { return repeated("(a|b)", n); }},
    {"repetitions", [](std::size_t n) { return repeated("a{9}", n); }},
    {"optional groups", [](std::size_t n) { return repeated("(a?)*", n); }},
};

std::string rules(std::size_t bytes, const char* body) {
  std::string text = "root ::= r0\n";
  std::size_t i = 0;
  for (; text.size() < bytes; ++i) {
    text += fmt::format("r{} ::= {} r{}\n", i, body, i + 1);
  }
  return text + fmt::format("r{} ::= \"\"\n", i);
}

// A rule of many that can be empty, which are found out one after the other.
std::string empty_rules(std::size_t bytes) {
  std::string text = "root ::= \"a\" ";
  std::string all;
  std::string defined;
  std::size_t i = 0;
  for (; all.size() + defined.size() < bytes; ++i) {
    all += fmt::format("e{} ", i);
    defined += fmt::format("e{} ::= e{} | \"x\"\n", i, i + 1);
  }
  return text + all + "\n" + defined + fmt::format("e{} ::= \"\"\n", i);
}

const Source kGrammars[] = {
    {"a long text", [](std::size_t n) { return "root ::= \"" + repeated("a", n) + "\""; }},
    {"escapes", [](std::size_t n) { return "root ::= \"" + repeated("\\u00e9", n) + "\""; }},
    {"choices", [](std::size_t n) { return "root ::= " + repeated("\"a\" | ", n) + "\"b\""; }},
    {"comments", [](std::size_t n) { return repeated("# c\n", n) + "root ::= \"a\""; }},
    {"comments behind names",
     [](std::size_t n) { return "root ::= (" + repeated("a # c\n", n) + ")\na ::= \"x\""; }},
    {"rules", [](std::size_t n) { return rules(n, "\"x\""); }},
    {"rules that can be empty", [](std::size_t n) { return rules(n, "\"x\"?"); }},
    {"a rule of empty ones", empty_rules},
    {"names without rules", [](std::size_t n) { return "root ::= " + different_words(n, " "); }},
    {"groups in one another",
     [](std::size_t n) { return "root ::= " + nested(n, "(", "\"a\"", ")"); }},
    {"one large class", [](std::size_t n) { return "root ::= [" + repeated("z-~a-y", n) + "]"; }},
};

using Parse = std::shared_ptr<const text::Grammar> (*)(const std::string& source);

template <std::size_t count>
void add_sources(Cases& cases, const char* path, const Source (&sources)[count], Parse parse) {
  for (const Source& source : sources) {
    cases.push_back({fmt::format("{}: {}", path, source.name),
                     [parse, make = source.make](std::size_t size) {
                       return [parse, source = make(size)] {
                         text::GrammarMatcher matcher(parse(source));
                       };
                     },
                     kMost});
  }
}

// Reading a text along a grammar.
void add_matching(Cases& cases, const char* name, std::shared_ptr<const text::Grammar> grammar,
                  std::string (*make)(std::size_t bytes), std::size_t most = std::size_t{1} << 17) {
  cases.push_back({fmt::format("text along a grammar: {}", name),
                   [grammar, make](std::size_t size) {
                     return [grammar, text = make(size)] {
                       text::GrammarMatcher matcher(grammar);
                       text::GrammarMatcher::State state = matcher.start();
                       for (const char c : text) {
                         matcher.allow_bytes(1);
                         state = matcher.next(state, static_cast<std::uint8_t>(c));
                       }
                     };
                   },
                   most});
}

}  // namespace

void add_grammar_cases(Cases& cases) {
  add_sources(cases, "JSON schema", kSchemas, [](const std::string& source) {
    try {
      return text::json_schema_grammar(serve::parse_request(source));
    } catch (const serve::ApiError& error) {  // too deep
      core::fail(core::ErrorKind::kUsage, "{}", error.what());
    }
  });
  add_sources(cases, "regular expression", kExpressions,
              [](const std::string& source) { return text::parse_regex_grammar(source); });
  add_sources(cases, "GBNF", kGrammars,
              [](const std::string& source) { return text::parse_gbnf(source); });
  add_matching(
      cases, "JSON in JSON", text::json_grammar(false),
      [](std::size_t n) { return nested(n / 8, "[", "1", "]"); },
      std::size_t{1} << 13);  // the states of more leave the caches of a core
  add_matching(
      cases, "brackets in brackets", text::parse_gbnf("root ::= \"[\" root \"]\" | \"1\""),
      [](std::size_t n) { return nested(n, "[", "1", "]"); }, std::size_t{1} << 13);
  add_matching(cases, "escapes in JSON", text::json_grammar(false),
               [](std::size_t n) { return "\"" + repeated("\\u00e9\\n", n) + "\""; });
  add_matching(cases, "many members", text::json_grammar(false),
               [](std::size_t n) { return numbered(n, "{", "\"", "\": null", "}"); });
  add_matching(cases, "any letters", text::parse_regex_grammar(".*"),
               [](std::size_t n) { return repeated("\u6f22", n); });
  add_matching(cases, "repetitions in repetitions", text::parse_regex_grammar("(.{1,50})*"),
               [](std::size_t n) { return repeated("a", n); });
}

}  // namespace nibble::scaling
