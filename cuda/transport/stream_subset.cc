#include "cuda/transport/stream_subset.h"

#include <algorithm>
#include <utility>

namespace nf::cuda {

StreamSubset::StreamSubset(StreamTransport& whole, std::vector<std::uint32_t> members)
    : whole_(whole),
      members_(std::move(members)),
      rank_(static_cast<std::uint32_t>(std::ranges::find(members_, whole.rank()) -
                                       members_.begin())) {}

Status StreamSubset::exchange(std::span<const StreamTransfer> sends,
                              std::span<const StreamTransfer> receives, cudaStream_t stream) {
  const auto translate = [&](std::span<const StreamTransfer> from,
                             std::vector<StreamTransfer>& to) {
    to.assign(from.begin(), from.end());
    for (StreamTransfer& transfer : to) transfer.peer = members_[transfer.peer];
  };
  translate(sends, sends_);
  translate(receives, receives_);
  return whole_.exchange(sends_, receives_, stream);
}

}  // namespace nf::cuda
