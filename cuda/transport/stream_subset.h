// A StreamTransport over some ranks of another: member i is rank i. The counterpart of
// SubsetTransport for device memory.
#pragma once

#include <vector>

#include "cuda/transport/stream_transport.h"

namespace nf::cuda {

// Keeps a reference to `whole`. Precondition: `members` contains its rank.
class StreamSubset final : public StreamTransport {
 public:
  StreamSubset(StreamTransport& whole, std::vector<std::uint32_t> members);

  std::string_view name() const override { return whole_.name(); }
  std::uint32_t rank() const override { return rank_; }
  std::uint32_t ranks() const override { return static_cast<std::uint32_t>(members_.size()); }
  Status exchange(std::span<const StreamTransfer> sends, std::span<const StreamTransfer> receives,
                  cudaStream_t stream) override;
  Status health() override { return whole_.health(); }
  void abort(const Status& why) override { whole_.abort(why); }

 private:
  StreamTransport& whole_;
  const std::vector<std::uint32_t> members_;  // their ranks in whole_
  std::uint32_t rank_ = 0;
  std::vector<StreamTransfer> sends_;
  std::vector<StreamTransfer> receives_;
};

}  // namespace nf::cuda
