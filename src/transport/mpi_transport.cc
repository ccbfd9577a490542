#include "neuron_fabric/mpi_transport.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "transport/mpi_job.h"
#include "transport/peer_status.h"
#include "transport/pending_transfers.h"

namespace nf {
namespace {

constexpr int kMessageTag = 1;  // one for all: MPI keeps the order of equal tags between two ranks
constexpr int kNoticeTag = 2;

// The reason why a rank aborted, zero-terminated.
using Notice = std::array<char, 1024>;
// How long an aborting rank waits for its notices to be sent.
constexpr Duration kNoticeTimeout = std::chrono::milliseconds(20);

// Ranks may outnumber cores: after this long without progress a waiting rank sleeps between polls.
constexpr Duration kPollingTime = std::chrono::microseconds(200);
constexpr Duration kPollInterval = std::chrono::microseconds(30);

Status transfer_failure(const PendingTransfer& pending, int error) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(error, &error_class);
  if (error_class == MPI_ERR_TRUNCATE) {
    return {ErrorCode::kCorruptFrame,
            fmt::format("message from rank {} exceeds the expected {} bytes", pending.peer,
                        pending.bytes.size())};
  }
  return {ErrorCode::kPeerLost,
          fmt::format("rank {} cannot be reached: {}", pending.peer, mpi_error_text(error))};
}

class MpiTransport final : public Transport {
 public:
  MpiTransport(MPI_Comm communicator, int rank, int ranks)
      : communicator_(communicator), rank_(rank), ranks_(ranks) {
    notices_.resize(static_cast<std::size_t>(ranks));
  }
  ~MpiTransport() override;

  std::string_view name() const override { return "mpi"; }
  std::uint32_t rank() const override { return static_cast<std::uint32_t>(rank_); }
  std::uint32_t ranks() const override { return static_cast<std::uint32_t>(ranks_); }
  Duration now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }

  Status send(Transfer& transfer) override { return start(transfer, Direction::kSend); }
  Status receive(Transfer& transfer) override { return start(transfer, Direction::kReceive); }
  Status progress() override;
  Status wait(Duration deadline) override;
  void abort(const Status& why) override;

 private:
  Status start(Transfer& transfer, Direction direction);
  // Both count completed transfers in `done`.
  Status poll(std::size_t& done);
  Status test(std::size_t& done);
  bool read_notice();
  Status fail(Status why);
  void withdraw();
  void notify_peers(const Status& why);

  // Constant after construction.
  MPI_Comm communicator_;
  const int rank_;
  const int ranks_;

  // Parallel arrays of the pending transfers.
  std::vector<MPI_Request> requests_;
  std::vector<PendingTransfer> pending_;
  // Filled in by MPI_Testsome.
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;

  std::vector<Status> notices_;  // by rank; ok if the rank has not aborted
  bool has_notified_ = false;
  Status failure_;
};

MpiTransport::~MpiTransport() {
  if (!mpi_is_running()) return;
  if (!pending_.empty()) withdraw();
  // Messages of a failed communicator may still arrive. Leak it, so that MPI does not reuse its
  // number and deliver them to another communicator.
  if (failure_.ok()) MPI_Comm_free(&communicator_);
}

Status MpiTransport::start(Transfer& transfer, Direction direction) {
  NF_RETURN_IF_ERROR(failure_);
  if (Status bad = check_peer(transfer.peer, rank(), ranks()); !bad.ok()) return fail(bad);
  if (transfer.bytes.size() > INT_MAX) {
    return fail(
        {ErrorCode::kInvalidArgument, fmt::format("a message of {} bytes exceeds MPI's limit of {}",
                                                  transfer.bytes.size(), INT_MAX)});
  }
  const PendingTransfer pending{.transfer = &transfer,
                                .bytes = transfer.bytes,
                                .peer = transfer.peer,
                                .direction = direction};
  transfer.size = 0;
  transfer.is_done = false;
  const int size = static_cast<int>(pending.bytes.size());
  const int peer = static_cast<int>(pending.peer);
  MPI_Request request = MPI_REQUEST_NULL;
  const int error = direction == Direction::kSend
                        ? MPI_Isend(pending.bytes.data(), size, MPI_BYTE, peer, kMessageTag,
                                    communicator_, &request)
                        : MPI_Irecv(pending.bytes.data(), size, MPI_BYTE, peer, kMessageTag,
                                    communicator_, &request);
  if (error != MPI_SUCCESS) return fail(transfer_failure(pending, error));
  requests_.push_back(request);
  pending_.push_back(pending);
  return {};
}

Status MpiTransport::progress() {
  NF_RETURN_IF_ERROR(failure_);
  std::size_t done = 0;
  return poll(done);
}

Status MpiTransport::wait(Duration deadline) {
  NF_RETURN_IF_ERROR(failure_);
  const Duration begin = now();
  while (true) {
    std::size_t done = 0;
    NF_RETURN_IF_ERROR(poll(done));
    if (done > 0) return {};
    const Duration moment = now();
    if (moment >= deadline) {
      std::vector<std::uint32_t> peers;
      for (const PendingTransfer& pending : pending_) peers.push_back(pending.peer);
      return transfer_timed_out(rank(), peers);
    }
    if (moment - begin < kPollingTime) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min(kPollInterval, deadline - moment));
    }
  }
}

