// Why a step does not end: which rank the others wait for, and what the first one to see it has
// said. Ranks that wait for long sign in the job's store, so that the silent one can be told from
// those that wait for it.
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
  // Borrows the transport. `timeout` is how long a rank waits for the end of a step.
  PeerWatch(const JobContext& context, const C10dTransport& transport, Duration timeout);

  // Of the thread that ends steps. Asked every now and then while it has waited so long for the end
  // of `step`: an error where there is no use in waiting any longer.
  Status check_peers(std::uint64_t step, Duration waited);
  void step_ended(std::uint64_t step);
  bool has_signed(std::uint64_t step) const { return signed_ > step; }

  // Any thread. `why` with the rank that all wait for, where there is one: who waits for a rank
  // that itself waits can only name that one.
  Status report_unresponsive_peers(std::uint64_t step, const Status& why);
  // Any thread. The engine does not say whom it lost; our own group does, within `patience`.
  Status engine_failure(std::uint64_t step, const std::string& words, Duration patience);

  // Any thread. What this rank says of its first failure, whatever else fails later: it has the
  // same cause. With it what the first of all ranks has said.
  std::string describe(const std::string& where, const Status& why);
  bool has_failed();

 private:
  std::string whom_it_waits_for(std::uint64_t step, Duration patience);

  FailureStore failures_;
  const C10dTransport& transport_;
  const Duration timeout_;
  std::uint64_t signed_ = 0;  // one more than the last step in which this rank has waited for long

  std::mutex mutex_;
  std::string told_;  // guarded by mutex_
};

}  // namespace nf::torch_front
