// The examples and the table of docs/formats.md are what the program does.

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "core/float16.h"
#include "core/random.h"
#include "formats/format.h"

namespace nibble::formats {
namespace {

std::string read_page() {
  std::ifstream file(NIBBLE_SOURCE_DIR "/docs/formats.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<float> numbers(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<float>(stream), {}};
}

// The blocks between "```example" and "```", each as its lines.
std::vector<std::string> example_blocks(const std::string& page) {
  const std::string open = "```example\n";
  std::vector<std::string> blocks;
  for (std::size_t at = page.find(open); at != std::string::npos; at = page.find(open, at)) {
    at += open.size();
    blocks.push_back(page.substr(at, page.find("```", at) - at));
  }
  return blocks;
}

std::map<std::string, std::string> fields_of(const std::string& block) {
  std::map<std::string, std::string> fields;
  std::istringstream lines(block);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.find(' ');
    fields[line.substr(0, space)] =
        line.substr(std::min(line.find_first_not_of(' ', space), line.size()));
  }
  return fields;
}

PackedWeight pack_learned(const std::vector<float>& w, std::vector<float> book,
                          const Scheme& scheme) {
  for (float& value : book) {
    value = core::to_float(core::to_fp16(value));
  }
  const auto format = make_format(scheme, book);
  const auto k = static_cast<std::int64_t>(w.size());
  PackedWeightBuilder builder(scheme, 1, k);
  builder.set_book(0, book);
  std::vector<std::uint8_t> codes(w.size());
  const auto group = static_cast<std::size_t>(group_size(scheme, k));
  for (std::size_t first = 0; first < w.size(); first += group) {
    const auto weights = std::span(w).subspan(first, std::min(group, w.size() - first));
    GroupParameters parameters = format->fit(weights);
    format->encode_group(weights, parameters, std::span(codes).subspan(first, weights.size()));
    const bool is_pruned =
        std::all_of(weights.begin(), weights.end(), [](float weight) { return weight == 0; });
    if (is_pruned && is_block_sparse(scheme)) {
      parameters.scale = 0;
    }
    builder.set_group(0, static_cast<std::int64_t>(first / group), parameters);
  }
  builder.set_codes(0, codes);
  return builder.finish();
}

std::string hex_of(const core::Tensor& tensor) {
  std::vector<unsigned> bytes;
  for (std::int64_t i = 0; i < tensor.bytes(); ++i) {
    bytes.push_back(std::to_integer<unsigned>(tensor.raw()[i]));
  }
  return fmt::format("{:02x}", fmt::join(bytes, " "));
}

// A block as the page must show it: the given fields, every part as bytes, the values that come
// back.
std::string render(const std::map<std::string, std::string>& given) {
  const Scheme scheme = parse_scheme(given.at("scheme"));
  const auto w = numbers(given.at("weights"));
  const auto k = static_cast<std::int64_t>(w.size());
  std::string text = fmt::format("{:<8}{}\n", "scheme", given.at("scheme"));
  PackedWeight packed;
  if (given.contains("book")) {
    text += fmt::format("{:<8}{}\n", "book", given.at("book"));
    packed = pack_learned(w, numbers(given.at("book")), scheme);
  } else {
    packed = round_to_nearest(w, 1, k, scheme);
  }
  text += fmt::format("{:<8}{}\n", "weights", given.at("weights"));
  for (const Part& part : parts(packed)) {
    if (part.name != "book") {
      const std::string name(part.name == "weight" ? "bytes" : part.name);
      text += fmt::format("{:<8}{}\n", name + " ", hex_of(part.tensor));
    }
  }
  std::vector<float> decoded(w.size());
  decode_row(packed, 0, decoded);
  text += fmt::format("{:<8}{:.4g}\n", "decoded", fmt::join(decoded, " "));
  return text + fmt::format("{:<8}{:g} bits per weight\n", "size", bits_per_weight(packed));
}

TEST(FormatsByExample, ThePageShowsWhatTheProgramDoes) {
  const auto blocks = example_blocks(read_page());
  EXPECT_GE(blocks.size(), 11u);
  for (const std::string& block : blocks) {
    EXPECT_EQ(block, render(fields_of(block)));
  }
}

double relative_error(const std::vector<float>& w, const PackedWeight& packed) {
  double error = 0;
  double total = 0;
  std::vector<float> decoded(static_cast<std::size_t>(packed.k));
  for (std::int64_t row = 0; row < packed.n; ++row) {
    decode_row(packed, row, decoded);
    for (std::size_t i = 0; i < decoded.size(); ++i) {
      const double value = w[static_cast<std::size_t>(row) * decoded.size() + i];
      error += (decoded[i] - value) * (decoded[i] - value);
      total += value * value;
    }
  }
  return error / total;
}

TEST(FormatsByExample, TheTableHoldsSizesAndErrors) {
  core::Random random(17);
  std::vector<float> w(64 * 4096);
  for (float& value : w) {
    value = random.normal();
  }
  const std::string page = read_page();
  for (const std::string scheme :
       {"int8-sym-row", "fp8-row", "int4-asym-g32", "int4-sym-g32", "nvfp4", "mxfp4",
        "lut4-nf4-g64", "lut4-af4-g64", "lut4-fp4-g64", "int4-asym-g128", "int4-sym-g128",
        "int3-sym-g128", "int2-asym-g32"}) {
    const PackedWeight packed = round_to_nearest(w, 64, 4096, parse_scheme(scheme));
    const std::string line = fmt::format("| `{}` | {:g} | {:.2g} % |", scheme,
                                         bits_per_weight(packed), 100 * relative_error(w, packed));
    EXPECT_NE(page.find(line), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace nibble::formats
