// What transport.h promises, as functions that every rank of three runs at the same time with its
// own end: in threads (transport_contract_test.cc) or in processes (mpi_transport_test_main.cc).
#pragma once

#include <span>
#include <string_view>

#include "neuron_fabric/transport.h"

namespace nf::test {

inline constexpr std::uint32_t kPromiseRanks = 3;

struct Promise {
  std::string_view name;
  // Expects, in GoogleTest's sense, that the promise is kept. The end may have failed afterwards.
  void (*keep)(Transport& end);
};

std::span<const Promise> transport_promises();

// Longer than anything here takes. No test waits for it to pass.
Duration soon(const Transport& end);

// Waits until `transfer`, or all of several, are done.
Status finish(Transport& end, const Transfer& transfer);
Status finish(Transport& end, std::span<const Transfer> transfers);
// Starts and finishes one. The error, whether of the start or of the wait.
Status send_now(Transport& end, std::uint32_t peer, std::span<std::byte> bytes);
Status receive_now(Transport& end, std::uint32_t peer, std::span<std::byte> bytes);

}  // namespace nf::test
