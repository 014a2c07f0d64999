#include <algorithm>

#include "capi/model_handle.h"
#include "capi/returned.h"
#include "core/error.h"

namespace nibble::capi {
namespace {

using core::ErrorKind;
using Ids = std::span<const std::int32_t>;

struct Logits {
  Returned<float> values;
  std::size_t rows = 0;
  std::size_t columns = 0;
};

void check_ids(const nibble_model& model, Ids ids, const char* what) {
  core::require(!ids.empty(), ErrorKind::kUsage, "'{}' has no ids", what);
  const std::int64_t vocabulary = model.model().network.config.vocabulary;
  for (const std::int32_t id : ids) {
    core::require(id >= 0 && id < vocabulary, ErrorKind::kUsage,
                  "token id {} of '{}' lies outside the vocabulary of {}", id, what, vocabulary);
  }
}

Logits logits_of(const engine::EncoderRows& rows) {
  return {returned(std::span<const float>(rows.values)), static_cast<std::size_t>(rows.rows),
          static_cast<std::size_t>(rows.columns)};
}

Logits by_decoder(nibble_model& model, const Call& call, Ids ids) {
  core::require(std::ssize(ids) <= model.context(), ErrorKind::kUsage,
                "{} ids are more than the context of {}", ids.size(), model.context());
  const auto columns = static_cast<std::size_t>(model.model().network.config.vocabulary);
  Logits logits{make_returned<float>(ids.size() * columns), ids.size(), columns};
  model.runner().score(ids, [&](std::int64_t first, const engine::LogitsView& part) {
    call.check();
    std::copy(part.values.begin(), part.values.end(),
              logits.values.get() + static_cast<std::size_t>(first) * columns);
  });
  return logits;
}

Logits by_encoder(nibble_model& model, Ids ids) {
  const models::Network& network = model.model().network;
  core::require(network.masked_lm || network.classifier, ErrorKind::kUsage,
                "the encoder has no head with logits; embed with it");
  const engine::EncoderText text{ids, {}};
  return logits_of(network.masked_lm ? model.encoder().masked_lm({&text, 1})
                                     : model.encoder().classify({&text, 1}));
}

Logits forward(nibble_model& model, const Call& call, Ids ids, Ids target) {
  check_ids(model, ids, "ids");
  if (model.kind() == NIBBLE_ENCODER_DECODER) {
    check_ids(model, target, "target");
    return logits_of(model.writer().score(ids, target));
  }
  core::require(target.empty(), ErrorKind::kUsage,
                "'target' is for encoder-decoders; leave it out");
  return model.kind() == NIBBLE_ENCODER ? by_encoder(model, ids) : by_decoder(model, call, ids);
}

}  // namespace
}  // namespace nibble::capi

using namespace nibble::capi;

extern "C" nibble_status nibble_forward(nibble_model* model, const int32_t* ids, size_t count,
                                        const int32_t* target, size_t target_count, float** logits,
                                        size_t* rows, size_t* columns) {
  return with_model(model, [&](const Call& call) {
    require_given(ids, "ids");
    require_given(logits, "logits");
    require_given(rows, "rows");
    require_given(columns, "columns");
    const auto behind =
        target == nullptr ? std::span<const std::int32_t>() : std::span(target, target_count);
    Logits computed = forward(*model, call, {ids, count}, behind);
    *rows = computed.rows;
    *columns = computed.columns;
    *logits = computed.values.release();
  });
}
