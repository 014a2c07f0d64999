#include <memory>

#include <fmt/format.h>

#include "core/ordered_json.h"
#include "scaling/scaling_case.h"
#include "text/chat_template.h"

namespace nibble::scaling {
namespace {

using text::OrderedJson;

// A message of each role in turn; all of their contents have `bytes` bytes together.
OrderedJson conversation(std::size_t bytes, std::size_t bytes_each, std::string_view unit) {
  OrderedJson messages = OrderedJson::array();
  for (std::size_t i = 0; i * bytes_each < bytes; ++i) {
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"},
                        {"content", repeated(unit, std::min(bytes, bytes_each))}});
  }
  return messages;
}

void add_rendering(Cases& cases, const std::string& name, std::string_view source,
                   std::size_t bytes_each, std::string_view unit) {
  const auto chat_template = std::make_shared<const text::ChatTemplate>(source);
  cases.push_back(
      {fmt::format("chat messages: {}", name), [chat_template, bytes_each, unit](std::size_t size) {
         return [chat_template, messages = conversation(size, bytes_each, unit)] {
           (void)chat_template->render(messages, {});
         };
       }});
}

void add_source(Cases& cases, const char* name, std::string (*make)(std::size_t bytes)) {
  cases.push_back({fmt::format("chat template: {}", name),
                   [make](std::size_t size) {
                     return [source = make(size)] { (void)text::ChatTemplate(source); };
                   },
                   std::size_t{1} << 19});
}

constexpr std::string_view kChatMl =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m['content'] | trim }}<|im_end|>\n"
    "{% endfor %}";

}  // namespace

void add_chat_cases(Cases& cases) {
  add_rendering(cases, "many", kChatMl, 16, "a");
  add_rendering(cases, "a long one", kChatMl, SIZE_MAX, "a");
  add_rendering(cases, "one of spaces", kChatMl, SIZE_MAX, " ");
  add_rendering(cases, "tools",
                "{% for m in messages %}{% if loop.first or loop.previtem.role != m.role %}"
                "{{ m | tojson(indent=2) }}{% endif %}{% endfor %}",
                64, "\"\\");
  for (const char* work : {"x.split('</think>')[-1]",
                           "x.split('a') | length",
                           "x.strip()",
                           "x.lstrip('a')",
                           "x.rstrip('\\n')",
                           "x.replace('a', '')",
                           "x.replace('', 'b')",
                           "x | upper",
                           "x | title",
                           "x | capitalize",
                           "x | indent",
                           "x[::-1]",
                           "x.splitlines() | length",
                           "x | list | unique | list | length",
                           "x.find('aab')",
                           "x | list | sort | join",
                           "x.count('a')",
                           "x | int",
                           "x.startswith('a')",
                           "'aab' in x"}) {
    for (const char* unit : {"a", " ", "\n"}) {
      add_rendering(cases, fmt::format("{{{{ {} }}}} of '{}'", work, *unit == '\n' ? "\\n" : unit),
                    fmt::format("{{% set x = messages[0].content %}}{{{{ {} }}}}", work), SIZE_MAX,
                    unit);
    }
  }
  cases.push_back({"chat messages: names of one hash", [](std::size_t size) {
                     OrderedJson message = OrderedJson::object();
                     auto& members = message.get_ref<OrderedJson::object_t&>();
                     for (const std::string& name : texts_of_one_hash(size / 80)) {
                       members.OrderedJson::object_t::Container::emplace_back(name, 1);
                     }
                     const OrderedJson messages = OrderedJson::array({std::move(message)});
                     return [messages, chat_template = std::make_shared<const text::ChatTemplate>(
                                           "{{ messages | tojson | length }}")] {
                       (void)chat_template->render(messages, {});
                     };
                   }});
  add_source(cases, "text", [](std::size_t n) { return repeated("a", n); });
  add_source(cases, "spaces", [](std::size_t n) { return repeated(" ", n) + "{%- set a = 1 %}"; });
  add_source(cases, "tags", [](std::size_t n) { return repeated("{{ a }}", n); });
  add_source(cases, "comments", [](std::size_t n) { return repeated("{# a #}", n); });
  add_source(cases, "starts of comments", [](std::size_t n) { return repeated("{#", n); });
  add_source(cases, "a long string",
             [](std::size_t n) { return "{{ '" + repeated("\\u00e9", n) + "' }}"; });
  add_source(cases, "strings", [](std::size_t n) { return "{{ " + repeated("'a' ", n) + " }}"; });
  add_source(cases, "a list", [](std::size_t n) { return "{{ [" + repeated("1,", n) + "1] }}"; });
  add_source(cases, "a sum", [](std::size_t n) { return "{{ 1" + repeated(" ~ 1", n) + " }}"; });
  add_source(cases, "digits", [](std::size_t n) { return "{{ " + repeated("1", n) + " }}"; });
  add_source(cases, "names",
             [](std::size_t n) { return "{{ [x" + different_words(n, ",x") + "] }}"; });
  add_source(cases, "branches", [](std::size_t n) {
    return "{% if 0 %}" + repeated("{% elif 0 %}", n) + "{% endif %}";
  });
  add_source(cases, "macros in one another", [](std::size_t n) {
    const std::string open = "{% macro m(a) %}";
    const std::string close = "{% endmacro %}";
    constexpr std::size_t kDepth = 90;  // at most 100 are allowed
    return repeated(open, kDepth * open.size()) + different_words(n, "{{a}}") +
           repeated(close, kDepth * close.size());
  });
  add_source(cases, "brackets", [](std::size_t n) { return "{{ " + repeated("(", n) + " }}"; });
}

}  // namespace nibble::scaling
