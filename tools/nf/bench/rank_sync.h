// Synchronisation of benchmark ranks between measurements, over the measured transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "neuron_fabric/status.h"
#include "neuron_fabric/transport.h"

namespace nf::cli {

// All ranks call the same methods in the same order, while the transport has no other transfers.
// Methods fail if the transport fails.
class RankSync {
 public:
  // Borrows the transport.
  explicit RankSync(Transport& transport) : transport_(transport) {}

  // On rank 0, returns the values of all ranks, by rank; on other ranks, an empty vector.
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

  // Broadcasts the value of rank 0.
  template <typename T>
  Status share(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return share_bytes(std::as_writable_bytes(std::span(&value, 1)));
  }

  // Returns after all ranks have called it.
  Status barrier();

  // On rank 0, returns the number of elements of `element` bytes that are not equal on all ranks;
  // on other ranks, 0. All ranks pass the same number of bytes.
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
