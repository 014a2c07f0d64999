#include "engine/encoder.h"

#include <fmt/format.h>

#include "core/error.h"
#include "engine/cpu_encoder.h"
#include "engine/cuda_encoder.h"
#include "io/file_descriptor.h"

namespace nibble::engine {

using core::ErrorKind;

std::unique_ptr<Encoder> make_encoder(std::shared_ptr<const models::Model> model,
                                      const RunnerOptions& options) {
  core::require(model->network.has_encoder(), ErrorKind::kUsage,
                "{} continues texts (family '{}') and is no encoder; nibble run, chat, serve, eval "
                "and bench take it",
                io::shown(model->path), model->network.config.family);
  return options.place.on_gpu() ? make_cuda_encoder(std::move(model), options)
                                : make_cpu_encoder(std::move(model), options);
}

}  // namespace nibble::engine
