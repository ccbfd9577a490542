#include "gloo_ranks.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <chrono>
#include <latch>
#include <thread>
#include <vector>

namespace nf::test {
namespace {

constexpr std::chrono::seconds kTimeout{60};

c10::intrusive_ptr<c10d::ProcessGroup> make_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                  std::uint32_t rank, std::uint32_t ranks) {
  const auto own_rank = static_cast<int>(rank);
  const auto size = static_cast<int>(ranks);
  auto options = c10d::ProcessGroupGloo::Options::create(kTimeout);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, own_rank, size, options);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, own_rank, size);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
  group->setGroupName("test");
  return group;
}

}  // namespace

void on_gloo_ranks(std::uint32_t ranks, const std::function<void(GlooRank&)>& work) {
  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
  std::latch finished(ranks);
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      GlooRank own{
          .transport = std::make_unique<torch_front::C10dTransport>(make_group(store, rank, ranks)),
          .store = store};
      work(own);
      finished.arrive_and_wait();
      if (own.transport != nullptr) own.transport->close();
    });
  }
}

}  // namespace nf::test
