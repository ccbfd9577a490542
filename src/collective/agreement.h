// The first stage: do all ranks want the same? Each rank describes its call, and in ceil(log2 n)
// rounds everybody learns of everybody (rank r sends to r + 1, r + 2, r + 4, ... what it knows).
// Where two descriptions differ, every rank learns so, and which two. The loss scale alone may
// differ: the one with the highest version is used on all ranks.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "collective/stage.h"
#include "neuron_fabric/all_reduce.h"

namespace nf {

// What ranks must agree on, as it travels.
struct CallDescription {
  static constexpr std::size_t kLongestCodec = 56;

  std::uint64_t values = 0;  // of all parameters together
  std::uint64_t layout = 0;  // a hash of every parameter's key, shape and type, in order
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::uint64_t tile_bytes = 0;
  std::uint16_t topology = 0;
  std::uint16_t part = 0;  // of a call that is several sums: which of them, from 1
  std::uint32_t host_group_size = 0;
  std::array<char, kLongestCodec> codec{};  // its spelling, cut short where it is longer

  friend bool operator==(const CallDescription&, const CallDescription&) = default;
};

// What the gradients of a call have been multiplied by.
struct LossScale {
  float value = 1;
  std::uint64_t version = 0;

  friend bool operator==(const LossScale&, const LossScale&) = default;
};

inline LossScale loss_scale_of(const AllReduceCall& call) {
  return {.value = call.loss_scale, .version = call.loss_scale_version};
}

// `codec` is the spelling that all ranks have for the same one; that of the options is not looked
// at.
CallDescription describe_call(std::string_view codec, const AllReduceOptions& options,
                              const AllReduceCall& call, std::uint16_t part = 0);

class Agreement final : public Stage {
 public:
  Agreement(Transport& transport, const CallDescription& own, const LossScale& scale);

  // Fails with kDisagreement at the end of the last round, so that all ranks get that far.
  Expected<bool> advance() override;
  std::string waiting_for() const override;
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  // That of all ranks. Precondition: advance() has returned true.
  LossScale loss_scale() const;

  // Among so many ranks: rounds, and what a rank sends in all of them.
  static std::uint32_t rounds(std::uint32_t ranks);
  static std::uint64_t bytes_to_send(std::uint32_t ranks);

 private:
  // What a rank has heard: one description, and another that differs if there is one; of the loss
  // scales with the highest version one, and another that differs, or the same twice.
  struct Knowledge {
    std::uint32_t magic = 0;
    std::uint32_t version = 0;
    std::uint32_t differ = 0;
    std::uint32_t ranks[2] = {};
    std::uint32_t reserved = 0;
    CallDescription calls[2];
    std::uint64_t scale_version = 0;
    std::uint32_t scales[2] = {};  // the bits of floats
    std::uint32_t scale_ranks[2] = {};
    std::uint64_t checksum = 0;  // of all before it
  };

  static std::uint64_t checksum_of(const Knowledge& knowledge);
  Status start_round();
  Status take();
  void take_scales();
  Status verdict() const;

  Transport& transport_;
  Knowledge known_;
  Knowledge outgoing_;
  Knowledge incoming_;
  Transfer send_;
  Transfer receive_;
  std::uint32_t distance_ = 1;
  bool is_started_ = false;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace nf
