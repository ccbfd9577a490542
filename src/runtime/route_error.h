// What routes do to a rank's gradients: a sample is encoded and decoded here, without sending it,
// and compared with what it was. It is the error of one contribution; sums on the way add theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "neuron_fabric/binding.h"
#include "neuron_fabric/codec.h"
#include "runtime/sampler.h"
#include "runtime/statistics_reducer.h"

namespace nf {

// Of one route. Keeps its room from call to call. Not for two threads at the same time.
class RouteError {
 public:
  // What the draws are keyed by.
  struct Key {
    std::uint64_t seed = 0;
    std::uint64_t step = 0;
    std::uint64_t parameter = 0;  // parameter_key()
    std::uint32_t encoder = 0;    // this rank
  };

  // Fails with kBadConfig where `route` is none. That of powersgd measures nothing: what a step of
  // it leaves out is not lost but late, and says little of what training will miss.
  static Expected<RouteError> create(std::string_view route);

  // The sample is treated as a parameter of its own. No energy, and so nothing measured, where it
  // is empty, zero or not finite. Where it is finite and the route makes NaN or infinity of it, all
  // of its energy is error.
  Expected<RouteSample> measure(ConstValues sample, const Key& key);

 private:
  RouteError(std::unique_ptr<Codec> codec, std::unique_ptr<Codec> dense);

  Status encode_and_decode(ConstValues sample, const Key& key);

  std::unique_ptr<Codec> codec_;  // none for powersgd
  std::unique_ptr<Codec> dense_;  // fp32, to widen values

  // Room.
  std::vector<std::byte> own_;
  std::vector<std::byte> statistics_;
  std::vector<std::uint8_t> widths_;
  std::vector<std::byte> message_;
  std::vector<float> values_;
  std::vector<float> decoded_;
};

// Of all regions of a binding.
class RouteErrors {
 public:
  // Borrows the binding.
  RouteErrors(const Binding& binding, std::uint64_t seed, std::uint32_t rank);

  // The values of a parameter that the sample of this step is, from `first` on; empty where it lies
  // elsewhere, where the route is dense, or the parameter small. Any thread.
  Piece sample(std::uint64_t step, std::size_t parameter, const std::string& route) const;
  // What `route` does to that sample. One thread at a time.
  RouteSample measure(std::uint64_t step, std::size_t parameter, const std::string& route,
                      ConstValues sample);

 private:
  struct Region {
    Sampler sampler;
    std::vector<std::size_t> parameters;  // that the sampler counts
  };

  const Binding& binding_;
  const std::uint64_t seed_;
  const std::uint32_t rank_;
  std::vector<std::uint64_t> keys_;  // by parameter
  std::vector<Region> regions_;
  std::map<std::string, RouteError> routes_;
};

}  // namespace nf
