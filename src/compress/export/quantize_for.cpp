#include "compress/export/quantize_for.h"

#include "compress/pipeline/quantize_job.h"
#include "compress/search/searched_rounding.h"
#include "core/error.h"
#include "core/json.h"
#include "io/file_descriptor.h"
#include "io/json_file.h"
#include "models/gguf/gguf_export.h"

namespace nibble::compress {
namespace {

namespace fs = std::filesystem;
using core::ErrorKind;
using core::require;

constexpr const char* kJobFile = ".export.json";

// Where the quantized model lies until it is written for the target.
class QuantizedFolder {
 public:
  explicit QuantizedFolder(const fs::path& output) {
    const fs::path name = output.has_filename() ? output : output.parent_path();
    folder_ = name.parent_path() / fmt::format(".{}.quantized", name.filename().native());
    std::error_code error;
    require(!fs::exists(fs::symlink_status(name, error)), ErrorKind::kIo,
            "cannot write '{}': it exists already; remove it or choose another name",
            io::shown(name));
  }

  const fs::path& folder() const { return folder_; }

  // Whether the whole of it is there, of the same job.
  bool finished(const core::Json& job, bool resume) const {
    if (!fs::exists(folder_)) {
      return false;
    }
    require(resume, ErrorKind::kUsage,
            "an unfinished job lies in {}: give --resume to go on with it, or remove that folder",
            io::shown(folder_));
    const fs::path file = folder_ / kJobFile;
    require(fs::exists(file) && io::load_json_file(file) == job, ErrorKind::kIntegrity,
            "{} holds what another model, recipe or calibration gave; call it with the same "
            "arguments, or remove that folder",
            io::shown(folder_));
    return true;
  }

  void finish(const core::Json& job) const {
    io::write_file_atomically(folder_ / kJobFile, job.dump(1));
  }

  void remove() const {
    std::error_code error;
    fs::remove_all(folder_, error);
    require(!error, ErrorKind::kIo, "cannot remove '{}': {}", io::shown(folder_),
            core::lazily([&] { return error.message(); }));
  }

 private:
  fs::path folder_;
};

}  // namespace

ExportedModel quantize_for(const models::Model& model, Recipe recipe, const ExportTarget& target,
                           const fs::path& output, const PipelineOptions& options, bool resume,
                           core::ProgressSink& progress) {
  const QuantizedFolder stage(output);
  ExportedModel result;
  result.method = choose_method(model, recipe, target);
  const core::Json job = job_of(model, recipe, options);
  if (!stage.finished(job, resume)) {
    quantize_model(model, recipe, stage.folder(), options, resume, progress);
    stage.finish(job);
  }
  {
    const auto quantized = models::open_model(stage.folder());
    models::ConversionOptions conversion;
    conversion.threads = options.threads;
    conversion.round = search_to_nearest;
    result.conversion =
        result.method == "gguf"
            ? models::convert_gguf(*quantized, output, conversion, progress)
            : models::convert_folder(*quantized, result.method, output, conversion, progress);
  }
  stage.remove();
  return result;
}

}  // namespace nibble::compress
