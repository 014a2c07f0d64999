#include "compress/any4/any4_pass.h"
#include "compress/asymmetric/asymmetric_pass.h"
#include "compress/atom/reorder_pass.h"
#include "compress/awq/awq_pass.h"
#include "compress/gptq/gptq_pass.h"
#include "compress/gqsa/gqsa_pass.h"
#include "compress/hadamard/hadamard_pass.h"
#include "compress/pruning/score_passes.h"
#include "compress/pruning/sparsegpt_pass.h"
#include "compress/recipe/pass.h"
#include "compress/refine/refine_pass.h"
#include "compress/rotate/rotate_pass.h"
#include "compress/rtn/rtn_pass.h"
#include "compress/search/search_pass.h"
#include "compress/shortgpt/shortgpt_pass.h"
#include "compress/smoothquant/smoothquant_pass.h"
#include "compress/static_activations/static_activations_pass.h"
#include "compress/trellis/trellis_pass.h"
#include "core/json.h"
#include "core/nearest_name.h"

namespace nibble::compress {

std::vector<PassFactory> pass_factories() {
  return {kShortGptPass,   kRotatePass,      kSmoothQuantPass,
          kAwqPass,        kAtomReorderPass, kHadamardPass,
          kAsymmetricPass, kMagnitudePass,   kWandaPass,
          kSparseGptPass,  kGqsaPass,        kSearchPass,
          kAny4Pass,       kRtnPass,         kGptqPass,
          kTrellisPass,    kRefinePass,      kStaticActivationsPass};
}

std::unique_ptr<Pass> PassFactory::make(const core::Json& options) const {
  PassOptions reader(options, name);
  std::unique_ptr<Pass> pass = read(reader);
  reader.require_all_used();
  return pass;
}

std::unique_ptr<Pass> make_pass(std::string_view name, const core::Json& options) {
  std::vector<std::string> known;
  for (const PassFactory& factory : pass_factories()) {
    if (factory.name == name) {
      return factory.make(options);
    }
    known.emplace_back(factory.name);
  }
  core::fail(core::ErrorKind::kUsage, "pass '{}' is not known{} (passes are {})",
             core::printable(name), core::suggestion(name, known), fmt::join(known, ", "));
}

}  // namespace nibble::compress
