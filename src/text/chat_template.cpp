#include "text/chat_template.h"

#include <vector>

#include "core/error.h"
#include "core/ordered_json.h"

namespace nibble::text {

std::string ChatTemplate::render(const OrderedJson& messages, const Options& options) const {
  core::require(messages.is_array(), core::ErrorKind::kUsage, "chat messages: expected an array");
  core::require(options.extra.is_object() || options.extra.is_null(), core::ErrorKind::kUsage,
                "chat template: the extra variables must be an object");
  const OrderedJson add_generation_prompt = options.add_generation_prompt;
  const OrderedJson bos_token = options.bos_token;
  const OrderedJson eos_token = options.eos_token;
  std::vector<jinja::Variable> variables = {{"messages", &messages},
                                            {"tools", &options.tools},
                                            {"documents", &options.documents},
                                            {"add_generation_prompt", &add_generation_prompt}};
  if (!options.bos_token.empty()) {
    variables.push_back({"bos_token", &bos_token});
  }
  if (!options.eos_token.empty()) {
    variables.push_back({"eos_token", &eos_token});
  }
  if (options.extra.is_object()) {
    for (auto entry = options.extra.begin(); entry != options.extra.end(); ++entry) {
      variables.push_back({entry.key(), &entry.value()});
    }
  }
  return template_.render(variables, options.now_unix_seconds);
}

}  // namespace nibble::text
