// All-reduce by the memory-side reducer, which the ranks of one host emulate in shared memory
// (neuron_fabric/shared_reducer.h). The sum has the same bits as that of the ring.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collective/schedule.h"
#include "collective/sum_plan.h"
#include "neuron_fabric/all_reduce.h"
#include "neuron_fabric/shared_reducer.h"

namespace nf {

// start() does all of a call and waits.
class SharedAllReduce final : public AllReduce {
 public:
  // Whether the reducer can sum messages of this codec and the codec keeps no memory.
  static bool supports(const std::string& codec);
  // The maximum bytes of the messages of these parameters in one call.
  static std::size_t capacity(std::span<const std::size_t> counts, std::uint32_t ranks);

  // Borrows transport and reducer. Uses codec, seed and tile_bytes of the options.
  static Expected<std::unique_ptr<AllReduce>> create(Transport& transport, SharedReducer& reducer,
                                                     const AllReduceOptions& options);

  Status start(const AllReduceCall& call) override;
  Expected<bool> advance() override { return true; }
  std::string waiting_for() const override { return "the ranks at the shared reducer"; }
  Traffic traffic() const override { return traffic_; }

  std::vector<MemoryEntry> save_memory() const override { return {}; }
  Status load_memory(std::span<const MemoryEntry> memory) override;
  void forget(std::uint64_t) override {}
  void undo(std::uint64_t) override {}
  void reset() override {}

 protected:
  Transport& transport() override { return transport_; }
  Duration timeout() const override { return options_.timeout; }

 private:
  // One piece of a gradient and the positions of its messages.
  struct Part {
    Values values;
    Slice slice;
    std::uint32_t chunk = 0;
    std::size_t own = 0;  // offsets in own_ and sum_
    std::size_t sum = 0;
  };

  SharedAllReduce(Transport& transport, SharedReducer& reducer, const AllReduceOptions& options,
                  std::unique_ptr<Codec> codec);

  void cut(const AllReduceCall& call);

  Transport& transport_;
  SharedReducer& reducer_;
  const AllReduceOptions options_;
  const std::unique_ptr<Codec> codec_;
  SumPlan plan_;
  const Schedule schedule_;                // of the ring, for its owners
  std::vector<std::uint32_t> first_rank_;  // by chunk: where the sum of the ring begins

  // Buffers, reused from call to call.
  std::vector<Part> parts_;
  std::vector<std::byte> own_;
  std::vector<std::byte> sum_;
  std::vector<SharedMessage> messages_;
  Traffic traffic_;
};

}  // namespace nf
