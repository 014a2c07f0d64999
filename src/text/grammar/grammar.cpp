#include "text/grammar/grammar.h"

#include <algorithm>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/strong_components.hpp>

#include "core/error.h"
#include "text/grammar/utf8_ranges.h"

namespace nibble::text {

using core::ErrorKind;

std::vector<CodePointRange> complement(std::vector<CodePointRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const CodePointRange& a, const CodePointRange& b) { return a.low < b.low; });
  std::vector<CodePointRange> rest;
  std::uint32_t next = 0;
  for (const CodePointRange& range : ranges) {
    if (range.low > next) {
      rest.push_back({next, range.low - 1});
    }
    next = std::max(next, range.high + 1);
  }
  if (next <= kLastCodePoint) {
    rest.push_back({next, kLastCodePoint});
  }
  return rest;
}

std::int32_t GrammarBuilder::add_rule(std::string name) {
  add_elements(1);
  rules_.push_back({std::move(name), {}});
  return static_cast<std::int32_t>(rules_.size()) - 1;
}

void GrammarBuilder::add_alternative(std::int32_t rule, const GrammarSequence& sequence) {
  add_elements(sequence.size() + 1);
  rules_[static_cast<std::size_t>(rule)].alternatives.push_back(sequence);
}

void GrammarBuilder::append_text(GrammarSequence& sequence, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    sequence.push_back(GrammarElement::bytes(byte, byte));
  }
}

void GrammarBuilder::append_class(GrammarSequence& sequence,
                                  const std::vector<CodePointRange>& ranges) {
  std::vector<GrammarSequence> sequences;
  for (const CodePointRange& range : ranges) {
    for (const Utf8Sequence& each : utf8_sequences(range)) {
      GrammarSequence bytes;
      for (const ByteRange& byte : each) {
        bytes.push_back(GrammarElement::bytes(byte.low, byte.high));
      }
      sequences.push_back(std::move(bytes));
    }
  }
  const GrammarSequence one = any_of(sequences);
  sequence.insert(sequence.end(), one.begin(), one.end());
}

GrammarSequence GrammarBuilder::repeated(const GrammarSequence& sequence, std::int64_t least,
                                         std::int64_t most) {
  core::require(least <= kMaxRepeats && most <= kMaxRepeats, ErrorKind::kUsage,
                "a grammar repeats something {} times; at most {} are taken", std::max(least, most),
                kMaxRepeats);
  core::require(most < 0 || most >= least, ErrorKind::kUsage,
                "a grammar repeats something from {} to {} times", least, most);
  GrammarSequence result;
  const GrammarSequence one = any_of({sequence});  // not written down again each time
  for (std::int64_t i = 0; i < least; ++i) {
    result.insert(result.end(), one.begin(), one.end());
  }
  if (most < 0) {
    const std::int32_t rest = add_rule();
    GrammarSequence again = one;
    again.push_back(GrammarElement::of_rule(rest));
    add_alternative(rest, again);
    add_alternative(rest, {});
    result.push_back(GrammarElement::of_rule(rest));
    return result;
  }
  GrammarSequence optional;  // one more, and then perhaps more
  for (std::int64_t i = least; i < most; ++i) {
    GrammarSequence more = one;
    more.insert(more.end(), optional.begin(), optional.end());
    const std::int32_t rule = add_rule();
    add_alternative(rule, more);
    add_alternative(rule, {});
    optional = {GrammarElement::of_rule(rule)};
  }
  result.insert(result.end(), optional.begin(), optional.end());
  return result;
}

GrammarSequence GrammarBuilder::any_of(const std::vector<GrammarSequence>& sequences) {
  if (sequences.size() == 1 && sequences.front().size() <= 1) {
    return sequences.front();
  }
  const std::int32_t rule = add_rule();
  for (const GrammarSequence& sequence : sequences) {
    add_alternative(rule, sequence);
  }
  return {GrammarElement::of_rule(rule)};
}

void Grammar::find_byte_classes() {
  std::array<bool, 257> begins = {};
  for (const GrammarElement& element : elements_) {
    if (element.kind == GrammarElement::Kind::kBytes) {
      begins[element.low] = true;
      begins[element.high + std::size_t{1}] = true;
    }
  }
  std::uint8_t number = 0;
  for (std::size_t byte = 1; byte < byte_class_.size(); ++byte) {
    number = static_cast<std::uint8_t>(number + (begins[byte] ? 1 : 0));
    byte_class_[byte] = number;
  }
  byte_classes_ = number + std::size_t{1};
}

