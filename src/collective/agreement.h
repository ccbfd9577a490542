// The first stage: check that all ranks make the same call. Each rank hashes the description of its
// call, and the hashes are merged in ceil(log2 n) rounds: rank r sends its digest to r + 1, r + 2,
// r + 4, and so on. After them, every rank knows whether all hashes are equal. Only if they are
// not, as many rounds with the descriptions follow, after which every rank knows two that differ.
// Only the loss scale may differ: all ranks use the one with the highest version.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "collective/stage.h"
#include "neuron_fabric/all_reduce.h"
#include "neuron_fabric/collective.h"

namespace nf {

// The properties of a call that must be equal on all ranks. Hashed and sent as is.
struct CallDescription {
  static constexpr std::size_t kMaxCodecLength = 56;
  static constexpr std::size_t kMaxHashes = 8;

  std::uint64_t values = 0;   // of all parameters together
  std::uint64_t layout = 0;   // a hash of every parameter's codec, key, shape and type, in order
  std::uint64_t history = 0;  // a hash of the RMS histories of the parameters
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::uint64_t tile_bytes = 0;
  std::uint8_t topology = 0;
  std::uint8_t collective = 0;
  std::uint8_t sum = 0;    // which sum of a powersgd call, from 1
  std::uint8_t parts = 0;  // of an exchange of several parts, otherwise 0
  std::uint32_t host_group_size = 0;
  // The spelling of the codec, or of those of all parts, separated by commas; truncated. With
  // several parts, the last bytes are a short hash of each of the first kMaxHashes.
  std::array<char, kMaxCodecLength> codec{};

  friend bool operator==(const CallDescription&, const CallDescription&) = default;
};

// The factor that the gradients of a call have been multiplied by.
struct LossScale {
  float value = 1;
  std::uint64_t version = 0;

  friend bool operator==(const LossScale&, const LossScale&) = default;
};

inline LossScale loss_scale_of(const AllReduceCall& call) {
  return {.value = call.loss_scale, .version = call.loss_scale_version};
}

// One codec of a call. `codec` is its canonical spelling. In a reduce-scatter, `shards` is the
// number of gradients in each shard. `history` is a hash of the RMS histories.
struct DescribedPart {
  std::string_view codec;
  std::span<const Gradient> gradients = {};
  std::span<const std::size_t> shards = {};
  std::uint64_t history = 0;
};

// options.codec and call.gradients are ignored. Precondition: there is at least one part.
CallDescription describe_call(const AllReduceOptions& options, const AllReduceCall& call,
                              Collective collective, std::span<const DescribedPart> parts);
// One sum of a powersgd call, of call.gradients.
CallDescription describe_call(std::string_view codec, const AllReduceOptions& options,
                              const AllReduceCall& call, std::uint8_t sum);

class Agreement final : public Stage {
 public:
  Agreement(Transport& transport, const CallDescription& own, const LossScale& scale);

  // Fails with kDisagreement only after the last round, so that all ranks complete all rounds.
  Expected<bool> advance() override;
  std::string waiting_for() const override;
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  // The scale of all ranks. Precondition: advance() has returned true.
  LossScale loss_scale() const;

  // Rounds among `ranks` ranks, and the bytes that one rank sends in all of them, if the ranks
  // agree.
  static std::uint32_t rounds(std::uint32_t ranks);
  static std::uint64_t bytes_to_send(std::uint32_t ranks);

 private:
  // The merged hashes of the ranks heard from so far: that of one of them, and whether two differ.
  // Likewise two loss scales of the highest version, which are equal if no two ranks differ. Sent
  // as is.
  struct Digest {
    std::uint32_t magic = 0x6872'666e;  // "nfrh"
    std::uint32_t version = 0;
    std::uint32_t differ = 0;
    std::uint32_t reserved = 0;
    std::uint64_t hash = 0;
    std::uint64_t scale_version = 0;
    std::uint32_t scales[2] = {};  // the bits of floats
    std::uint32_t scale_ranks[2] = {};
    std::uint64_t checksum = 0;  // of the preceding bytes
  };

  // The merged descriptions: one and, if `differ` is set, another one that differs from it. Sent as
  // is.
  struct Summary {
    std::uint32_t magic = 0x6772'666e;  // "nfrg"
    std::uint32_t version = 0;
    std::uint32_t differ = 0;
    std::uint32_t ranks[2] = {};
    std::uint32_t reserved = 0;
    CallDescription calls[2];
    std::uint64_t checksum = 0;  // of the preceding bytes
  };

  // A message of this rank, and the last one in each direction.
  template <typename Message>
  struct Merged {
    Message own;
    Message outgoing;
    Message incoming;
  };

  template <typename Message>
  static std::uint64_t checksum_of(const Message& message);
  template <typename Message>
  Status start_round(Merged<Message>& merged);
  template <typename Message>
  Status check_incoming(const Merged<Message>& merged) const;
  // Runs the remaining rounds with such messages. Returns false if it has to wait for one.
  template <typename Message>
  Expected<bool> run_rounds(Merged<Message>& merged);
  static void merge(Digest& own, const Digest& incoming);
  static void merge(Summary& own, const Summary& incoming);
  static void merge_scales(Digest& own, const Digest& incoming);
  Status check_scales() const;

  Transport& transport_;
  Merged<Digest> digests_;
  Merged<Summary> summaries_;
  Transfer send_;
  Transfer receive_;
  std::uint32_t distance_ = 1;
  bool is_started_ = false;  // the current round
  bool is_describing_ = false;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace nf
