#include "cuda/nccl_transport.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace nf::cuda {
namespace {

// How long an abort waits for an exchange that is being put on a stream.
constexpr std::chrono::seconds kPatience{2};

Status to_status(ncclResult_t result, std::string_view what) {
  if (result == ncclSuccess || result == ncclInProgress) return {};
  const bool is_remote = result == ncclRemoteError || result == ncclSystemError;
  return {is_remote ? ErrorCode::kPeerLost : ErrorCode::kUnsupported,
          fmt::format("NCCL, {}: {}", what, ncclGetErrorString(result))};
}

}  // namespace

Expected<ncclUniqueId> NcclTransport::make_identity() {
  ncclUniqueId identity;
  if (Status status = to_status(ncclGetUniqueId(&identity), "making an identity"); !status.ok()) {
    return status;
  }
  return identity;
}

Expected<std::unique_ptr<NcclTransport>> NcclTransport::create(const ncclUniqueId& identity,
                                                               std::uint32_t rank,
                                                               std::uint32_t ranks) {
  ncclComm_t communicator = nullptr;
  const ncclResult_t result =
      ncclCommInitRank(&communicator, static_cast<int>(ranks), identity, static_cast<int>(rank));
  if (Status status = to_status(result, "meeting the other ranks"); !status.ok()) return status;
  return std::unique_ptr<NcclTransport>(new NcclTransport(communicator, rank, ranks));
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
    if (result != ncclSuccess || send.size == 0) continue;
    result = ncclSend(send.bytes, send.size, ncclUint8, static_cast<int>(send.peer), communicator_,
                      stream);
  }
  for (const StreamTransfer& receive : receives) {
    if (result != ncclSuccess || receive.size == 0) continue;
    result = ncclRecv(receive.bytes, receive.size, ncclUint8, static_cast<int>(receive.peer),
                      communicator_, stream);
  }
  const ncclResult_t ended = ncclGroupEnd();
  // An abort that did not wait has said why.
  if (failure_.ok()) {
    failure_ = to_status(result != ncclSuccess ? result : ended, "an exchange");
  }
  return failure_;
}

Status NcclTransport::health() {
  Status status;
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return {};  // an exchange is being put on a stream, and will say how it went
    if (!failure_.ok()) return failure_;
    ncclResult_t result = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(communicator_, &result);
    status = to_status(asked != ncclSuccess ? asked : result, "a transfer");
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
