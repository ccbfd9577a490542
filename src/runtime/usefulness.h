// Predicts whether low bits shorten the steps of this job: the cost model with the layout and the
// times of real steps. Its inputs are the same on every rank, and so are its outputs.
#pragma once

#include <array>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collective/traffic_model.h"
#include "neuron_fabric/binding.h"
#include "runtime/cost_model.h"
#include "runtime/training_step.h"

namespace nf {

struct CostFigures {
  LinkFigures link;
  bool is_given = false;  // by the caller for another link: measured times do not correct it
  std::map<std::string, CodecFigures> codecs;  // by route
};

class Usefulness {
 public:
  // Borrows the binding. `sum` holds the options of low-bit collectives; its codec is ignored.
  // `joins_routes` is that of the BucketPath.
  Usefulness(const Binding& binding, CostFigures figures, std::uint32_t ranks, AllReduceOptions sum,
             Collective collective = Collective::kAllReduce, bool joins_routes = true);

  // Takes a step whose statistics have been reduced.
  void observe(const TrainingStep& step);

  // Whether a step has been observed with its times.
  bool has_observed() const { return !buckets_.empty(); }

  // By region, for the routes of the profile at `step`. All are useful if no step has been observed
  // with its times.
  std::vector<bool> decide(std::uint64_t step, const std::vector<bool>& in_use) const;

  struct Prediction {
    double exposed_seconds = 0;
    double busy_seconds = 0;  // the sum of all buckets
    std::uint64_t bytes = 0;  // that a rank sends
  };
  // For the layout of this step and these routes by region. Ready times are those of the step if it
  // has them, otherwise the smoothed ones.
  Prediction predict(const TrainingStep& step, std::span<const std::string> routes) const;

  double dense_correction() const { return model_.dense_correction(); }
  double low_bit_correction() const { return model_.low_bit_correction(); }
  void load_corrections(double dense, double low_bit) { model_.load_corrections(dense, low_bit); }

 private:
  std::vector<BucketLoad> loads(std::span<const BucketLayout> buckets,
                                std::span<const std::string> routes) const;
  // Slots of one bucket that share a route, in a form that is a key: parameter, values, row.
  using Slots = std::vector<std::array<std::size_t, 3>>;
  const TrafficModel& traffic_of(const std::string& route, const Slots& slots) const;
  Expected<TrafficModel> model(const AllReduceOptions& options, const Slots& slots) const;
  BucketLoad load_of(const BucketLayout& bucket, std::span<const std::string> routes) const;

  const Binding& binding_;
  const CostFigures figures_;
  const std::uint32_t ranks_;
  const Collective collective_;
  const bool joins_routes_;
  const AllReduceOptions sum_;
  CostModel model_;

  mutable std::map<std::pair<std::string, Slots>, TrafficModel> traffic_;

  // From the observed steps.
  std::vector<BucketLayout> buckets_;
  std::vector<double> ready_;  // smoothed
};

}  // namespace nf
