#include "cuda/transport/nccl_transport.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace nf::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// How long abort() waits for an exchange that is being enqueued.
constexpr std::chrono::seconds kAbortWait{2};
// Intervals at which create() polls the communicator and the other ranks.
constexpr std::chrono::milliseconds kPollInterval{1};
constexpr std::chrono::milliseconds kPeerCheckInterval{200};

bool has_not_failed(ncclResult_t result) {
  return result == ncclSuccess || result == ncclInProgress;
}

Status to_status(ncclResult_t result, std::string_view what) {
  if (has_not_failed(result)) return {};
  const bool is_remote = result == ncclRemoteError || result == ncclSystemError;
  return {is_remote ? ErrorCode::kPeerLost : ErrorCode::kUnsupported,
          fmt::format("NCCL, {}: {}", what, ncclGetErrorString(result))};
}

ncclResult_t state_of(ncclComm_t communicator) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(communicator, &state);
  return asked != ncclSuccess ? asked : state;
}

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// Waits for a non-blocking call that returned `result`.
Status wait_for_all(ncclComm_t communicator, ncclResult_t result, const NcclRendezvous& rendezvous,
                    Clock::time_point begin) {
  if (has_not_failed(result)) result = state_of(communicator);
  for (Duration next_check = kPeerCheckInterval; result == ncclInProgress;
       result = state_of(communicator)) {
    std::this_thread::sleep_for(kPollInterval);
    const Duration waited = Clock::now() - begin;
    const bool is_over = waited >= rendezvous.timeout;
    if (rendezvous.check_peers && (is_over || waited >= next_check)) {
      next_check = waited + kPeerCheckInterval;
      NF_RETURN_IF_ERROR(rendezvous.check_peers(waited));
    }
    if (is_over) {
      return {
          ErrorCode::kDeadlineExceeded,
          fmt::format("NCCL: rank {} waited {:.1f} s for all {} ranks to connect; check that all "
                      "ranks are alive, and with NCCL_DEBUG=INFO that they can reach each "
                      "other",
                      rendezvous.rank, seconds(waited), rendezvous.ranks)};
    }
  }
  return to_status(result, "rendezvous with the other ranks");
}

// Starts a non-blocking communicator. It is null if that failed at once.
ncclResult_t begin_rendezvous(const NcclRendezvous& rendezvous, ncclComm_t* communicator) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return ncclCommInitRankConfig(communicator, static_cast<int>(rendezvous.ranks),
                                rendezvous.identity, static_cast<int>(rendezvous.rank), &config);
}

// Starts a blocking communicator of the same ranks, whose calls return once their work is enqueued.
// With a non-blocking one NCCL starts a thread for every exchange.
ncclResult_t begin_split(const NcclRendezvous& rendezvous, ncclComm_t from,
                         ncclComm_t* communicator) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  return ncclCommSplit(from, 0, static_cast<int>(rendezvous.rank), communicator, &config);
}

}  // namespace

Expected<ncclUniqueId> NcclTransport::make_identity() {
  ncclUniqueId identity;
  if (Status status = to_status(ncclGetUniqueId(&identity), "creating an identity"); !status.ok()) {
    return status;
  }
  return identity;
}

Expected<std::unique_ptr<NcclTransport>> NcclTransport::create(const NcclRendezvous& rendezvous) {
  const Clock::time_point begin = Clock::now();
  ncclComm_t first = nullptr;
  const ncclResult_t begun = begin_rendezvous(rendezvous, &first);
  if (first == nullptr) return to_status(begun, "rendezvous with the other ranks");
  Status status = wait_for_all(first, begun, rendezvous, begin);
  ncclComm_t communicator = nullptr;
  if (status.ok()) {
    const ncclResult_t split = begin_split(rendezvous, first, &communicator);
    status = wait_for_all(first, split, rendezvous, begin);
  }
  if (!status.ok()) {  // also ends pending calls
    static_cast<void>(ncclCommAbort(first));
    return status;
  }
  static_cast<void>(ncclCommDestroy(first));
  return std::unique_ptr<NcclTransport>(new NcclTransport(communicator, rendezvous));
}

NcclTransport::~NcclTransport() {
  if (aborting_.joinable()) aborting_.join();
  if (communicator_ != nullptr) static_cast<void>(ncclCommDestroy(communicator_));
}

Status NcclTransport::exchange(std::span<const StreamTransfer> sends,
                               std::span<const StreamTransfer> receives, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  NF_RETURN_IF_ERROR(failure_);
  ncclResult_t result = ncclGroupStart();
  for (const StreamTransfer& send : sends) {
    if (!has_not_failed(result) || send.size == 0) continue;
    result = ncclSend(send.bytes, send.size, ncclUint8, static_cast<int>(send.peer), communicator_,
                      stream);
  }
  for (const StreamTransfer& receive : receives) {
    if (!has_not_failed(result) || receive.size == 0) continue;
    result = ncclRecv(receive.bytes, receive.size, ncclUint8, static_cast<int>(receive.peer),
                      communicator_, stream);
  }
  const ncclResult_t ended = ncclGroupEnd();
  if (has_not_failed(result)) result = ended;
  const Status status = result == ncclInProgress ? finish() : to_status(result, "an exchange");
  // If abort() did not get the lock, it has set the reason.
  if (failure_.ok()) failure_ = status;
  return failure_;
}

// With NCCL_COMM_BLOCKING=0 all communicators are non-blocking; the work of a call is on the stream
// only once the call is no longer pending.
Status NcclTransport::finish() {
  const Clock::time_point begin = Clock::now();
  ncclResult_t result = ncclInProgress;
  while (result == ncclInProgress) {
    if (is_aborted_) return {ErrorCode::kAborted, "NCCL, an exchange: aborted by this rank"};
    if (Clock::now() - begin >= timeout_) {
      return {ErrorCode::kDeadlineExceeded,
              fmt::format("NCCL: an exchange was not enqueued within {} s", seconds(timeout_))};
    }
    std::this_thread::yield();
    result = state_of(communicator_);
  }
  return to_status(result, "an exchange");
}

Status NcclTransport::health() {
  Status status;
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return {};  // an exchange is being enqueued and will report its status
    if (!failure_.ok()) return failure_;
    status = to_status(state_of(communicator_), "a transfer");
  }
  if (!status.ok()) abort(status);
  return status;
}

// Ends kernels that wait for a peer, so that no stream hangs; received memory has undefined
// contents. A thread that is blocked inside NCCL, waiting for a peer to connect, continues as well.
// To free memory, NCCL waits for all work on the device, including kernels of other communicators,
// which another thread must be able to abort: hence a thread of its own.
void NcclTransport::abort(const Status& why) {
  if (is_aborted_.exchange(true)) return;
  const std::unique_lock lock(mutex_, kAbortWait);
  if (failure_.ok()) failure_ = why;
  ncclComm_t communicator = std::exchange(communicator_, nullptr);
  aborting_ = std::thread([communicator] { static_cast<void>(ncclCommAbort(communicator)); });
}

}  // namespace nf::cuda
