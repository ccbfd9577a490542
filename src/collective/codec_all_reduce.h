// All-reduce or reduce-scatter with one codec: an exchange of one part.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collective/exchange.h"
#include "neuron_fabric/all_reduce.h"
#include "neuron_fabric/collective.h"

namespace nf {

class CodecAllReduce final : public AllReduce {
 public:
  static Expected<std::unique_ptr<CodecAllReduce>> create(
      Transport& transport, const AllReduceOptions& options,
      Collective collective = Collective::kAllReduce);

  Status start(const AllReduceCall& call) override { return start_shards(call, {}); }
  // As in Exchange.
  Status start_as(const AllReduceCall& call, const CallDescription& agreed);
  Status start_agreed(const AllReduceCall& call);
  // A reduce-scatter. `shards` as in Exchange::Input.
  Status start_shards(const AllReduceCall& call, std::span<const std::size_t> shards);
  LossScale loss_scale() const { return exchange_.loss_scale(); }
  Expected<bool> advance() override { return exchange_.advance(); }
  std::string waiting_for() const override { return exchange_.waiting_for(); }
  Traffic traffic() const override { return part_->traffic(); }
  std::vector<MemoryEntry> save_memory() const override { return part_->save_memory(); }
  Status load_memory(std::span<const MemoryEntry> memory) override {
    return part_->load_memory(memory);
  }
  void forget(std::uint64_t parameter) override { part_->forget(parameter); }
  void undo(std::uint64_t parameter) override { part_->undo(parameter); }
  void reset() override { part_->reset(); }

  using AllReduce::complete;

 protected:
  Transport& transport() override { return transport_; }
  Duration timeout() const override { return timeout_; }

 private:
  CodecAllReduce(Transport& transport, const AllReduceOptions& options, Collective collective,
                 std::unique_ptr<ExchangePart> part);

  Transport& transport_;
  const Duration timeout_;
  const std::unique_ptr<ExchangePart> part_;
  Exchange exchange_;
};

}  // namespace nf
