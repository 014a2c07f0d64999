#include <array>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/ordered_json.h"
#include "jinja/golden_files.h"

// Broken templates end with a text or an Error, never with anything else; the sanitizer builds see
// the rest.
namespace nibble::jinja {
namespace {

class TemplateFuzz : public ::testing::Test {
 protected:
  TemplateFuzz()
      : expressions_(read_goldens("expressions.json")), whole_(read_goldens("conversations.json")) {
    for (const OrderedJson& golden : expressions_["cases"]) {
      small_.push_back(golden["template"].get<std::string>());
    }
    for (const char* file : {"conversations.json", "more_families.json"}) {
      const OrderedJson goldens = read_goldens(file);
      for (const OrderedJson& golden : goldens["templates"]) {
        large_.push_back(golden["template"].get<std::string>());
      }
    }
    variables_ = expressions_["variables"];
    variables_.update(whole_["variants"][1]);
    variables_["messages"] = whole_["conversations"][8];
  }

  void expect_text_or_error(const std::string& source) {
    try {
      render_with(Template(source), variables_, 0);
      ++rendered_;
    } catch (const core::Error& error) {
      ++refused_;
      ASSERT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }

  OrderedJson expressions_;
  OrderedJson whole_;
  std::vector<std::string> small_;
  std::vector<std::string> large_;
  OrderedJson variables_;
  int rendered_ = 0;
  int refused_ = 0;
};

TEST_F(TemplateFuzz, EveryPrefixOfATemplate) {
  for (const std::string& source : small_) {
    for (std::size_t length = 0; length < source.size(); ++length) {
      expect_text_or_error(source.substr(0, length));
    }
  }
  for (const std::string& source : large_) {
    for (std::size_t length = 0; length < source.size(); ++length) {
      expect_text_or_error(source.substr(0, length));
    }
  }
  EXPECT_GT(rendered_, 1000);
  EXPECT_GT(refused_, 1000);
}

// Changes that keep most of a template alive: bytes, pieces, and words of the language.
std::string mutate(std::string source, const std::string& donor, std::mt19937& random) {
  constexpr std::array<const char*, 40> kWords = {"{{",
                                                  "}}",
                                                  "{%",
                                                  "%}",
                                                  "{#",
                                                  "-",
                                                  "|",
                                                  "(",
                                                  ")",
                                                  "[",
                                                  "]",
                                                  "{",
                                                  "}",
                                                  "'",
                                                  "\\",
                                                  "~",
                                                  "**",
                                                  " if ",
                                                  " else ",
                                                  " in ",
                                                  " not ",
                                                  " is ",
                                                  " for ",
                                                  "loop",
                                                  ".",
                                                  ":",
                                                  ",",
                                                  "=",
                                                  "0",
                                                  "-1",
                                                  "99999999999999999999",
                                                  "1e308",
                                                  "none",
                                                  "messages",
                                                  "{% for x in messages %}",
                                                  "{% endfor %}",
                                                  "{% set ns = namespace(x=1) %}",
                                                  "{% macro m(a, b=1) %}",
                                                  "{% endmacro %}",
                                                  "\xc3\xa9"};
  const auto below = [&](std::size_t limit) {
    return limit == 0 ? 0 : std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
  };
  const std::size_t changes = 1 + below(3);
  for (std::size_t i = 0; i < changes; ++i) {
    const std::size_t at = below(source.size() + 1);
    const std::size_t length = below(std::min<std::size_t>(30, source.size() - at) + 1);
    switch (below(5)) {
      case 0:
        source.erase(at, length);
        break;
      case 1:
        source.insert(at, kWords[below(kWords.size())]);
        break;
      case 2:
        source.replace(at, length, kWords[below(kWords.size())]);
        break;
      case 3:
        source.insert(at, donor.substr(below(donor.size()), 30));
        break;
      default:
        if (at < source.size()) {
          source[at] = static_cast<char>(below(256));
        }
    }
  }
  return source;
}

TEST_F(TemplateFuzz, MutatedTemplates) {
  constexpr int kRounds = 20'000;
  std::mt19937 random(20240726);
  for (int round = 0; round < kRounds; ++round) {
    const auto& pool = round % 4 == 0 ? large_ : small_;
    const std::string& source = pool[random() % pool.size()];
    const std::string& donor = large_[random() % large_.size()];
    expect_text_or_error(mutate(source, donor, random));
  }
  EXPECT_GT(rendered_, 1000);
  EXPECT_GT(refused_, 1000);
}

}  // namespace
}  // namespace nibble::jinja
