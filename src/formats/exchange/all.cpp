// The checkpoints of other tools that can be read and written: one line for each kind.

#include <array>

#include <fmt/ranges.h>

#include "core/error.h"
#include "core/json.h"
#include "formats/exchange/awq/awq.h"
#include "formats/exchange/bitsandbytes/bitsandbytes.h"
#include "formats/exchange/compressed_tensors/compressed_tensors.h"
#include "formats/exchange/exchange.h"
#include "formats/exchange/gptq/gptq.h"
#include "formats/exchange/mlx/mlx.h"

namespace nibble::formats::exchange {

std::span<const Kind> kinds() {
  static constexpr std::array<Kind, 5> kKinds = {
      {{"gptq", make_gptq_reader, make_gptq_writer},
       {"awq", make_awq_reader, make_awq_writer},
       {"compressed-tensors", make_compressed_tensors_reader, make_compressed_tensors_writer},
       {"bitsandbytes", make_bitsandbytes_reader},
       {"mlx", make_mlx_reader, make_mlx_writer}}};
  return kKinds;
}

std::unique_ptr<const Reader> make_reader(const core::Json& config) {
  const std::string method = core::get_string(config, "quant_method", kConfigName);
  std::vector<std::string_view> known = {"nibble"};
  for (const Kind& kind : kinds()) {
    if (kind.method == method) {
      return kind.make_reader(config);
    }
    known.push_back(kind.method);
  }
  core::fail(core::ErrorKind::kInvalidModel,
             "{}: checkpoints of method '{}' can't be read, only those of {}; start from the "
             "original model",
             kConfigName, core::printable(method), fmt::join(known, ", "));
}

}  // namespace nibble::formats::exchange
