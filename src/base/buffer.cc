#include "base/buffer.h"

#include <new>
#include <utility>

namespace nf {

Buffer::Buffer(std::size_t size)
    : data_(static_cast<std::byte*>(::operator new[](size, std::align_val_t{kBufferAlignment}))),
      size_(size) {}

void Buffer::Free::operator()(std::byte* data) const {
  ::operator delete[](data, std::align_val_t{kBufferAlignment});
}

Buffer BufferPool::take(std::size_t size) {
  {
    const std::lock_guard lock(mutex_);
    auto best = idle_.end();
    for (auto it = idle_.begin(); it != idle_.end(); ++it) {
      const bool fits = it->size() >= size && it->size() / 2 <= size;
      if (fits && (best == idle_.end() || it->size() < best->size())) best = it;
    }
    if (best != idle_.end()) {
      Buffer found = std::move(*best);
      idle_.erase(best);
      return found;
    }
  }
  return Buffer(size);
}

void BufferPool::give_back(Buffer buffer) {
  if (buffer.size() == 0) return;
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(buffer));
}

std::size_t BufferPool::idle_bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const Buffer& buffer : idle_) sum += buffer.size();
  return sum;
}

}  // namespace nf
