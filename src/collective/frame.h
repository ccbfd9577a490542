// The frames of an all-reduce call: header, payload, and a pool that reuses their memory.
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

// The properties that all frames of a call share.
struct FrameKind {
  std::uint32_t codec = 0;
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  bool checksummed = true;
};

// Identifies a frame within its call. The codec field of its header is the hash of the codec mixed
// with step and place, so a frame that arrives in place of another is rejected as foreign.
struct FramePlace {
  enum class Part : std::uint8_t { kStatistics, kCombined, kReduce, kGather };

  Part part = Part::kReduce;
  std::uint32_t chunk = 0;
  std::uint32_t index = 0;  // among the messages of the chunk
};

// The codec fingerprint of frames that hold messages of several codecs: from left to right, one
// after another.
std::uint32_t combined_fingerprint(std::uint32_t first, std::uint32_t second);

// The bytes of one frame.
class Frame {
 public:
  // Sets the payload size. Never shrinks the buffer.
  void resize(std::size_t size);
  std::span<std::byte> payload() { return whole().subspan(kFrameHeaderBytes); }
  std::span<const std::byte> payload() const { return whole().subspan(kFrameHeaderBytes); }

  // The largest payload that fits without an allocation.
  std::size_t room() const {
    return std::max(buffer_.size(), kFrameHeaderBytes) - kFrameHeaderBytes;
  }

  // Writes the header for the current payload.
  void seal(const FrameKind& kind, FramePlace place);
  // Checks that the transfer has received the complete frame of this kind and place.
  Status open(const FrameKind& kind, FramePlace place, const Transfer& transfer) const;

  std::span<std::byte> whole() { return {buffer_.data(), size_}; }
  std::span<const std::byte> whole() const { return {buffer_.data(), size_}; }

 private:
  Buffer buffer_;
  std::size_t size_ = 0;
};

// Owns frames and reuses them. Pointers stay valid: frames do not move.
class FramePool {
 public:
  // Allocates memory for `count` frames of `payload` bytes in use at once.
  void reserve(std::size_t count, std::size_t payload);
  Frame* acquire(std::size_t payload);
  void release(Frame* frame) { idle_.push_back(frame); }

 private:
  void add();

  std::vector<std::unique_ptr<Frame>> all_;
  std::vector<Frame*> idle_;
};

}  // namespace nf
