#include "c10d_transport.h"

#include <ATen/ATen.h>
#include <c10/util/StringUtil.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>

namespace nf::torch_front {
namespace {

constexpr int kMessageTag = 0x6e66;  // one for all: Gloo keeps the order of equal tags
constexpr int kNoticeTag = 0x6e67;

// Why a rank gave up, as text that ends with a zero byte.
using Notice = std::array<char, 1024>;

// A notice overtakes the messages that its rank sent before it: they get this long to arrive.
constexpr Duration kNoticePatience = std::chrono::milliseconds(200);

// c10d has no way to say "for ever".
constexpr auto kNoTimeout = std::chrono::duration_cast<std::chrono::milliseconds>(kLongestWait);

std::vector<at::Tensor> tensor_over(std::span<std::byte> bytes) {
  return {at::from_blob(bytes.data(), {static_cast<std::int64_t>(bytes.size())}, at::kByte)};
}

std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

Status lost(std::uint32_t peer, const std::string& words) {
  return {ErrorCode::kPeerLost, c10::str("rank ", peer, " is gone: ", words)};
}

}  // namespace

// One peer and one direction. Gloo finishes the work of one lane in the order of its start.
class C10dTransport::Lane {
 public:
  Lane(News& news, std::uint32_t peer) : news_(news), peer_(peer) {
    thread_ = std::thread([this] { run(); });
  }

  ~Lane() {
    {
      const std::lock_guard lock(mutex_);
      is_closing_ = true;
      for (const Item& item : items_) item.work->abort();
    }
    changed_.notify_one();
    thread_.join();
  }

  void add(c10::intrusive_ptr<c10d::Work> work, Transfer* transfer) {
    {
      const std::lock_guard lock(mutex_);
      items_.push_back({std::move(work), transfer});
    }
    changed_.notify_one();
  }

 private:
  struct Item {
    c10::intrusive_ptr<c10d::Work> work;
    Transfer* transfer = nullptr;
  };

  void run() {
    pthread_setname_np(pthread_self(), "nf_lane");
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return is_closing_ || !items_.empty(); });
      if (is_closing_) return;
      const Item item = items_.front();
      lock.unlock();
      finish(item);
      lock.lock();
      items_.pop_front();
    }
  }

  void finish(const Item& item) {
    Status failure;
    try {
      if (!item.work->wait(kNoTimeout)) failure = lost(peer_, "the transfer was given up");
    } catch (const std::exception& error) {
      failure = lost(peer_, first_line(error));
    }
    {
      const std::lock_guard lock(news_.mutex);
      if (failure.ok()) {
        news_.done.push_back(item.transfer);
      } else if (news_.failure.ok()) {
        news_.failure = std::move(failure);
      }
    }
    news_.changed.notify_all();
  }

  News& news_;
  const std::uint32_t peer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;  // the first is being waited for
  bool is_closing_ = false;
  std::thread thread_;
};

// Waits for a peer's notice for as long as the transport lives.
class C10dTransport::Watch {
 public:
  Watch(c10d::ProcessGroup& group, News& news, std::uint32_t peer) : news_(news), peer_(peer) {
    std::vector<at::Tensor> room = tensor_over(std::as_writable_bytes(std::span(notice_)));
    work_ = group.recv(room, static_cast<int>(peer), kNoticeTag);
    thread_ = std::thread([this] { run(); });
  }

  ~Watch() {
    is_closing_ = true;
    work_->abort();
    thread_.join();
  }

 private:
  void run() {
    pthread_setname_np(pthread_self(), "nf_watch");
    Status told;
    try {
      if (!work_->wait(kNoTimeout) || is_closing_) return;
      notice_.back() = 0;
      told = {ErrorCode::kAborted, notice_.data()};
    } catch (const std::exception& error) {
      if (is_closing_) return;
      told = lost(peer_, first_line(error));
    }
    {
      const std::lock_guard lock(news_.mutex);
      if (news_.first.ok()) news_.first = told;
      news_.by_peer[peer_] = std::move(told);
    }
    news_.changed.notify_all();
  }

  News& news_;
  const std::uint32_t peer_;
  Notice notice_{};
  std::atomic<bool> is_closing_ = false;
  c10::intrusive_ptr<c10d::Work> work_;
  std::thread thread_;
};

C10dTransport::C10dTransport(c10::intrusive_ptr<c10d::ProcessGroup> group)
    : group_(std::move(group)),
      rank_(static_cast<std::uint32_t>(group_->getRank())),
      ranks_(static_cast<std::uint32_t>(group_->getSize())),
      news_(std::make_unique<News>()) {
  lanes_.resize(std::size_t{2} * ranks_);
  news_->by_peer.resize(ranks_);
  for (std::uint32_t peer = 0; peer < ranks_; ++peer) {
    if (peer != rank_) watches_.push_back(std::make_unique<Watch>(*group_, *news_, peer));
  }
}

C10dTransport::~C10dTransport() = default;

void C10dTransport::close() {
  lanes_.clear();
  watches_.clear();
}

