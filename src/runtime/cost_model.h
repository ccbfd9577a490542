// Predicts the time of a bucket on this host and link, and whether low bits shorten the exposed
// communication time of a step (docs/admission.md). A pure function of its inputs. With one rank
// all times are 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "neuron_fabric/collective.h"

namespace nf {

// Measured at attach on the slowest rank, or given. A speed of 0 means no time.
struct LinkFigures {
  double latency = 0;                 // seconds, of one transfer between two ranks
  double bytes_per_second = 0;        // between two ranks, both directions busy
  double dense_latency = 0;           // seconds, of a minimal collective of the engine
  double dense_bytes_per_second = 0;  // of the engine's collective, in bytes that a rank sends
};

// The bytes that a rank sends in the engine's collective, per byte of values: those of a ring.
double dense_share(Collective collective, std::uint32_t ranks);

// One codec: seconds per value for a rank's share of a collective.
struct CodecFigures {
  double seconds_per_value = 0;
};

// One bucket with its possible routes.
struct BucketLoad {
  double ready = 0;             // seconds after the step's first bucket
  std::size_t dense_bytes = 0;  // of values that are always dense
  struct LowBit {               // one region
    std::uint32_t region = 0;
    std::size_t bytes = 0;  // of its values in the bucket
    std::size_t values = 0;
    std::size_t wire_bytes = 0;    // that a rank sends for them at low bits
    std::size_t inside_bytes = 0;  // and inside its host group, whose time is part of `codec`
    std::uint32_t hops = 0;        // sequential
    bool is_alone = false;         // its route has a collective of its own
    CodecFigures codec;
  };
  std::vector<LowBit> low_bit;
};

class CostModel {
 public:
  CostModel(const LinkFigures& link, std::uint32_t ranks,
            Collective collective = Collective::kAllReduce);

  // Seconds of the engine's collective of `bytes` of values; 0 for no bytes.
  double dense_seconds(std::size_t bytes) const;
  // Seconds of one part in a bucket of its own.
  double low_bit_seconds(const BucketLoad::LowBit& part) const;
  // The time of a bucket if the regions marked in `is_low_bit` use low bits, which travel in one
  // exchange, together with a small number of dense values. Precondition, here and below: one mark
  // per region.
  struct BucketSeconds {
    double low_bit = 0;  // of the exchange
    double dense = 0;    // of the engine

    double total() const { return low_bit + dense; }
  };
  BucketSeconds bucket_seconds(const BucketLoad& bucket, const std::vector<bool>& is_low_bit) const;

  // The communication time after the last bucket is ready. Buckets are sent one after the other,
  // each no earlier than it is ready.
  double exposed_seconds(std::span<const BucketLoad> step,
                         const std::vector<bool>& is_low_bit) const;

  // The regions of `candidates` whose low bits shorten the exposed time. Starts with all of them
  // and drops the one that gains least until each remaining region gains, given the others, more
  // than its share of `margin` of the exposed time without it. The share is its part of the
  // candidates' bytes. Regions in `in_use` stay down to a gain of 0. None if all of these together
  // lengthen the exposed time. Takes up to regions² / 2 passes over the step.
  std::vector<bool> useful(std::span<const BucketLoad> step, const std::vector<bool>& candidates,
                           const std::vector<bool>& in_use, double margin = 0.05) const;

  // Corrects later predictions by the smoothed ratio of measured to predicted time. `predicted` is
  // the output of this model, including its correction at that time. Times that are not positive
  // are ignored.
  void correct_dense(double predicted, double measured);
  void correct_low_bit(double predicted, double measured);
  double dense_correction() const { return dense_correction_; }
  double low_bit_correction() const { return low_bit_correction_; }
  // Restores the corrections of a model of the same hosts.
  void load_corrections(double dense, double low_bit);

 private:
  double link_seconds(double bytes) const;

  LinkFigures link_;
  std::uint32_t ranks_;
  double dense_share_;
  double dense_correction_ = 1;
  double low_bit_correction_ = 1;
};

}  // namespace nf
