#include "engine/continues_texts.h"

#include "core/error.h"
#include "io/file_descriptor.h"

namespace nibble::engine {

void require_continues_texts(const models::Model& model) {
  core::require(!model.network.has_encoder() || model.network.has_decoder(),
                core::ErrorKind::kUsage,
                "{} is an encoder (family '{}'), which does not continue texts; nibble embed and "
                "nibble classify take it",
                io::shown(model.path), model.network.config.family);
  core::require(!model.network.has_encoder(), core::ErrorKind::kUsage,
                "{} is an encoder-decoder (family '{}'), which does not continue texts; nibble run "
                "and nibble tasks --seq2seq take it",
                io::shown(model.path), model.network.config.family);
}

}  // namespace nibble::engine
