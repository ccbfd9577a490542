#include "cuda/loopback.h"

#include <string>

#include "cuda/base/launch.h"

namespace nf::test {

using cuda::StreamTransfer;
using cuda::to_status;

class LoopbackNetwork::Endpoint final : public cuda::StreamTransport {
 public:
  Endpoint(LoopbackNetwork& network, std::uint32_t rank) : network_(network), rank_(rank) {}

  std::string_view name() const override { return "loopback"; }
  std::uint32_t rank() const override { return rank_; }
  std::uint32_t ranks() const override {
    return static_cast<std::uint32_t>(network_.boards_.size());
  }
  Status health() override { return {}; }
  void abort(const Status& /*why*/) override {}

  Status exchange(std::span<const StreamTransfer> sends, std::span<const StreamTransfer> receives,
                  cudaStream_t stream) override {
    Board& own = network_.boards_[rank_];
    own.sends.assign(sends.begin(), sends.end());
    NF_RETURN_IF_ERROR(to_status(cudaEventRecord(own.ready, stream), "record"));
    network_.barrier_.arrive_and_wait();
    Status status = copy(receives, stream);
    if (status.ok()) status = to_status(cudaEventRecord(own.done, stream), "record");
    network_.barrier_.arrive_and_wait();
    for (const StreamTransfer& send :
         sends) {  // before the caller overwrites bytes that peers still read
      if (!status.ok()) break;
      status = to_status(cudaStreamWaitEvent(stream, network_.boards_[send.peer].done), "wait");
    }
    network_.barrier_.arrive_and_wait();
    return status;
  }

 private:
  // Receives from each peer in the order in which it sends.
  Status copy(std::span<const StreamTransfer> receives, cudaStream_t stream) {
    std::vector<std::size_t> matched(ranks(), 0);
    for (const StreamTransfer& receive : receives) {
      const Board& peer = network_.boards_[receive.peer];
      std::size_t& next = matched[receive.peer];
      while (next < peer.sends.size() && peer.sends[next].peer != rank_) ++next;
      if (next == peer.sends.size() || peer.sends[next].size != receive.size) {
        return {ErrorCode::kDisagreement,
                "rank " + std::to_string(rank_) + " expects a message that no rank sends"};
      }
      NF_RETURN_IF_ERROR(to_status(cudaStreamWaitEvent(stream, peer.ready), "wait"));
      NF_RETURN_IF_ERROR(to_status(cudaMemcpyAsync(receive.bytes, peer.sends[next].bytes,
                                                   receive.size, cudaMemcpyDeviceToDevice, stream),
                                   "copy"));
      ++next;
    }
    return {};
  }

  LoopbackNetwork& network_;
  const std::uint32_t rank_;
};

LoopbackNetwork::LoopbackNetwork(std::uint32_t ranks) : boards_(ranks), barrier_(ranks) {
  for (Board& board : boards_) {
    for (cudaEvent_t* event : {&board.ready, &board.done}) {
      static_cast<void>(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    }
  }
}

LoopbackNetwork::~LoopbackNetwork() {
  for (const Board& board : boards_) {
    static_cast<void>(cudaEventDestroy(board.ready));
    static_cast<void>(cudaEventDestroy(board.done));
  }
}

std::unique_ptr<cuda::StreamTransport> LoopbackNetwork::endpoint(std::uint32_t rank) {
  return std::make_unique<Endpoint>(*this, rank);
}

}  // namespace nf::test
