// All-reduce by powersgd: two full-precision sums of thin factors replace one sum of the gradient.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "collective/codec_all_reduce.h"
#include "collective/low_rank.h"
#include "neuron_fabric/codec.h"

namespace nf {

class LowRankAllReduce final : public AllReduce {
 public:
  static constexpr std::string_view kName = "powersgd";

  // The R of powersgd:R, from 1 to kMaxTerms.
  static Expected<std::uint32_t> terms_of(std::string_view codec);
  // Fails with kInvalidArgument if `rows` does not divide `count`.
  static Status check_rows(std::size_t count, std::size_t rows);

  // options.codec is powersgd:R.
  static Expected<std::unique_ptr<AllReduce>> create(Transport& transport,
                                                     const AllReduceOptions& options);

  Status start(const AllReduceCall& call) override;
  Expected<bool> advance() override;
  std::string waiting_for() const override;
  Traffic traffic() const override;
  std::vector<MemoryEntry> save_memory() const override;
  Status load_memory(std::span<const MemoryEntry> memory) override;
  void forget(std::uint64_t parameter) override { parameters_.erase(parameter); }
  void undo(std::uint64_t parameter) override;
  void reset() override { parameters_.clear(); }

 protected:
  Transport& transport() override { return transport_; }
  Duration timeout() const override { return options_.timeout; }

 private:
  enum class State : std::uint16_t { kDone, kAgree, kFirst, kSecond };

  LowRankAllReduce(Transport& transport, const AllReduceOptions& options, std::uint32_t terms,
                   std::unique_ptr<CodecAllReduce> factors, std::unique_ptr<Codec> dense);

  Status check_shapes();
  Status begin_first();
  Status begin_second();
  void finish();
  // After a failed call: deletes the memory of parameters that had none before it.
  void forget_new_parameters();
  LowRank& state_of(std::uint64_t parameter);

  // Constant after construction.
  Transport& transport_;
  const AllReduceOptions options_;
  const std::uint32_t terms_;
  const std::string codec_;                        // canonical spelling
  const std::unique_ptr<CodecAllReduce> factors_;  // sums factors at full precision
  const std::unique_ptr<Codec> dense_;             // to widen and narrow values

  // State of the current call.
  State state_ = State::kDone;
  AllReduceCall call_;
  std::vector<Gradient> gradients_;
  std::vector<Gradient> factor_gradients_;
  std::vector<std::uint64_t> new_parameters_;  // without memory before this call
  std::vector<float> fp32_values_;
  std::optional<Agreement> agreement_;
  std::uint64_t agreement_bytes_ = 0;  // of all calls, without those of factors_

  std::unordered_map<std::uint64_t, LowRank> parameters_;
};

}  // namespace nf
