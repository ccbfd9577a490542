#include "cuda/transport/nccl_transport.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace nf::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// How long an abort waits for an exchange that is being put on a stream.
constexpr std::chrono::seconds kPatience{2};
// How long a rank sleeps between two looks at whether all have met, and at the other ranks.
constexpr std::chrono::milliseconds kNap{1};
constexpr std::chrono::milliseconds kLookAround{200};

bool is_going_well(ncclResult_t result) {
  return result == ncclSuccess || result == ncclInProgress;
}

Status to_status(ncclResult_t result, std::string_view what) {
  if (is_going_well(result)) return {};
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

// The end of a call that did not wait for the other ranks, which came `result` of.
Status wait_for_all(ncclComm_t communicator, ncclResult_t result, const NcclRendezvous& rendezvous,
                    Clock::time_point begin) {
  if (is_going_well(result)) result = state_of(communicator);
  for (Duration next_look = kLookAround; result == ncclInProgress;
       result = state_of(communicator)) {
    std::this_thread::sleep_for(kNap);
    const Duration waited = Clock::now() - begin;
    const bool is_over = waited >= rendezvous.timeout;
    if (rendezvous.check_peers && (is_over || waited >= next_look)) {
      next_look = waited + kLookAround;
      NF_RETURN_IF_ERROR(rendezvous.check_peers(waited));
    }
    if (is_over) {
      return {ErrorCode::kDeadlineExceeded,
              fmt::format("NCCL: rank {} has waited {:.1f} s for all of {} ranks to meet; see "
                          "whether they all live, and with NCCL_DEBUG=INFO whether they can reach "
                          "each other",
                          rendezvous.rank, seconds(waited), rendezvous.ranks)};
    }
  }
  return to_status(result, "rendezvous the other ranks");
}

// Of calls that do not wait for the other ranks. Null where it could not even begin.
ncclResult_t begin_meeting(const NcclRendezvous& rendezvous, ncclComm_t* communicator) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return ncclCommInitRankConfig(communicator, static_cast<int>(rendezvous.ranks),
                                rendezvous.identity, static_cast<int>(rendezvous.rank), &config);
}

// A communicator of the same ranks whose calls return once their work is on the stream: one whose
// calls do not wait has NCCL start a thread for every exchange.
ncclResult_t begin_split(const NcclRendezvous& rendezvous, ncclComm_t from,
                         ncclComm_t* communicator) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  return ncclCommSplit(from, 0, static_cast<int>(rendezvous.rank), communicator, &config);
}

}  // namespace

Expected<ncclUniqueId> NcclTransport::make_identity() {
  ncclUniqueId identity;
  if (Status status = to_status(ncclGetUniqueId(&identity), "making an identity"); !status.ok()) {
    return status;
  }
  return identity;
}

Expected<std::unique_ptr<NcclTransport>> NcclTransport::create(const NcclRendezvous& rendezvous) {
  const Clock::time_point begin = Clock::now();
  ncclComm_t first = nullptr;
  const ncclResult_t met = begin_meeting(rendezvous, &first);
  if (first == nullptr) return to_status(met, "rendezvous the other ranks");
  Status status = wait_for_all(first, met, rendezvous, begin);
  ncclComm_t communicator = nullptr;
  if (status.ok()) {
    const ncclResult_t split = begin_split(rendezvous, first, &communicator);
    status = wait_for_all(first, split, rendezvous, begin);
  }
  if (!status.ok()) {  // ends what is under way, too, and has ended it when it returns
    static_cast<void>(ncclCommAbort(first));
    return status;
  }
  static_cast<void>(ncclCommDestroy(first));
  return std::unique_ptr<NcclTransport>(new NcclTransport(communicator, rendezvous));
}

NcclTransport::~NcclTransport() {
  if (ending_.joinable()) ending_.join();
  if (communicator_ != nullptr) static_cast<void>(ncclCommDestroy(communicator_));
}

Status NcclTransport::exchange(std::span<const StreamTransfer> sends,
                               std::span<const StreamTransfer> receives, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  NF_RETURN_IF_ERROR(failure_);
  ncclResult_t result = ncclGroupStart();
  for (const StreamTransfer& send : sends) {
    if (!is_going_well(result) || send.size == 0) continue;
    result = ncclSend(send.bytes, send.size, ncclUint8, static_cast<int>(send.peer), communicator_,
                      stream);
  }
  for (const StreamTransfer& receive : receives) {
    if (!is_going_well(result) || receive.size == 0) continue;
    result = ncclRecv(receive.bytes, receive.size, ncclUint8, static_cast<int>(receive.peer),
                      communicator_, stream);
  }
  const ncclResult_t ended = ncclGroupEnd();
  if (is_going_well(result)) result = ended;
  const Status status = result == ncclInProgress ? finish() : to_status(result, "an exchange");
  // An abort that did not wait has said why.
  if (failure_.ok()) failure_ = status;
  return failure_;
}

// NCCL_COMM_BLOCKING=0 lets no call wait, whatever the communicator was made for; its work is on
// the stream only once it is no longer under way.
Status NcclTransport::finish() {
  const Clock::time_point begin = Clock::now();
  ncclResult_t result = ncclInProgress;
  while (result == ncclInProgress) {
    if (is_given_up_) return {ErrorCode::kAborted, "NCCL, an exchange: this rank has given up"};
    if (Clock::now() - begin >= timeout_) {
      return {ErrorCode::kDeadlineExceeded,
              fmt::format("NCCL: an exchange was not begun within {} s", seconds(timeout_))};
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
    if (!lock) return {};  // an exchange is being put on a stream, and will say how it went
    if (!failure_.ok()) return failure_;
    status = to_status(state_of(communicator_), "a transfer");
  }
  if (!status.ok()) abort(status);
  return status;
}

// Kernels that wait for a peer end, so that nobody hangs; what they received is rubbish. A thread
// that is itself stuck within NCCL, waiting for a peer to connect, goes on, too. NCCL frees memory
// here, and for that waits for all that is on the device: kernels of other communicators, too,
// which somebody must be free to abort.
void NcclTransport::abort(const Status& why) {
  if (is_given_up_.exchange(true)) return;
  const std::unique_lock lock(mutex_, kPatience);
  if (failure_.ok()) failure_ = why;
  ncclComm_t communicator = std::exchange(communicator_, nullptr);
  ending_ = std::thread([communicator] { static_cast<void>(ncclCommAbort(communicator)); });
}

}  // namespace nf::cuda
