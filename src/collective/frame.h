// The frames of an all-reduce call: header, payload, and a pool that recycles their memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "neuron_fabric/transport.h"
#include "neuron_fabric/wire_frame.h"

namespace nf {

// What all frames of a call have in common.
struct FrameKind {
  std::uint32_t codec = 0;
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  bool checksummed = true;
};

// Which of the call's frames it is. A frame says so by its codec field, which is that of the codec
// mixed with step and place: one that comes in another's place is foreign.
struct FramePlace {
  enum class Part : std::uint8_t { kStatistics, kCombined, kReduce, kGather };

  Part part = Part::kReduce;
  std::uint32_t chunk = 0;
  std::uint32_t tile = 0;
};

// The bytes of one frame, and its way to or from a peer.
class Frame {
 public:
  // Makes room for a payload of `size`; keeps what room there is.
  void resize(std::size_t size);
  std::span<std::byte> payload() { return whole().subspan(kFrameHeaderBytes); }
  std::span<const std::byte> payload() const { return whole().subspan(kFrameHeaderBytes); }

  // Bytes of payload that fit without new memory.
  std::size_t room() const {
    return std::max(buffer_.size(), kFrameHeaderBytes) - kFrameHeaderBytes;
  }

  // Writes the header for the payload as it is now.
  void seal(const FrameKind& kind, FramePlace place);
  // Checks what a transfer brought: the whole frame, of this kind and place.
  Status open(const FrameKind& kind, FramePlace place, const Transfer& transfer) const;

  std::span<std::byte> whole() { return {buffer_.data(), size_}; }
  std::span<const std::byte> whole() const { return {buffer_.data(), size_}; }

 private:
  Buffer buffer_;
  std::size_t size_ = 0;
};

// Frames that were used before and will be again. Borrowed pointers stay valid: frames do not move.
class FramePool {
 public:
  // Makes room for `count` frames of `payload` bytes under way at once.
  void reserve(std::size_t count, std::size_t payload);
  Frame* take(std::size_t payload);
  void give_back(Frame* frame) { idle_.push_back(frame); }

 private:
  void add();

  std::vector<std::unique_ptr<Frame>> all_;
  std::vector<Frame*> idle_;
};

}  // namespace nf
