// Four ranks, each a thread, all-reduce a gradient at 4 bits per element. All ranks get the same
// bits. With make_mpi_transport() instead of threads, this becomes an MPI program.
#include <neuron_fabric/all_reduce.h>
#include <neuron_fabric/inproc_transport.h>

#include <cmath>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

constexpr std::uint32_t kRanks = 4;
constexpr std::size_t kCount = 1 << 20;

// Sums a gradient over all ranks of a transport. A training loop would reuse the AllReduce.
nf::Status sum(nf::Transport& transport, std::span<float> gradient, std::uint64_t step) {
  const auto all_reduce =
      nf::AllReduce::create(transport, {.codec = "waterfill:4", .topology = nf::Topology::kDirect});
  if (!all_reduce) return all_reduce.status();
  const nf::Gradient gradients[] = {{nf::parameter_key("layer.weight"), gradient}};
  return (*all_reduce)->run({.step = step, .gradients = gradients});
}

float value(std::uint32_t rank, std::size_t i) {
  return std::sin(0.001f * static_cast<float>(i % 9973) + static_cast<float>(rank));
}

}  // namespace

int main() {
  nf::InprocNetwork network(kRanks);
  std::vector<std::vector<float>> gradients(kRanks, std::vector<float>(kCount));
  std::vector<nf::Status> statuses(kRanks);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    for (std::size_t i = 0; i < kCount; ++i) gradients[rank][i] = value(rank, i);
    threads.emplace_back([&, rank, transport = network.endpoint(rank)] {
      statuses[rank] = sum(*transport, gradients[rank], 0);
    });
  }
  for (std::thread& thread : threads) thread.join();

  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    double exact = 0;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) exact += double{value(rank, i)};
    error += std::pow(double{gradients[0][i]} - exact, 2);
    norm += exact * exact;
  }
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    if (!statuses[rank].ok()) {
      std::fprintf(stderr, "rank %u: %s\n", rank, nf::to_string(statuses[rank]).c_str());
      return 1;
    }
    if (gradients[rank] != gradients[0]) {
      std::fprintf(stderr, "the values of rank %u differ from those of rank 0\n", rank);
      return 1;
    }
  }
  std::printf("%u ranks have the same sum of %zu values; relative squared error %.4f\n", kRanks,
              kCount, error / norm);
  return error / norm < 0.05 ? 0 : 1;
}