// A notice counts only if transfers are still pending when they are tested again after it: messages
// that the rank sent before it aborted arrive before the notice.
Status MpiTransport::poll(std::size_t& done) {
  do {
    NF_RETURN_IF_ERROR(test(done));
    if (done > 0) return {};
  } while (read_notice());
  for (const PendingTransfer& pending : pending_) {
    if (const Status& notice = notices_[pending.peer]; !notice.ok()) return fail(notice);
  }
  return {};
}

Status MpiTransport::test(std::size_t& done) {
  if (pending_.empty()) return {};
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int completed = 0;
  const int error = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &completed,
                                 indices_.data(), statuses_.data());
  if (completed == MPI_UNDEFINED || completed == 0) {
    return error == MPI_SUCCESS ? Status() : fail(transfer_failure(pending_.front(), error));
  }
  Status problem;
  for (std::size_t i = 0; i < static_cast<std::size_t>(completed); ++i) {
    PendingTransfer& pending = pending_[static_cast<std::size_t>(indices_[i])];
    const MPI_Status& status = statuses_[i];
    if (error != MPI_SUCCESS && status.MPI_ERROR != MPI_SUCCESS) {
      if (problem.ok()) problem = transfer_failure(pending, status.MPI_ERROR);
    } else {
      int size = 0;
      MPI_Get_count(&status, MPI_BYTE, &size);
      pending.transfer->size = pending.direction == Direction::kReceive
                                   ? static_cast<std::size_t>(size)
                                   : pending.bytes.size();
      pending.transfer->is_done = true;
      ++done;
    }
    pending.state = PendingTransfer::State::kFinished;
  }
  const auto is_finished = [](const PendingTransfer& pending) {
    return pending.state == PendingTransfer::State::kFinished;
  };
  std::size_t kept = 0;
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    if (!is_finished(pending_[i])) requests_[kept++] = requests_[i];
  }
  requests_.resize(kept);
  std::erase_if(pending_, is_finished);
  return problem.ok() ? problem : fail(std::move(problem));
}

bool MpiTransport::read_notice() {
  int has_arrived = 0;
  MPI_Status status;
  const int error = MPI_Iprobe(MPI_ANY_SOURCE, kNoticeTag, communicator_, &has_arrived, &status);
  if (error != MPI_SUCCESS || has_arrived == 0) return false;
  Notice notice{};
  if (MPI_Recv(notice.data(), static_cast<int>(notice.size()), MPI_CHAR, status.MPI_SOURCE,
               kNoticeTag, communicator_, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
    return false;
  }
  notice.back() = 0;
  notices_[static_cast<std::size_t>(status.MPI_SOURCE)] = {ErrorCode::kAborted, notice.data()};
  return true;
}

void MpiTransport::abort(const Status& why) {
  if (!has_notified_) notify_peers(peer_aborted(rank(), why));
  static_cast<void>(fail(why));
}

Status MpiTransport::fail(Status why) {
  withdraw();
  mark_mpi_failed();
  failure_ = std::move(why);
  return failure_;
}

// Cancels receives. Sends, and receives that have matched a message, stay with MPI.
void MpiTransport::withdraw() {
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    int is_complete = 0;
    if (pending_[i].direction == Direction::kReceive) {
      MPI_Cancel(&requests_[i]);
      MPI_Test(&requests_[i], &is_complete, MPI_STATUS_IGNORE);
    }
    if (is_complete == 0) MPI_Request_free(&requests_[i]);
  }
  requests_.clear();
  pending_.clear();
}

void MpiTransport::notify_peers(const Status& why) {
  has_notified_ = true;
  auto notice = std::make_unique<Notice>();
  notice->fill(0);
  std::memcpy(notice->data(), why.message().data(),
              std::min(why.message().size(), notice->size() - 1));
  std::vector<MPI_Request> sends;
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == rank_) continue;
    MPI_Request request = MPI_REQUEST_NULL;
    const int error = MPI_Isend(notice->data(), static_cast<int>(notice->size()), MPI_CHAR, peer,
                                kNoticeTag, communicator_, &request);
    if (error == MPI_SUCCESS) sends.push_back(request);
  }
  const Duration deadline = now() + kNoticeTimeout;
  int all_sent = 0;
  do {
    if (MPI_Testall(static_cast<int>(sends.size()), sends.data(), &all_sent, MPI_STATUSES_IGNORE) !=
        MPI_SUCCESS) {
      break;
    }
  } while (all_sent == 0 && now() < deadline);
  // MPI may still read an unsent notice: leak it.
  if (all_sent == 0) static_cast<void>(notice.release());
}

}  // namespace

Expected<std::unique_ptr<Transport>> make_mpi_transport() {
  if (Status status = start_mpi(); !status.ok()) return status;
  MPI_Comm communicator = MPI_COMM_NULL;
  if (const int error = MPI_Comm_dup(MPI_COMM_WORLD, &communicator); error != MPI_SUCCESS) {
    return Status(ErrorCode::kUnsupported,
                  fmt::format("MPI_Comm_dup failed: {}", mpi_error_text(error)));
  }
  MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(communicator, &rank);
  MPI_Comm_size(communicator, &ranks);
  return std::unique_ptr<Transport>(std::make_unique<MpiTransport>(communicator, rank, ranks));
}

}  // namespace nf