Grammar GrammarBuilder::build(std::int32_t root) const {
  check_left_recursion();
  Grammar grammar;
  grammar.root_ = root;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    core::require(!rules_[i].alternatives.empty(), ErrorKind::kUsage, "the rule {} is not defined",
                  core::lazily([&] { return name_of(i); }));
    std::vector<std::int32_t>& starts = grammar.rules_.emplace_back();
    for (const GrammarSequence& sequence : rules_[i].alternatives) {
      starts.push_back(static_cast<std::int32_t>(grammar.elements_.size()));
      grammar.elements_.insert(grammar.elements_.end(), sequence.begin(), sequence.end());
      grammar.elements_.emplace_back();
    }
  }
  grammar.find_byte_classes();
  return grammar;
}

void GrammarBuilder::add_elements(std::size_t count) {
  elements_ += count;
  core::require(elements_ <= kMaxElements, ErrorKind::kUsage,
                "the grammar is too large: more than {} parts", kMaxElements);
}

std::string GrammarBuilder::name_of(std::size_t rule) const {
  const std::string& name = rules_[rule].name;
  return name.empty() ? "of a group" : fmt::format("'{}'", core::printable(name));
}

// A rule that can begin with itself, behind rules that can be empty, while something is left to
// come behind it: reading would go deeper and deeper without a byte. Groups of rules that begin
// with one another are the strongly connected parts of a graph (Tarjan 1972).
std::vector<std::vector<GrammarBuilder::FirstRule>> GrammarBuilder::first_rules() const {
  const std::vector<bool> empty = rules_that_can_be_empty();
  std::vector<std::vector<FirstRule>> first(rules_.size());
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    for (const GrammarSequence& sequence : rules_[i].alternatives) {
      for (std::size_t at = 0; at < sequence.size(); ++at) {
        if (sequence[at].kind != GrammarElement::Kind::kRule) {
          break;
        }
        const auto rule = static_cast<std::size_t>(sequence[at].rule);
        first[i].push_back({rule, at + 1 == sequence.size()});
        if (!empty[rule]) {
          break;
        }
      }
    }
  }
  return first;
}

void GrammarBuilder::check_left_recursion() const {
  const std::vector<std::vector<FirstRule>> first = first_rules();
  boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS> graph(first.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    for (const FirstRule& edge : first[i]) {
      boost::add_edge(i, edge.rule, graph);
    }
  }
  // Rules of one component can begin with one another.
  std::vector<std::size_t> component(first.size());
  boost::strong_components(graph, boost::make_iterator_property_map(
                                      component.begin(), boost::get(boost::vertex_index, graph)));
  for (std::size_t i = 0; i < first.size(); ++i) {
    for (const FirstRule& edge : first[i]) {
      core::require(edge.last || component[edge.rule] != component[i], ErrorKind::kUsage,
                    "the rule {} of the grammar can begin with itself; put something before it",
                    core::lazily([&] { return name_of(i); }));
    }
  }
}

// Each alternative counts what it still waits for; a rule that turns out to be empty counts down
// those in which it stands (Dowling and Gallier 1984).
std::vector<bool> GrammarBuilder::rules_that_can_be_empty() const {
  struct Alternative {
    std::size_t rule;
    std::size_t waits_for;
  };
  std::vector<Alternative> alternatives;  // that read no byte of their own
  std::vector<std::vector<std::size_t>> users(rules_.size());
  std::vector<bool> empty(rules_.size(), false);
  std::vector<std::size_t> open;
  const auto found_empty = [&](std::size_t rule) {
    if (!empty[rule]) {
      empty[rule] = true;
      open.push_back(rule);
    }
  };
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    for (const GrammarSequence& sequence : rules_[i].alternatives) {
      const bool reads = std::any_of(sequence.begin(), sequence.end(), [](const auto& element) {
        return element.kind != GrammarElement::Kind::kRule;
      });
      if (reads) {
        continue;
      }
      for (const GrammarElement& element : sequence) {
        users[static_cast<std::size_t>(element.rule)].push_back(alternatives.size());
      }
      alternatives.push_back({i, sequence.size()});
      if (sequence.empty()) {
        found_empty(i);
      }
    }
  }
  while (!open.empty()) {
    const std::size_t rule = open.back();
    open.pop_back();
    for (const std::size_t user : users[rule]) {
      if (--alternatives[user].waits_for == 0) {
        found_empty(alternatives[user].rule);
      }
    }
  }
  return empty;
}

}  // namespace nibble::text
