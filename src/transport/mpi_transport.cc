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
#include "transport/posts.h"

namespace nf {
namespace {

constexpr int kMessageTag = 1;  // one for all: MPI keeps the order of equal tags between two ranks
constexpr int kNoticeTag = 2;

// Why a rank gave up, as text that ends with a zero byte.
using Notice = std::array<char, 1024>;
// What a rank that gives up spends at most on its notices.
constexpr Duration kNoticePatience = std::chrono::milliseconds(20);

// Ranks may outnumber cores: after this long without progress a waiting rank sleeps between polls.
constexpr Duration kPollingTime = std::chrono::microseconds(200);
constexpr Duration kNap = std::chrono::microseconds(30);

Status transfer_failure(const Post& post, int error) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(error, &error_class);
  if (error_class == MPI_ERR_TRUNCATE) {
    return {ErrorCode::kCorruptFrame,
            fmt::format("message from rank {} is longer than the {} bytes expected", post.peer,
                        post.bytes.size())};
  }
  return {ErrorCode::kPeerLost,
          fmt::format("rank {} cannot be reached: {}", post.peer, mpi_text(error))};
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
  // Both say in `done` how many transfers have become so.
  Status poll(std::size_t& done);
  Status test(std::size_t& done);
  bool read_notice();
  Status fail(Status why);
  void withdraw();
  void tell_peers(const Status& why);

  // Constant after construction.
  MPI_Comm communicator_;
  const int rank_;
  const int ranks_;

  // Side by side: what is under way.
  std::vector<MPI_Request> requests_;
  std::vector<Post> posts_;
  // What MPI_Testsome fills in.
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;

  std::vector<Status> notices_;  // by rank; ok from those who have not given up
  bool has_told_ = false;
  Status failure_;
};

MpiTransport::~MpiTransport() {
  if (!mpi_is_running()) return;
  if (!posts_.empty()) withdraw();
  // The messages of a failed communicator may still come in. It is kept, lest they come to another
  // to which MPI gives its number.
  if (failure_.ok()) MPI_Comm_free(&communicator_);
}

Status MpiTransport::start(Transfer& transfer, Direction direction) {
  NF_RETURN_IF_ERROR(failure_);
  if (Status bad = check_peer(transfer.peer, rank(), ranks()); !bad.ok()) return fail(bad);
  if (transfer.bytes.size() > INT_MAX) {
    return fail(
        {ErrorCode::kInvalidArgument, fmt::format("a message of {} bytes, MPI takes at most {}",
                                                  transfer.bytes.size(), INT_MAX)});
  }
  const Post post{.transfer = &transfer,
                  .bytes = transfer.bytes,
                  .peer = transfer.peer,
                  .direction = direction};
  transfer.size = 0;
  transfer.is_done = false;
  const int size = static_cast<int>(post.bytes.size());
  const int peer = static_cast<int>(post.peer);
  MPI_Request request = MPI_REQUEST_NULL;
  const int error =
      direction == Direction::kSend
          ? MPI_Isend(post.bytes.data(), size, MPI_BYTE, peer, kMessageTag, communicator_, &request)
          : MPI_Irecv(post.bytes.data(), size, MPI_BYTE, peer, kMessageTag, communicator_,
                      &request);
  if (error != MPI_SUCCESS) return fail(transfer_failure(post, error));
  requests_.push_back(request);
  posts_.push_back(post);
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
      for (const Post& post : posts_) peers.push_back(post.peer);
      return too_late(rank(), peers);
    }
    if (moment - begin < kPollingTime) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min(kNap, deadline - moment));
    }
  }
}

// A notice is acted upon only where transfers are left after another look at them: what its rank
// sent before it gave up has come before the notice.
Status MpiTransport::poll(std::size_t& done) {
  do {
    NF_RETURN_IF_ERROR(test(done));
    if (done > 0) return {};
  } while (read_notice());
  for (const Post& post : posts_) {
    if (const Status& notice = notices_[post.peer]; !notice.ok()) return fail(notice);
  }
  return {};
}

