#include "collective/frame.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/random.h"

namespace nf {
namespace {

std::uint32_t codec_field(const FrameKind& kind, FramePlace place) {
  const std::uint64_t where = std::uint64_t{place.chunk} << 32 | place.index;
  const std::uint64_t when = mix64(kind.step + kGolden64) + static_cast<std::uint64_t>(place.part);
  return kind.codec ^ static_cast<std::uint32_t>(mix64(when * kGolden64 + where));
}

}  // namespace

std::uint32_t combined_fingerprint(std::uint32_t first, std::uint32_t second) {
  return static_cast<std::uint32_t>(mix64((std::uint64_t{first} << 32 | second) + kGolden64));
}

void Frame::resize(std::size_t size) {
  size_ = kFrameHeaderBytes + size;
  if (buffer_.size() < size_) buffer_ = Buffer(size_);
}

void Frame::seal(const FrameKind& kind, FramePlace place) {
  write_frame_header(
      {.codec = codec_field(kind, place), .epoch = kind.epoch, .checksummed = kind.checksummed},
      payload(), whole().first<kFrameHeaderBytes>());
}

Status Frame::open(const FrameKind& kind, FramePlace place, const Transfer& transfer) const {
  if (transfer.size != size_) {
    return {ErrorCode::kCorruptFrame, fmt::format("rank {} sent {} bytes instead of {}",
                                                  transfer.peer, transfer.size, size_)};
  }
  if (const auto payload = open_frame(whole(), codec_field(kind, place), kind.epoch); !payload) {
    return {payload.status().code(),
            fmt::format("rank {} sent a frame that is not message {} of chunk {}: {}",
                        transfer.peer, place.index, place.chunk, payload.status().message())};
  }
  return {};
}

void FramePool::add() {
  all_.push_back(std::make_unique<Frame>());
  idle_.reserve(all_.capacity());  // so that release() never allocates
  idle_.push_back(all_.back().get());
}

void FramePool::reserve(std::size_t count, std::size_t payload) {
  while (all_.size() < count) add();
  for (Frame* frame : idle_) {
    if (frame->room() < payload) frame->resize(payload);
  }
}

Frame* FramePool::acquire(std::size_t payload) {
  if (idle_.empty()) add();
  // Best fit, so that small payloads do not occupy large buffers.
  const auto excess = [&](const Frame* frame) {
    const std::size_t room = frame->room();
    return room >= payload ? room - payload : ~std::size_t{0} - room;
  };
  const auto best = std::min_element(idle_.begin(), idle_.end(),
                                     [&](Frame* a, Frame* b) { return excess(a) < excess(b); });
  Frame* frame = *best;
  *best = idle_.back();
  idle_.pop_back();
  frame->resize(payload);
  return frame;
}

}  // namespace nf
