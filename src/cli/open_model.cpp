#include "cli/open_model.h"

#include "cli/output.h"

namespace nibble::cli {

std::shared_ptr<models::Model> open_model(const std::filesystem::path& path,
                                          models::StoredLayers stored) {
  auto model = models::open_model(path, stored);
  for (const std::string& remark : model->compression.remarks) {
    print_note("note: {}: {}\n", core::printable(path.string()), core::printable(remark));
  }
  return model;
}

std::shared_ptr<models::Model> open_original(const std::filesystem::path& path) {
  return cli::open_model(path, models::StoredLayers::kDecoded);
}

}  // namespace nibble::cli
