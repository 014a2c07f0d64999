#include "formats/exchange/gptq/gptq_config.h"

#include "core/error.h"
#include "core/json.h"
#include "formats/exchange/config_fields.h"

namespace nibble::formats::exchange {
namespace {

using core::ErrorKind;

GptqZeros zeros_of(const core::Json& config) {
  const auto named = core::find_string(config, "checkpoint_format", kConfigName);
  const auto older = core::find_string(config, "format", kConfigName);
  const std::string format = named ? *named : older.value_or("gptq");
  core::require(format == "gptq" || format == "gptq_v2", ErrorKind::kInvalidModel,
                "{}: GPTQ checkpoints of format '{}' can't be read, only 'gptq' and 'gptq_v2'",
                kConfigName, core::printable(format));
  return format == "gptq" ? GptqZeros::kLessOne : GptqZeros::kAsTheyAre;
}

}  // namespace

GptqConfig read_gptq_config(const core::Json& config) {
  core::require(!core::find_bool(config, "is_marlin_format", kConfigName).value_or(false),
                ErrorKind::kInvalidModel,
                "{}: GPTQ checkpoints in Marlin's layout can't be read, only 'gptq' and 'gptq_v2'",
                kConfigName);
  GptqConfig result;
  result.bits = read_bits(config, "bits");
  result.group = read_group(config, "group_size");
  result.symmetric = core::find_bool(config, "sym", kConfigName).value_or(true);
  result.ordered = core::find_bool(config, "desc_act", kConfigName).value_or(false);
  const auto dynamic = config.find("dynamic");
  result.by_layer = dynamic != config.end() && dynamic->is_object() && !dynamic->empty();
  result.zeros = zeros_of(config);
  return result;
}

}  // namespace nibble::formats::exchange
