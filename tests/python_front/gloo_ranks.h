// The ranks of a job as threads, joined by a Gloo process group as those of nf.attach() are.
#pragma once

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <functional>
#include <memory>

#include "c10d_transport.h"

namespace nf::test {

// The part of one rank. It may reset the transport, which simulates a crash: the process group ends
// with it.
struct GlooRank {
  std::unique_ptr<torch_front::C10dTransport> transport;
  c10::intrusive_ptr<c10d::Store> store;  // shared by all ranks
};

// Runs work(rank) on one thread per rank. No transport is destroyed before the work of all ranks
// has returned, unless the work resets it.
void on_gloo_ranks(std::uint32_t ranks, const std::function<void(GlooRank&)>& work);

}  // namespace nf::test
