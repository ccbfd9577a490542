// What a bucket costs on this machine and link, and whether low bits shorten what the step waits
// for (docs/admission.md). Pure: figures come in, predictions go out. Among one rank nothing costs
// anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nf {

// Measured at attach, the slowest of all ranks, or given. A speed of 0 takes no time.
struct LinkFigures {
  double latency = 0;                 // seconds, of one transfer between two ranks
  double bytes_per_second = 0;        // between two ranks, both directions busy
  double dense_latency = 0;           // seconds, of the engine's all-reduce of next to nothing
  double dense_bytes_per_second = 0;  // of the engine's all-reduce, in bytes a rank must send
};

// Of one codec: seconds a value for a rank's share of one all-reduce.
struct CodecFigures {
  double seconds_per_value = 0;
};

// One bucket, as it could travel.
struct BucketLoad {
  double ready = 0;             // seconds after the step's first bucket
  std::size_t dense_bytes = 0;  // of values that travel dense in any case
  struct LowBit {               // of one region
    std::uint32_t region = 0;
    std::size_t bytes = 0;  // of its values, as they lie in the bucket
    std::size_t values = 0;
    std::size_t wire_bytes = 0;    // that a rank sends for them at low bits
    std::size_t inside_bytes = 0;  // and inside its group, of which `codec` has the time
    std::uint32_t hops = 0;        // one after the other
    CodecFigures codec;
  };
  std::vector<LowBit> low_bit;
};

class CostModel {
 public:
  CostModel(const LinkFigures& link, std::uint32_t ranks);

  // Seconds of the engine's all-reduce of so many bytes of values; none for no bytes.
  double dense_seconds(std::size_t bytes) const;
  double low_bit_seconds(const BucketLoad::LowBit& part) const;
  // Of a bucket, with the regions marked in `is_low_bit` at low bits. Precondition, here and below:
  // one mark a region.
  double bucket_seconds(const BucketLoad& bucket, const std::vector<bool>& is_low_bit) const;

  // What the step waits for after its last bucket is ready: buckets travel one after the other,
  // each no earlier than it is ready.
  double exposed_seconds(std::span<const BucketLoad> step,
                         const std::vector<bool>& is_low_bit) const;

  // The regions of `candidates` whose low bits shorten the exposed time. Of all together, the one
  // that gains least is dropped until every one that is left gains, beside the others, more than
  // its share of `margin` of the exposed time without it, the share being its part of the
  // candidates' bytes. Those of `in_use` keep their place down to no gain at all. Takes up to
  // regions² / 2 walks over the step.
  std::vector<bool> useful(std::span<const BucketLoad> step, const std::vector<bool>& candidates,
                           const std::vector<bool>& in_use, double margin = 0.05) const;

  // Corrects later predictions by what a step took: measured over predicted, smoothed.
  // `predicted` is what this model said, its correction of that time included. What is not a
  // positive time is no measurement.
  void correct_dense(double predicted, double measured);
  void correct_low_bit(double predicted, double measured);
  double dense_correction() const { return dense_correction_; }
  double low_bit_correction() const { return low_bit_correction_; }
  // Goes on with the corrections of a model of the same machines.
  void load_corrections(double dense, double low_bit);

 private:
  LinkFigures link_;
  std::uint32_t ranks_;
  double dense_correction_ = 1;
  double low_bit_correction_ = 1;
};

}  // namespace nf
