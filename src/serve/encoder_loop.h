#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "serve/encoder_job.h"
#include "serve/fair_queue.h"

namespace nibble::serve {

/// The thread of an encoder. What jobs wait for while a step runs is computed together in the next
/// one, in turns among clients: inputs of as many jobs as fit, and of large jobs a part, so that
/// others get theirs between.
class EncoderLoop {
 public:
  using JobPointer = std::shared_ptr<EncoderJob>;
  /// Takes a job all of whose rows are there, or that failed, on the thread of the loop. Must not
  /// throw.
  using Done = std::function<void(const JobPointer& job, std::exception_ptr error)>;

  /// Steps have so many tokens, if no input has more. Throws kOutOfMemory when the system refuses a
  /// thread.
  EncoderLoop(engine::Encoder& encoder, std::int64_t step_tokens, Done done);
  /// Behind the step that runs; what waits is not computed.
  ~EncoderLoop();
  EncoderLoop(const EncoderLoop&) = delete;
  EncoderLoop& operator=(const EncoderLoop&) = delete;

  /// Any thread. False, and nothing is done, when kMaxOfClient jobs of this client wait. A job that
  /// has ended before its turn is forgotten.
  bool post(const JobPointer& job);
  static constexpr std::size_t kMaxOfClient = 256;

  /// Jobs of the step that runs.
  std::int64_t running() const { return running_; }
  /// How long that step has run; zero where there is none.
  std::chrono::steady_clock::duration step_time() const;

 private:
  /// The next inputs of a job, in a step.
  struct Part {
    JobPointer job;
    std::size_t count = 0;
    std::exception_ptr error;
  };

  void run();
  std::vector<Part> next_step();
  void compute(std::vector<Part>& step);
  /// Whether it worked. A part that is alone is told why not.
  bool try_output(std::span<Part*> parts);
  void compute_output(std::span<Part*> parts);
  void settle(Part& part);

  engine::Encoder& encoder_;
  std::int64_t step_tokens_;
  Done done_;
  std::mutex mutex_;
  std::condition_variable wake_;
  FairQueue<JobPointer> queue_;
  JobPointer late_;  // it begins the next step
  bool stop_ = false;
  std::atomic<std::int64_t> running_{0};
  std::atomic<std::chrono::steady_clock::rep> step_began_{0};  // 0: none
  std::thread thread_;
};

}  // namespace nibble::serve
