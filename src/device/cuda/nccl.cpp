#include "device/cuda/nccl.h"

#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "core/start_thread.h"
#include "device/cuda/shared_library.h"

namespace nibble::device::cuda {
namespace {

using core::ErrorKind;

// What is used of NCCL's C interface, as its documentation declares it (NVIDIA, NCCL user guide,
// "NCCL API"), so that building needs no header of it.
using Result = int;  // ncclResult_t
constexpr Result kSuccess = 0;
constexpr Result kInProgress = 7;
constexpr int kFloat32 = 7;  // ncclDataType_t
constexpr int kSum = 0;      // ncclRedOp_t
struct UniqueId {            // ncclUniqueId, which is given by value
  std::array<std::byte, 128> internal;
};
using GetVersion = Result(int* version);
using GetUniqueId = Result(UniqueId* id);
using InitRank = Result(void** communicator, int ranks, UniqueId id, int rank);
using AllReduce = Result(const void* send, void* receive, std::size_t count, int type,
                         int operation, void* communicator, cudaStream_t stream);
using AllGather = Result(const void* send, void* receive, std::size_t count, int type,
                         void* communicator, cudaStream_t stream);
using GetAsyncError = Result(void* communicator, Result* error);
using Abort = Result(void* communicator);
using GetErrorString = const char*(Result result);

constexpr auto kEnding = std::chrono::seconds(3);  // for NCCL's threads, which need milliseconds
constexpr const char* kVariable = "NIBBLE_NCCL_LIBRARY";
constexpr const char* kUsualName = "libnccl.so.2";

const char* library_name() {
  const char* const named = std::getenv(kVariable);
  return named != nullptr && *named != '\0' ? named : kUsualName;
}

struct Functions {
  std::array<const char*, 1> names = {library_name()};
  SharedLibrary library{"NCCL", names,
                        "install it (pip install nvidia-nccl-cu13, or libnccl2 of the "
                        "distribution), name its file in NIBBLE_NCCL_LIBRARY, or use one GPU"};
  GetVersion* get_version = library.function<GetVersion>("ncclGetVersion");
  GetUniqueId* get_unique_id = library.function<GetUniqueId>("ncclGetUniqueId");
  InitRank* init_rank = library.function<InitRank>("ncclCommInitRank");
  AllReduce* all_reduce = library.function<AllReduce>("ncclAllReduce");
  AllGather* all_gather = library.function<AllGather>("ncclAllGather");
  GetAsyncError* get_async_error = library.function<GetAsyncError>("ncclCommGetAsyncError");
  Abort* abort_communicator = library.function<Abort>("ncclCommAbort");
  GetErrorString* get_error_string = library.function<GetErrorString>("ncclGetErrorString");
};

const Functions& functions() {
  static const Functions found;
  return found;
}

void check(Result result, const char* call) {
  core::require(result == kSuccess, ErrorKind::kFailed, "{} failed: {} (NCCL_DEBUG=WARN says more)",
                call, functions().get_error_string(result));
}

}  // namespace

NcclId make_nccl_id() {
  UniqueId id{};
  check(functions().get_unique_id(&id), "ncclGetUniqueId");
  return id.internal;
}

std::string nccl_version() {
  int version = 0;  // 10000 major + 100 minor + patch
  check(functions().get_version(&version), "ncclGetVersion");
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

NcclCommunicator::NcclCommunicator(const NcclId& id, int rank, int size) {
  check(functions().init_rank(&communicator_, size, UniqueId{id}, rank), "ncclCommInitRank");
}

NcclCommunicator::~NcclCommunicator() {
  end();  // does not wait for ranks that may be gone
  if (ending_.valid()) {
    ending_.wait_for(kEnding);
  }
}

NcclCommunicator::NcclCommunicator(NcclCommunicator&& other) noexcept
    : communicator_(std::exchange(other.communicator_, nullptr)),
      ending_(std::move(other.ending_)) {}

NcclCommunicator& NcclCommunicator::operator=(NcclCommunicator&& other) noexcept {
  std::swap(communicator_, other.communicator_);
  std::swap(ending_, other.ending_);
  return *this;
}

void NcclCommunicator::add(float* x, std::int64_t count, cudaStream_t stream) const {
  check(functions().all_reduce(x, x, static_cast<std::size_t>(count), kFloat32, kSum, communicator_,
                               stream),
        "ncclAllReduce");
}

void NcclCommunicator::gather(const float* mine, float* all, std::int64_t count,
                              cudaStream_t stream) const {
  check(functions().all_gather(mine, all, static_cast<std::size_t>(count), kFloat32, communicator_,
                               stream),
        "ncclAllGather");
}

std::string NcclCommunicator::failure() const {
  if (communicator_ == nullptr) {
    return {};
  }
  Result error = kSuccess;
  const Result asked = functions().get_async_error(communicator_, &error);
  const Result result = asked != kSuccess ? asked : error;
  return result == kSuccess || result == kInProgress ? "" : functions().get_error_string(result);
}

void NcclCommunicator::end() noexcept {
  void* const communicator = std::exchange(communicator_, nullptr);
  if (communicator == nullptr) {
    return;
  }
  try {
    auto abort = std::make_shared<std::packaged_task<void()>>(
        [communicator, &nccl = functions()] { nccl.abort_communicator(communicator); });
    ending_ = abort->get_future();
    core::start_thread([abort] { (*abort)(); }).detach();
  } catch (const std::exception&) {  // no thread, no memory: it ends with the process
  }
}

}  // namespace nibble::device::cuda
