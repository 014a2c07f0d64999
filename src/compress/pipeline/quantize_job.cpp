#include "compress/pipeline/quantize_job.h"

#include <filesystem>
#include <span>

#include "core/hash.h"
#include "core/json.h"

namespace nibble::compress {

core::Json job_of(const models::Model& model, const Recipe& recipe,
                  const PipelineOptions& options) {
  core::Json texts = core::Json::array();
  for (const CalibrationText& text : options.calibration.texts) {
    texts.push_back(
        {text->size(), fmt::format("{:016x}", core::hash64(std::as_bytes(std::span(*text))))});
  }
  core::Json job = {{"format_version", models::kCheckpointVersion},
                    {"source", std::filesystem::absolute(model.path).string()},
                    {"source_bytes", models::total_weight_bytes(model.network)},
                    {"recipe", to_json(recipe)},
                    {"calibration",
                     {{"texts", std::move(texts)},
                      {"samples", options.calibration.samples},
                      {"seq_len", options.calibration.seq_len},
                      {"seed", options.calibration.seed}}}};
  if (options.place.on_gpu()) {
    job["device"] = "cuda";  // whose sums have another order
  }
  if (options.adapter) {
    job["adapter"] = {std::filesystem::absolute(options.adapter->path()).string(),
                      options.adapter->bytes(), options.adapter->scale()};
  }
  return job;
}

}  // namespace nibble::compress
