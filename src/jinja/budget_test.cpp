#include <ctime>
#include <string>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/ordered_json.h"
#include "jinja/golden_files.h"
#include "jinja/limits.h"

// Templates that try to exhaust their host: each must end soon, with one line of explanation.
namespace nibble::jinja {
namespace {

std::string repeat(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    out += text;
  }
  return out;
}

void expect_refused(const std::string& source, const std::string& reason) {
  const std::clock_t start = std::clock();  // CPU time: the machine may be busy
  try {
    const std::string output = render(source);
    ADD_FAILURE() << source.substr(0, 100) << " gave " << output.size() << " bytes";
  } catch (const core::Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel) << message;
    EXPECT_TRUE(message.starts_with("chat template ")) << message;
    EXPECT_NE(message.find(reason), std::string::npos) << message;
    EXPECT_LT(message.size(), 250U);
  }
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, 60.0) << source.substr(0, 100);
}

TEST(TemplateBudget, EndsLoopsInLoops) {
  expect_refused("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
                 "too m");
  expect_refused("{% for a in range(100000) %}{{ range(100000) | length }}{% endfor %}", "too m");
  expect_refused("{% for a in range(100000) %}{{ 5 in range(100000) | list }}{% endfor %}",
                 "too m");
}

TEST(TemplateBudget, CountsSteps) {
  expect_refused(
      "{% set r = range(3000) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}",
      "too many steps");
}

TEST(TemplateBudget, EndsSearchesInLongTexts) {
  const std::string text = "{% set t = 'a' * 1000000 %}{% set u = 'a' * 500000 ~ 'b' %}";
  for (const char* work :
       {"u in t", "t.find(u)", "t.replace(u, '')", "t.split(u)", "t.count(u)", "t | upper | length",
        "t == t ~ 'a'", "t | length", "t.strip('b')", "t[::-1] | length"}) {
    expect_refused(text + "{% for i in range(100000) %}{% set x = " + work + " %}{% endfor %}",
                   "too m");
  }
}

TEST(TemplateBudget, EndsGrowingTexts) {
  expect_refused(
      "{% set ns = namespace(x='ab') %}{% for i in range(100) %}"
      "{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
      "too much text");
  expect_refused(
      "{% set ns = namespace(x='ab') %}{% for i in range(100) %}"
      "{% set ns.x = ns.x.replace('a', 'aab') %}{% endfor %}",
      "too much text");
  expect_refused(
      "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}"
      "{% set ns.x = ns.x + ns.x %}{% endfor %}",
      "too much text");
  expect_refused("{% for i in range(100000) %}{{ 'x' * 100000 }}{% endfor %}", "too much text");
  for (const char* source :
       {"'a' * 1000000000000000000", "1000000000000000000 * 'a'",
        "'a' | indent(1000000000000000000, true)", "[1] | tojson(indent=1000000000000000000)",
        "('a' * 1000000) | replace('', 'b' * 1000)", "('a' * 1000000000) | length"}) {
    expect_refused("{{ " + std::string(source) + " }}", "too much text");
  }
}

TEST(TemplateBudget, EndsValuesThatShareTheirParts) {
  // Each round doubles what printing or comparing has to walk over, not the memory it takes.
  const std::string grow =
      "{% set ns = namespace(x=[], y=[]) %}{% for i in range(60) %}"
      "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}";
  expect_refused(grow + "{{ ns.x }}", "too m");
  expect_refused(grow + "{{ ns.x | tojson }}", "too m");
  expect_refused(grow + "{{ ns.x == ns.y }}", "too m");
  expect_refused(grow + "{{ ns.y in [ns.x] }}", "too m");
}

TEST(TemplateBudget, EndsDeepValues) {
  expect_refused(
      "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}"
      "{% set ns.x = [ns.x] %}{% endfor %}",
      "nest deeper");
  expect_refused(
      "{% set ns = namespace(x={}) %}{% for i in range(100000) %}"
      "{% set ns.x = {'k': ns.x} %}{% endfor %}",
      "nest deeper");
  expect_refused(
      "{% set ns = namespace(x={}) %}{% for i in range(100000) %}"
      "{% set ns.x = {'k': ns.x.items()} %}{% endfor %}",
      "nest deeper");
  expect_refused(
      "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}"
      "{% set ns.x = [ns.x | map('list')] %}{% endfor %}",
      "nest deeper");
}

TEST(TemplateBudget, LetsANamespaceHoldItself) {
  const Template chat_template(
      "{% set ns = namespace() %}{% set ns.self = ns %}{% set ns.list = [ns, ns.self] %}"
      "{{ ns.self.self.list[1].self == ns }}");
  EXPECT_EQ(render_with(chat_template, OrderedJson::object()), "True");
}

