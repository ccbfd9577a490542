// The operations of one codec with their inputs: the gradients of two ranks, their combined
// statistics, the widths, and the messages between them. For benchmarks.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "neuron_fabric/codec.h"
#include "nf/support/timing.h"

namespace nf::cli {

// The gradients of two ranks, from GradientMixture.
class GradientPair {
 public:
  GradientPair(std::size_t count, DataType type, std::uint64_t seed = 1);

  std::size_t count() const { return count_; }
  DataType type() const { return type_; }
  std::size_t bytes() const { return count_ * size_of(type_); }
  ConstValues values(std::size_t rank) const { return {ranks_[rank].data(), count_, type_}; }

 private:
  std::size_t count_;
  DataType type_;
  std::array<Buffer, 2> ranks_;
};

// ||actual - sum||^2 / ||sum||^2, where `sum` is the sum of the elements of `exact`.
double vnmse_of(std::span<const ConstValues> exact, ConstValues actual);

struct CodecOp {
  std::string_view name;
  std::size_t bytes = 0;  // minimum that it must read and write
  // Bits per element of the message that it writes or, if it writes none, reads. Includes the
  // statistics.
  std::optional<double> bits = {};
  Work run;
  // ||result - exact||^2 / ||exact||^2 of the decoded result. Empty if the result is not a message
  // or values.
  std::function<Expected<double>()> vnmse = {};
};

class CodecOps {
 public:
  // Fails if the codec is unknown or rejects the gradients. Borrows the gradients.
  static Expected<std::unique_ptr<CodecOps>> make(std::string_view spelling,
                                                  const GradientPair& gradients);

  const Codec& codec() const { return *codec_; }
  // statistics, widths, encode, decode, decode_add, decode_add_encode, as in an all-reduce. The
  // first two only if the codec has them.
  const std::vector<CodecOp>& ops() const { return ops_; }

 private:
  CodecOps(std::unique_ptr<Codec> codec, const GradientPair& gradients);

  Status prepare();
  Status choose_widths();
  Expected<double> message_vnmse();
  Expected<double> decode_add_vnmse();
  Expected<double> hop_vnmse();
  double bits_of(const Buffer& message) const;
  void add_statistics_ops();
  void add_message_ops();

  const std::unique_ptr<Codec> codec_;
  const GradientPair& gradients_;
  std::array<Buffer, 2> own_statistics_;  // per rank
  Buffer statistics_;                     // combined
  std::vector<std::uint8_t> widths_;
  Slice slice_;
  Buffer message_;  // of rank 0
  Buffer sum_;      // of both ranks, encoded by rank 1
  Buffer values_;   // decoded
  std::vector<CodecOp> ops_;
};

}  // namespace nf::cli
