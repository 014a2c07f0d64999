#include <string>

#include "models/bart/bart.h"
#include "models/bert/bert.h"
#include "models/family.h"
#include "models/gemma/gemma.h"
#include "models/gpt2/gpt2.h"
#include "models/llama/llama.h"
#include "models/mixtral/mixtral.h"
#include "models/opt/opt.h"
#include "models/phi3/phi3.h"
#include "models/qwen3_moe/qwen3_moe.h"

namespace nibble::models {

std::span<const Family> families() {
  static const Family all[] = {
      llama::llama(),       llama::mistral(),       llama::qwen2(),
      llama::qwen3(),       qwen3_moe::qwen3_moe(), mixtral::mixtral(),
      phi3::phi3(),         gemma::gemma(),         gemma::gemma2(),
      gemma::gemma3_text(), gemma::gemma3(),        gpt2::gpt2(),
      opt::opt(),           bert::bert(),           bert::roberta(),
      bert::xlm_roberta(),  bert::distilbert(),     bart::bart(),
      bart::mbart(),
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
