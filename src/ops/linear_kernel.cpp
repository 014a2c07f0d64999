#include "ops/linear_kernel.h"

#include <fmt/args.h>
#include <fmt/ranges.h>

#include "core/error.h"

namespace nibble::ops {

std::string Reason::text() const {
  fmt::dynamic_format_arg_store<fmt::format_context> args;
  for (std::size_t i = 0; i < count_; ++i) {
    const Value& value = values_[i];
    if (value.text.empty()) {
      args.push_back(value.number);
    } else {
      args.push_back(value.text);
    }
  }
  return fmt::vformat(words_, args);
}

std::string to_string(std::span<const KernelAnswer> answers) {
  std::vector<std::string> texts;
  for (const KernelAnswer& answer : answers) {
    texts.push_back(
        fmt::format("{}: {}", answer.kernel, answer.refusal ? answer.refusal->text() : "takes it"));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

void refuse_layer(std::span<const KernelAnswer> answers) {
  core::fail(core::ErrorKind::kUsage, "no kernel takes the layer ({})", to_string(answers));
}

}  // namespace nibble::ops
