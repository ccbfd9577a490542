#include "base/buffer.h"

#include <new>

namespace nf {

Buffer::Buffer(std::size_t size)
    : data_(static_cast<std::byte*>(::operator new[](size, std::align_val_t{kBufferAlignment}))),
      size_(size) {}

void Buffer::Free::operator()(std::byte* data) const {
  ::operator delete[](data, std::align_val_t{kBufferAlignment});
}

}  // namespace nf
