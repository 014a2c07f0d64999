#include <string>

#include "models/bart/bart.h"
#include "models/bert/bert.h"
#include "models/family.h"
#include "models/gpt2/gpt2.h"
#include "models/llama/llama.h"
#include "models/mixtral/mixtral.h"
#include "models/opt/opt.h"

namespace nibble::models {

std::span<const Family> families() {
  static const Family all[] = {
      llama::llama(),     llama::mistral(), llama::qwen2(), llama::qwen3(),  mixtral::mixtral(),
      gpt2::gpt2(),       opt::opt(),       bert::bert(),   bert::roberta(), bert::xlm_roberta(),
      bert::distilbert(), bart::bart(),     bart::mbart(),
  };
  return all;
}

const Family& find_family(std::string_view model_type) {
  std::string supported;
  for (const Family& family : families()) {
    if (family.model_type == model_type) {
      return family;
    }
    supported += supported.empty() ? "" : ", ";
    supported += family.model_type;
  }
  core::fail(core::ErrorKind::kInvalidModel,
             "config.json: model_type '{}' is not supported; supported are {}",
             core::printable(model_type), supported);
}

}  // namespace nibble::models
