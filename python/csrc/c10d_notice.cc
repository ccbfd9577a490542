#include "c10d_notice.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <span>

#include "c10d_work.h"

namespace nf::torch_front {
namespace {

constexpr int kNoticeTag = 0x6e67;

std::vector<at::Tensor> tensor_over(C10dNotice& notice) {
  return torch_front::tensor_over(std::as_writable_bytes(std::span(&notice, 1)));
}

}  // namespace

C10dNotice notice_of(std::string_view reason) {
  C10dNotice notice;
  std::copy_n(reason.begin(), std::min(reason.size(), notice.reason.size() - 1),
              notice.reason.begin());
  return notice;
}

C10dNotices::C10dNotices(c10d::ProcessGroup& group, const C10dNotice& notice) : notice_(notice) {
  for (int peer = 0; peer < group.getSize(); ++peer) {
    if (peer == group.getRank()) continue;
    try {
      std::vector<at::Tensor> tensors = tensor_over(notice_);
      sends_.push_back(group.send(tensors, peer, kNoticeTag));
    } catch (const std::exception&) {
      continue;  // the peer is gone and needs no notice
    }
  }
}

C10dWatch::C10dWatch(c10d::ProcessGroup& group, PeerEvents& events, std::uint32_t peer)
    : events_(events), peer_(peer) {
  std::vector<at::Tensor> room = tensor_over(notice_);
  work_ = group.recv(room, static_cast<int>(peer), kNoticeTag);
  thread_ = std::thread([this] { run(); });
}

C10dWatch::~C10dWatch() { stop(); }

void C10dWatch::stop() {
  if (!thread_.joinable()) return;
  is_closing_ = true;
  work_->abort();
  thread_.join();
}

void C10dWatch::run() {
  pthread_setname_np(pthread_self(), "nf_watch");
  try {
    if (!work_->wait(kNoTimeout) || is_closing_) return;
    notice_.reason.back() = 0;
    if (notice_.reason.front() == 0) {
      events_.add_shutdown(peer_, notice_.steps);
    } else {
      events_.add_aborted(peer_, notice_.reason.data());
    }
  } catch (const std::exception& error) {
    if (!is_closing_) events_.add_lost(peer_, first_line(error.what()));
  }
}

}  // namespace nf::torch_front