Status C10dTransport::start(Transfer& transfer, Direction direction) {
  if (!failure_.ok()) return failure_;
  if (transfer.peer >= ranks_ || transfer.peer == rank_) {
    return fail({ErrorCode::kInvalidArgument,
                 c10::str("rank ", rank_, " of ", ranks_, " has no peer ", transfer.peer)});
  }
  transfer.size = transfer.bytes.size();  // sizes are agreed: c10d tells none
  transfer.is_done = false;
  const auto peer = static_cast<int>(transfer.peer);
  std::vector<at::Tensor> tensors = tensor_over(transfer.bytes);
  c10::intrusive_ptr<c10d::Work> work;
  try {
    work = direction == Direction::kSend ? group_->send(tensors, peer, kMessageTag)
                                         : group_->recv(tensors, peer, kMessageTag);
  } catch (const std::exception& error) {
    return fail(lost(transfer.peer, first_line(error)));
  }
  std::unique_ptr<Lane>& lane =
      lanes_[std::size_t{2} * transfer.peer + (direction == Direction::kSend ? 0 : 1)];
  if (lane == nullptr) lane = std::make_unique<Lane>(*news_, transfer.peer);
  under_way_.push_back(&transfer);
  lane->add(std::move(work), &transfer);
  return {};
}

std::size_t C10dTransport::settle() {
  const std::size_t settled = news_->done.size();
  for (Transfer* transfer : news_->done) {
    transfer->is_done = true;
    std::erase(under_way_, transfer);
  }
  news_->done.clear();
  return settled;
}

Status C10dTransport::progress() {
  if (!failure_.ok()) return failure_;
  std::unique_lock lock(news_->mutex);
  const std::size_t settled = settle();
  if (settled > 0 || news_->failure.ok()) return {};
  const Status failure = news_->failure;
  lock.unlock();
  return fail(failure);
}

Status C10dTransport::wait(Duration deadline) {
  if (!failure_.ok()) return failure_;
  std::unique_lock lock(news_->mutex);
  const auto has_notice = [this] {
    return std::ranges::any_of(under_way_, [this](const Transfer* transfer) {
      return news_->by_peer[transfer->peer].code() == ErrorCode::kAborted;
    });
  };
  Duration end = deadline;
  for (;;) {
    if (settle() > 0) return {};
    if (!news_->failure.ok()) {
      const Status failure = news_->failure;
      lock.unlock();
      return fail(failure);
    }
    const Duration moment = now();
    if (has_notice()) end = std::min(end, moment + kNoticePatience);
    if (moment >= end) break;
    const std::chrono::steady_clock::time_point until(end);
    if (end == deadline) {
      news_->changed.wait_until(lock, until);
    } else {  // the last chance of messages that were sent before the notice
      news_->changed.wait_until(lock, until,
                                [this] { return !news_->done.empty() || !news_->failure.ok(); });
      if (settle() > 0) return {};
      break;
    }
  }
  for (const Transfer* transfer : under_way_) {
    if (const Status notice = news_->by_peer[transfer->peer]; !notice.ok()) {
      lock.unlock();
      return fail(notice);
    }
  }
  std::string peers;
  for (const Transfer* transfer : under_way_) peers += c10::str(" ", transfer->peer);
  return {ErrorCode::kDeadlineExceeded,
          c10::str("rank ", rank_, " waited in vain for transfers with ranks", peers)};
}

Status C10dTransport::peers(Duration patience) const {
  std::unique_lock lock(news_->mutex);
  news_->changed.wait_for(lock, patience, [this] { return !news_->first.ok(); });
  return news_->first;
}

// What is under way is taken back, lest Gloo write to memory that its owner gives up.
Status C10dTransport::fail(Status why) {
  failure_ = std::move(why);
  lanes_.clear();
  lanes_.resize(std::size_t{2} * ranks_);
  under_way_.clear();
  return failure_;
}

void C10dTransport::abort(const Status& why) {
  if (!has_told_) {
    has_told_ = true;
    const std::string text = why.code() == ErrorCode::kAborted
                                 ? why.message()
                                 : c10::str("rank ", rank_, " gave up: ", to_string(why));
    // Gloo may read it until the process ends: nobody may wait for a peer that does not listen.
    auto* notice = new Notice{};
    std::memcpy(notice->data(), text.data(), std::min(text.size(), notice->size() - 1));
    auto* sends = new std::vector<c10::intrusive_ptr<c10d::Work>>();
    for (std::uint32_t peer = 0; peer < ranks_; ++peer) {
      if (peer == rank_) continue;
      try {
        std::vector<at::Tensor> tensors = tensor_over(std::as_writable_bytes(std::span(*notice)));
        sends->push_back(group_->send(tensors, static_cast<int>(peer), kNoticeTag));
      } catch (const std::exception&) {
        continue;  // it is gone, and needs no notice
      }
    }
  }
  if (failure_.ok()) static_cast<void>(fail(why));
}

}  // namespace nf::torch_front
