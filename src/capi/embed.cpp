#include <string>

#include "capi/inputs.h"
#include "capi/options_struct.h"
#include "capi/read_options.h"
#include "capi/returned.h"
#include "core/error.h"
#include "engine/pooling.h"

namespace nibble::capi {
namespace {

using core::ErrorKind;

// Pools in another way than the model says while it exists.
class PoolingChoice {
 public:
  PoolingChoice(models::Network& network, const char* pooling)
      : mode_(network.pooling->mode), before_(network.pooling->mode) {
    if (pooling == nullptr) {
      return;
    }
    using enum models::PoolingMode;
    const std::string name = pooling;
    core::require(name == "first" || name == "mean" || name == "max", ErrorKind::kUsage,
                  "pooling '{}' is not known; use first, mean or max", core::printable(name));
    mode_ = name == "first" ? kFirst : name == "max" ? kMax : kMean;
  }
  ~PoolingChoice() { mode_ = before_; }
  PoolingChoice(const PoolingChoice&) = delete;
  PoolingChoice& operator=(const PoolingChoice&) = delete;

 private:
  models::PoolingMode& mode_;
  models::PoolingMode before_;
};

// Rows of one width, one after another.
struct Rows {
  std::vector<float> values;
  std::size_t count = 0;

  void add(std::span<const float> row) {
    values.insert(values.end(), row.begin(), row.end());
    ++count;
  }
  std::size_t columns() const { return count == 0 ? 0 : values.size() / count; }
};

Rows embed_by_encoder(nibble_model& model, const Call& call, std::span<const nibble_input> texts,
                      const nibble_read_options& asked) {
  engine::Encoder& encoder = model.encoder();
  const PoolingChoice pooling(model.model().network, asked.pooling);
  Rows rows;
  read_batches(model, call, texts, {}, applied_to(input_options(model.model(), encoder), asked),
               [&](std::size_t, std::span<const text::ModelInput>,
                   std::span<const engine::EncoderText> encoded) {
                 const engine::EncoderRows embedded = encoder.embed(encoded);
                 for (std::int64_t row = 0; row < embedded.rows; ++row) {
                   rows.add(embedded.row(row));
                 }
               });
  return rows;
}

Rows embed_by_decoder(nibble_model& model, const Call& call, std::span<const nibble_input> texts,
                      const nibble_read_options& asked) {
  core::require(asked.pooling == nullptr, ErrorKind::kUsage,
                "pooling is for encoders; leave it out");
  engine::Engine& engine = model.engine().engine();
  Rows rows;
  const auto embed = [&](std::span<const std::int32_t> ids) {
    call.check();
    rows.add(engine.embed(ids));
  };
  engine::InputOptions options;
  options.most_tokens = engine.context() - 1;  // an engine keeps a place for the next token
  options = applied_to(options, asked);
  for (const nibble_input& text : texts) {
    if (has_ids(text)) {
      embed(ids_of(text));
      continue;
    }
    read_batches(model, call, {&text, 1}, {}, options,
                 [&](std::size_t, std::span<const text::ModelInput> inputs,
                     std::span<const engine::EncoderText>) { embed(inputs.front().ids); });
  }
  return rows;
}

Rows embed(nibble_model& model, const Call& call, std::span<const nibble_input> texts,
           const nibble_read_options& asked) {
  Rows rows = model.kind() == NIBBLE_DECODER ? embed_by_decoder(model, call, texts, asked)
                                             : embed_by_encoder(model, call, texts, asked);
  for (std::size_t row = 0; asked.normalize != 0 && row < rows.count; ++row) {
    engine::normalize(std::span(rows.values).subspan(row * rows.columns(), rows.columns()));
  }
  return rows;
}

}  // namespace
}  // namespace nibble::capi

using namespace nibble::capi;

extern "C" nibble_status nibble_embed(nibble_model* model, const nibble_input* texts, size_t count,
                                      const nibble_read_options* options, float** values,
                                      size_t* rows, size_t* columns) {
  return with_model(model, [&](const Call& call) {
    require_given(values, "values");
    require_given(rows, "rows");
    require_given(columns, "columns");
    const auto asked = options_of(options, default_read_options());
    const Rows embedded = embed(*model, call, inputs_of(texts, count, "texts"), asked);
    *values = returned(std::span<const float>(embedded.values)).release();
    *rows = embedded.count;
    *columns = embedded.columns();
  });
}
