// The error of routes: encodes and decodes a sample of a rank's gradients, without sending it, and
// compares the result. This is the error of one contribution; hops that requantise add their own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "neuron_fabric/binding.h"
#include "neuron_fabric/codec.h"
#include "runtime/bucket_work.h"
#include "runtime/sampler.h"
#include "runtime/statistics_reducer.h"

namespace nf {

// For one route. Reuses its buffers. Not thread-safe.
class RouteError {
 public:
  // The key of the draws.
  struct Key {
    std::uint64_t seed = 0;
    std::uint64_t step = 0;
    std::uint64_t parameter = 0;  // parameter_key()
    std::uint32_t encoder = 0;    // this rank
  };

  // Fails with kBadConfig if `route` is invalid. For powersgd it measures nothing: what a step
  // leaves out is delayed, not lost, so it does not predict the harm to training.
  static Expected<RouteError> create(std::string_view route);

  // Treats the sample as a parameter of its own. The energy is 0, so nothing is measured, if the
  // sample is empty, all zero or contains NaN or Inf. If the route turns finite values into NaN or
  // Inf, all of the energy is error.
  Expected<RouteSample> measure(ConstValues sample, const Key& key);

 private:
  RouteError(std::unique_ptr<Codec> codec, std::unique_ptr<Codec> dense);

  Status encode_and_decode(ConstValues sample, const Key& key);

  std::unique_ptr<Codec> codec_;  // null for powersgd
  std::unique_ptr<Codec> dense_;  // fp32, to widen values

  // Buffers.
  std::vector<std::byte> own_;
  std::vector<std::byte> statistics_;
  std::vector<std::uint8_t> widths_;
  std::vector<std::byte> message_;
  std::vector<float> values_;
  std::vector<float> decoded_;
};

// For all regions of a binding.
class RouteErrors {
 public:
  // Borrows the binding.
  RouteErrors(const Binding& binding, std::uint64_t seed, std::uint32_t rank);

  // Calls visit(parameter, values) for the values of a bucket that are sampled in its step, until
  // one call fails. A sample does not extend beyond its slot. Any thread.
  template <typename Visit>
  Status for_each_sample(const BucketWork& work, Visit visit) const {
    const TrainingStep& step = work.step();
    std::size_t first = 0;  // of the slot, in its parameter
    std::uint32_t before = 0;
    for (const BucketSlot& slot : in_parameter_order(work.bucket().slots)) {
      if (slot.parameter != before) first = 0;
      before = slot.parameter;
      const std::size_t end = first + slot.count;
      const Piece piece = sample(step.statistics.step, slot.parameter,
                                 step.wanted[binding_.region_of(slot.parameter)]);
      if (piece.count > 0 && piece.first >= first && piece.first < end) {
        const std::size_t count = std::min(piece.count, end - piece.first);
        NF_RETURN_IF_ERROR(
            visit(slot.parameter, work.values(slot.offset + piece.first - first, count)));
      }
      first = end;
    }
    return {};
  }
  // The part of a parameter that is sampled in this step. Empty if the sample is in another
  // parameter, the route is dense, or the parameter is small. Any thread.
  Piece sample(std::uint64_t step, std::size_t parameter, const std::string& route) const;
  // The error of `route` on that sample. One thread at a time.
  RouteSample measure(std::uint64_t step, std::size_t parameter, const std::string& route,
                      ConstValues sample);

 private:
  struct Region {
    Sampler sampler;
    std::vector<std::size_t> parameters;  // in the order of the sampler
  };

  const Binding& binding_;
  const std::uint64_t seed_;
  const std::uint32_t rank_;
  std::vector<std::uint64_t> keys_;  // by parameter
  std::vector<Region> regions_;
  std::map<std::string, RouteError> routes_;
};

}  // namespace nf
