// The contract of transport.h as functions that three ranks run concurrently, each with its own
// end: in threads (transport_contract_test.cc, python_front/c10d_transport_test.cc) or in processes
// (mpi_transport_test_main.cc).
#pragma once

#include <span>
#include <string_view>

#include "neuron_fabric/transport.h"

namespace nf::test {

inline constexpr std::uint32_t kContractRanks = 3;

struct ContractCase {
  std::string_view name;
  // Uses GoogleTest's EXPECT_*. Afterwards the end may have failed.
  void (*check)(Transport& end);
  // Whether the sizes of sent and received messages differ, which some engines cannot detect.
  bool needs_sizes = false;
};

std::span<const ContractCase> contract_cases();

// A deadline that no test reaches.
Duration distant_deadline(const Transport& end);

// Waits until all given transfers are done.
Status finish(Transport& end, const Transfer& transfer);
Status finish(Transport& end, std::span<const Transfer> transfers);
// Starts and finishes one transfer. Returns the error of either.
Status send_now(Transport& end, std::uint32_t peer, std::span<std::byte> bytes);
Status receive_now(Transport& end, std::uint32_t peer, std::span<std::byte> bytes);

}  // namespace nf::test
