// Finds out why a step does not end: the rank that the others wait for, and the first reported
// failure. A rank that waits for long acknowledges the step in the job's store. The ranks that do
// not are unresponsive.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "c10d_transport.h"
#include "failure_store.h"
#include "job_context.h"
#include "neuron_fabric/status.h"

namespace nf::torch_front {

class PeerWatch {
 public:
  // Borrows the transport. `timeout` limits the wait for the end of a step.
  PeerWatch(const JobContext& context, const C10dTransport& transport, Duration timeout);

  // On the thread of end_step(), polled while it waits for the end of `step`. `waited` is the time
  // so far. Returns an error if waiting longer is pointless.
  Status check_peers(std::uint64_t step, Duration waited);
  void step_ended(std::uint64_t step);
  bool has_acknowledged(std::uint64_t step) const { return acknowledged_ > step; }

  // Any thread. Adds the rank that all others wait for to `why`, if there is one: a rank that waits
  // for a waiting rank can name only that one.
  Status report_unresponsive_peers(std::uint64_t step, const Status& why);
  // Any thread. The engine does not report which peer it lost; our own group does, within
  // `timeout`.
  Status engine_failure(std::uint64_t step, const std::string& message, Duration timeout);

  // Any thread. The message of this rank's first failure; later ones have the same cause. Includes
  // the message of the first rank that reported a failure.
  std::string describe(const std::string& where, const Status& why);
  bool has_failed();

 private:
  std::string describe_missing(std::uint64_t step, Duration timeout);

  FailureStore failures_;
  const C10dTransport& transport_;
  const Duration timeout_;
  std::uint64_t acknowledged_ = 0;  // 1 + the last step that this rank has acknowledged

  std::mutex mutex_;
  std::string failure_;  // guarded by mutex_
};

}  // namespace nf::torch_front
