// The values, statistics and widths of one case of the harness, with the layout of its pieces for
// the CPU and as device tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda/codec/device_codec.h"
#include "cuda/device_codec_harness.h"
#include "cuda/device_copy.h"
#include "neuron_fabric/codec.h"
#include "support/generator.h"

namespace nf::test {

inline constexpr std::byte kPoison{0xa5};
inline constexpr std::size_t kFence = 256;

struct Parameter {
  std::uint64_t key = 0;
  std::size_t count = 0;
  std::size_t first = 0;  // of the piece
  std::size_t held = 0;   // by the piece
  std::size_t at = 0;     // byte offset of its values in an arena
  std::vector<Bytes> by_rank;
  Bytes statistics;
  std::vector<std::uint8_t> widths;       // of partial sums
  std::vector<std::uint8_t> last_widths;  // of the finished sum
};

// The layout of one message.
struct Layout {
  std::vector<std::uint64_t> piece_at;
  std::vector<std::size_t> sizes;
  std::vector<cuda::SuperGroupOffsets> offsets;
  std::size_t size = 0;
};

class CaseBatches {
 protected:
  explicit CaseBatches(const DeviceCase& test) : test_(test), random_(test.seed) {}

  // Precondition: codec_ is set.
  void make_parameters();

  std::size_t value_size() const { return size_of(test_.type); }

  // All parameters' values of one rank, with poison between and after them.
  Bytes arena(std::uint32_t rank) const;

  // The batch of all pieces, or of whole parameters, in an arena on the device.
  struct DeviceBatch {
    std::unique_ptr<DeviceCopy> pieces;
    std::unique_ptr<DeviceCopy> bounds;
    cuda::Batch batch;
  };
  DeviceBatch batch_of(const DeviceCopy& arena, bool whole) const;

  Slice slice(const Parameter& parameter, bool last) const;
  // The layout of messages of `contributions`; `last`: with the widths of the finished sum.
  Layout layout(std::uint32_t contributions, bool last) const;
  static std::span<const std::byte> part(const Layout& layout, std::size_t p,
                                         const Bytes& message) {
    return std::span(message).subspan(layout.piece_at[p], layout.sizes[p]);
  }
  ConstValues piece_values(const Parameter& parameter, std::uint32_t rank) const {
    return {parameter.by_rank[rank].data() + parameter.first * value_size(), parameter.held,
            test_.type};
  }

  // A layout in device memory.
  struct DeviceLayout {
    std::unique_ptr<DeviceCopy> piece_at;
    std::unique_ptr<DeviceCopy> offsets;

    explicit DeviceLayout(const Layout& layout) {
      if (!layout.offsets.empty()) {
        offsets = std::make_unique<DeviceCopy>(layout.offsets);
      } else {
        piece_at = std::make_unique<DeviceCopy>(layout.piece_at);
      }
    }
    template <typename Byte>
    cuda::DeviceMessageOf<Byte> message(const DeviceCopy& bytes, std::size_t size,
                                        Origin origin) const {
      return {.bytes = bytes.as<std::byte>(),
              .size = size,
              .piece_at = piece_at == nullptr ? nullptr : piece_at->as<std::uint64_t>(),
              .offsets = offsets == nullptr ? nullptr : offsets->as<cuda::SuperGroupOffsets>(),
              .origin = origin};
    }
  };

  const DeviceCase& test_;
  Generator random_;
  std::unique_ptr<Codec> codec_;
  std::vector<Parameter> parameters_;
  std::unique_ptr<DeviceCopy> statistics_;  // combined, of all parameters

 private:
  bool has_bounds() const { return test_.has_bounds && codec_->width_count(1) > 0; }
  std::uint32_t blocks_of(std::size_t count) const;
  void add_offsets(const Slice& slice, Layout& layout) const;

  std::size_t arena_size_ = 0;
};

}  // namespace nf::test
