#include "capi/called_progress.h"
#include "capi/inputs.h"
#include "capi/options_struct.h"
#include "capi/quantize_options.h"
#include "capi/returned.h"
#include "core/json.h"
#include "results/measured.h"

using namespace nibble::capi;

extern "C" {

nibble_status nibble_quantize(const char* model, const char* recipe, const char* output,
                              const nibble_quantize_options* options, char** json) {
  return guarded([&] {
    require_given(model, "model");
    require_given(output, "output");
    const auto asked = options_of(options, default_quantize_options());
    const nibble::compress::Recipe chosen = recipe_of(recipe, asked);
    const nibble::compress::PipelineOptions pipeline = pipeline_of(asked);
    const auto original = nibble::models::open_model(model, nibble::models::StoredLayers::kDecoded);
    CalledProgress progress(asked.on_progress, asked.log, asked.user);
    nibble::compress::quantize_model(*original, chosen, output, pipeline, asked.resume != 0,
                                     progress);
    if (json != nullptr) {
      const auto made = nibble::models::open_model(output);
      const std::string result =
          nibble::results::quantized_json(model, *original, output, *made).dump();
      *json = returned(std::string_view(result)).release();
    }
  });
}

nibble_status nibble_recipes(char** json) {
  return guarded([&] {
    require_given(json, "json");
    const std::string names = nibble::core::Json(nibble::compress::recipe_names()).dump();
    *json = returned(std::string_view(names)).release();
  });
}
}
