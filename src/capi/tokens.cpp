#include "capi/inputs.h"
#include "capi/options_struct.h"
#include "capi/returned.h"

namespace nibble::capi {
namespace {

nibble_tokenize_options default_options() {
  nibble_tokenize_options options{};
  options.add_special = 1;
  options.parse_special = 1;
  return options;
}

}  // namespace
}  // namespace nibble::capi

using namespace nibble::capi;

extern "C" {

void nibble_tokenize_options_init(nibble_tokenize_options* options, size_t struct_size) {
  fill(options, struct_size, default_options());
}

nibble_status nibble_tokenize(nibble_model* model, const char* text, size_t bytes,
                              const nibble_tokenize_options* options, int32_t** ids,
                              size_t* count) {
  return with_model(model, [&](const Call&) {
    const std::string_view given = required_text(text, bytes, "text");
    require_given(ids, "ids");
    require_given(count, "count");
    const auto asked = options_of(options, default_options());
    const std::vector<std::int32_t> tokens = model->model().tokenizer->encode(
        given, {.add_special = asked.add_special != 0, .parse_special = asked.parse_special != 0});
    auto copy = returned(std::span<const std::int32_t>(tokens));
    *count = tokens.size();
    *ids = copy.release();
  });
}

nibble_status nibble_detokenize(nibble_model* model, const int32_t* ids, size_t count,
                                int32_t skip_special, char** text, size_t* bytes) {
  return with_model(model, [&](const Call&) {
    nibble::core::require(ids != nullptr || count == 0, nibble::core::ErrorKind::kUsage,
                          "the argument 'ids' is NULL");
    require_given(text, "text");
    const std::string written = model->model().tokenizer->decode({ids, count}, skip_special != 0);
    *text = returned(std::string_view(written)).release();
    if (bytes != nullptr) {
      *bytes = written.size();
    }
  });
}
}
