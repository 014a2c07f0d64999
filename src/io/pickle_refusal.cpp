#include "io/pickle_refusal.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "io/file_descriptor.h"

namespace nibble::io {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kPickleExtensions = {".bin", ".pt", ".pth", ".ckpt"};

// Loads tensors only, makes tensors that share memory independent, keeps the names. The file is
// given as an argument, so that its name need not be quoted inside the program.
constexpr std::string_view kConverter =
    "python3 -c \"import sys, torch, safetensors.torch as s; "
    "s.save_file({k: v.clone().contiguous() for k, v in "
    "torch.load(sys.argv[1], map_location='cpu', weights_only=True).items()}, sys.argv[2])\"";

bool is_pickle(const fs::path& path) {
  return std::find(kPickleExtensions.begin(), kPickleExtensions.end(), path.extension().native()) !=
         kPickleExtensions.end();
}

// training_args.bin, optimizer.pt and the like lie beside weights but are none.
bool is_weights(const fs::path& path) {
  const std::string name = path.filename();
  return is_pickle(path) && name != "training_args.bin" && name != "optimizer.pt" &&
         name != "scheduler.pt" && !name.starts_with("rng_state");
}

}  // namespace

void refuse_pickle(const fs::path& path) {
  if (!is_pickle(path)) {
    return;
  }
  const fs::path target = path.parent_path() / "model.safetensors";
  core::fail(
      core::ErrorKind::kInvalidModel,
      "'{}' is a PyTorch pickle, which runs code when it is read, so it is not read; convert it "
      "where you trust it: {} '{}' '{}'",
      shown(path), kConverter, shown(path), shown(target));
}

void refuse_pickles_in(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_weights(entry->path())) {
      found.push_back(entry->path());
    }
  }
  if (!found.empty()) {
    refuse_pickle(*std::min_element(found.begin(), found.end()));
  }
}

}  // namespace nibble::io