TEST(TemplateBudget, LetsALoopVariableOutliveItsLoop) {
  const Template chat_template(
      "{% set ns = namespace() %}{% for i in [1, 2, 3] if i != 2 %}{% set ns.loop = loop %}{% "
      "endfor %}"
      "{{ ns.loop.index }}{{ ns.loop.last }}{{ ns.loop.length }}{{ ns.loop.nextitem is defined }}");
  EXPECT_EQ(render_with(chat_template, OrderedJson::object()), "2True2False");
}

TEST(TemplateBudget, EndsRecursion) {
  expect_refused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recurses deeper");
  expect_refused("{% macro m(x) %}{{ m(x + 1) }}{{ m(x + 1) }}{% endmacro %}{{ m(0) }}",
                 "recurses deeper");
  expect_refused("{% macro m(x=m()) %}{% endmacro %}{{ m() }}", "recurses deeper");
}

TEST(TemplateBudget, EndsDeepSources) {
  const int many = 30'000;
  for (const auto& [open, close] :
       std::vector<std::pair<std::string, std::string>>{{"(", ")"},
                                                        {"[", "]"},
                                                        {"{1:", "}"},
                                                        {"f(", ")"},
                                                        {"a[", "]"},
                                                        {"-", ""},
                                                        {"not ", ""},
                                                        {"1 if 1 else ", ""},
                                                        {"x is eq (", ")"},
                                                        {"x | d(", ")"}}) {
    expect_refused("{{ " + repeat(open, many) + "1" + repeat(close, many) + " }}", "nests deeper");
  }
  for (const char* link : {" + 1", " ~ 1 + 1", " or 1", " and 1", ".a", "[0]", "()", "|e",
                           " is a(1)", " * 1", " if 1"}) {
    expect_refused("{{ 1" + repeat(link, many) + " }}", "deeper");
  }
  expect_refused(repeat("{% if 1 %}", many), "nests deeper");
  expect_refused(repeat("{% for x in y %}", many), "nests deeper");
  expect_refused(repeat("{% macro m() %}", many), "nests deeper");
  expect_refused(repeat("{% if 1 %}{% else %}", many), "nests deeper");
}

TEST(TemplateBudget, BearsWideSources) {
  const int many = 20'000;
  const auto bytes = [](const std::string& source) { return render(source).size(); };
  EXPECT_EQ(bytes("{% if 0 %}" + repeat("{% elif 0 %}", many) + "{% endif %}"), 0U);
  EXPECT_EQ(bytes("{{ [1" + repeat(", 1", many) + "] | length }}"), 5U);
  EXPECT_EQ(bytes(repeat("{{ 1 }}", many)), 20'000U);
  EXPECT_EQ(bytes("{{ {'a': 1" + repeat(", 'a': 1", many) + "} | length }}"), 1U);
}

TEST(TemplateBudget, RefusesSourcesThatAreTooLong) {
  EXPECT_THROW(Template(std::string(kMaxSourceBytes + 1, 'x')), core::Error);
  EXPECT_NO_THROW(Template(std::string(kMaxSourceBytes, 'x')));
}

TEST(TemplateBudget, RefusesLongRanges) {
  expect_refused("{{ range(100001) }}", "more than 100000");
  expect_refused("{{ range(9000000000000000000 * 9) }}", "64 bits");
  expect_refused("{{ range(-9000000000000000000, 9000000000000000000, 1) }}", "more than 100000");
}

TEST(TemplateBudget, RefusesIntegersThatAreTooLarge) {
  const std::string large =
      "{% set a = 9000000000000000000 %}{% set b = a * a %}";  // b * 3 > 2^127
  expect_refused(large + "{{ b * 3 }}", "too large");
  expect_refused(large + "{{ b + b + b }}", "too large");
  expect_refused(large + "{{ -b - b - b }}", "too large");
  expect_refused("{{ 1" + repeat("0", 60) + " }}", "too large");
}

TEST(TemplateBudget, GrowsWithTheConversation) {
  // Text far beyond the budget of an empty conversation, as a long conversation needs it.
  OrderedJson messages = OrderedJson::array();
  for (int i = 0; i < 40; ++i) {
    messages.push_back({{"role", "user"}, {"content", std::string(100'000, 'x')}});
  }
  const Template chat_template(
      "{% set ns = namespace(all='') %}{% for m in messages %}{% set ns.all = ns.all ~ m.content | "
      "trim %}"
      "{% endfor %}{{ ns.all }}");
  EXPECT_EQ(render_with(chat_template, {{"messages", messages}}).size(), 4'000'000U);
}

TEST(TemplateBudget, RefusesDeepMessages) {
  OrderedJson deep = OrderedJson::array();
  for (int i = 0; i < 200; ++i) {
    deep = OrderedJson::array({deep});
  }
  try {
    render_with(Template("x"), {{"messages", deep}});
    FAIL() << "nothing was thrown";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
  }
}

}  // namespace
}  // namespace nibble::jinja