Status MpiTransport::test(std::size_t& done) {
  if (posts_.empty()) return {};
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int completed = 0;
  const int error = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &completed,
                                 indices_.data(), statuses_.data());
  if (completed == MPI_UNDEFINED || completed == 0) {
    return error == MPI_SUCCESS ? Status() : fail(transfer_failure(posts_.front(), error));
  }
  Status problem;
  for (std::size_t i = 0; i < static_cast<std::size_t>(completed); ++i) {
    Post& post = posts_[static_cast<std::size_t>(indices_[i])];
    const MPI_Status& status = statuses_[i];
    if (error != MPI_SUCCESS && status.MPI_ERROR != MPI_SUCCESS) {
      if (problem.ok()) problem = transfer_failure(post, status.MPI_ERROR);
    } else {
      int size = 0;
      MPI_Get_count(&status, MPI_BYTE, &size);
      post.transfer->size = post.direction == Direction::kReceive ? static_cast<std::size_t>(size)
                                                                  : post.bytes.size();
      post.transfer->is_done = true;
      ++done;
    }
    post.state = Post::State::kFinished;
  }
  const auto is_finished = [](const Post& post) { return post.state == Post::State::kFinished; };
  std::size_t kept = 0;
  for (std::size_t i = 0; i < posts_.size(); ++i) {
    if (!is_finished(posts_[i])) requests_[kept++] = requests_[i];
  }
  requests_.resize(kept);
  std::erase_if(posts_, is_finished);
  return problem.ok() ? problem : fail(std::move(problem));
}

bool MpiTransport::read_notice() {
  int has_come = 0;
  MPI_Status status;
  const int error = MPI_Iprobe(MPI_ANY_SOURCE, kNoticeTag, communicator_, &has_come, &status);
  if (error != MPI_SUCCESS || has_come == 0) return false;
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
  if (!has_told_) tell_peers(gave_up(rank(), why));
  static_cast<void>(fail(why));
}

Status MpiTransport::fail(Status why) {
  withdraw();
  mpi_has_failed();
  failure_ = std::move(why);
  return failure_;
}

// Sends stay with MPI, as do receives that have met their message.
void MpiTransport::withdraw() {
  for (std::size_t i = 0; i < posts_.size(); ++i) {
    int is_complete = 0;
    if (posts_[i].direction == Direction::kReceive) {
      MPI_Cancel(&requests_[i]);
      MPI_Test(&requests_[i], &is_complete, MPI_STATUS_IGNORE);
    }
    if (is_complete == 0) MPI_Request_free(&requests_[i]);
  }
  requests_.clear();
  posts_.clear();
}

void MpiTransport::tell_peers(const Status& why) {
  has_told_ = true;
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
  const Duration deadline = now() + kNoticePatience;
  int all_sent = 0;
  do {
    if (MPI_Testall(static_cast<int>(sends.size()), sends.data(), &all_sent, MPI_STATUSES_IGNORE) !=
        MPI_SUCCESS) {
      break;
    }
  } while (all_sent == 0 && now() < deadline);
  // MPI may go on reading it: what is not sent by now stays until the process ends.
  if (all_sent == 0) static_cast<void>(notice.release());
}

}  // namespace

Expected<std::unique_ptr<Transport>> make_mpi_transport() {
  if (Status status = start_mpi(); !status.ok()) return status;
  MPI_Comm communicator = MPI_COMM_NULL;
  if (const int error = MPI_Comm_dup(MPI_COMM_WORLD, &communicator); error != MPI_SUCCESS) {
    return Status(ErrorCode::kUnsupported, fmt::format("MPI_Comm_dup failed: {}", mpi_text(error)));
  }
  MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(communicator, &rank);
  MPI_Comm_size(communicator, &ranks);
  return std::unique_ptr<Transport>(std::make_unique<MpiTransport>(communicator, rank, ranks));
}

}  // namespace nf
