// What the ranks of a benchmark say to each other between two measurements, over the transport that
// they measure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "neuron_fabric/status.h"
#include "neuron_fabric/transport.h"

namespace nf::cli {

// One rank's end. All ranks call the same methods in the same order, while nothing else is under
// way. A method fails where the transport does.
class RankSync {
 public:
  // Borrows the transport.
  explicit RankSync(Transport& transport) : transport_(transport) {}

  // What each rank has, by rank, on rank 0; nothing elsewhere.
  template <typename T>
  Expected<std::vector<T>> gather(T own) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all(transport_.rank() == 0 ? transport_.ranks() : 0);
    if (Status status = gather_bytes(std::as_writable_bytes(std::span(&own, 1)),
                                     std::as_writable_bytes(std::span(all)));
        !status.ok()) {
      return status;
    }
    return all;
  }

  // Rank 0's value for all.
  template <typename T>
  Status share(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return share_bytes(std::as_writable_bytes(std::span(&value, 1)));
  }

  // Returns on each rank after all have called it.
  Status barrier();

  // How many elements of `element` bytes are not the same bytes on all ranks; known to rank 0
  // alone. All ranks bring as many bytes.
  Expected<std::uint64_t> count_differences(std::span<const std::byte> own, std::size_t element);

 private:
  Status gather_bytes(std::span<std::byte> own, std::span<std::byte> all);
  Status share_bytes(std::span<std::byte> bytes);
  Status send(std::uint32_t peer, std::span<std::byte> bytes);
  Status receive(std::uint32_t peer, std::span<std::byte> bytes);
  Status finish(const Transfer& transfer);

  Transport& transport_;
};

}  // namespace nf::cli
