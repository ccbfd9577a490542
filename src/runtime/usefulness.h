// Whether low bits would shorten the steps of this job: the cost model, fed with the layout and the
// times of real steps. Everything it takes in is the same on every rank, and so is what it says.
#pragma once

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
  bool is_given =
      false;  // for another link than this one: what is measured here says nothing of it
  std::map<std::string, CodecFigures> codecs;  // by route
};

class Usefulness {
 public:
  // Borrows the binding.
  // `sum` says how low bits are summed, whatever its codec.
  Usefulness(const Binding& binding, CostFigures figures, std::uint32_t ranks,
             AllReduceOptions sum);

  // Learns from a step whose statistics have been summed.
  void observe(const TrainingStep& step);

  // Whether a step has been observed with its times.
  bool has_observed() const { return !buckets_.empty(); }

  // By region, for a step with the routes that the profile names at `step`; all where no step has
  // been observed with its times.
  std::vector<bool> decide(std::uint64_t step, const std::vector<bool>& in_use) const;

  struct Prediction {
    double exposed_seconds = 0;
    double busy_seconds = 0;  // of all buckets together
    std::uint64_t bytes = 0;  // that a rank sends
  };
  // Of a step with this layout and these routes by region; ready times are those learnt, or the
  // step's own where it has them.
  Prediction predict(const TrainingStep& step, std::span<const std::string> routes) const;

  double dense_correction() const { return model_.dense_correction(); }
  double low_bit_correction() const { return model_.low_bit_correction(); }
  void load_corrections(double dense, double low_bit) { model_.load_corrections(dense, low_bit); }

 private:
  std::vector<BucketLoad> works(std::span<const BucketLayout> buckets,
                                std::span<const std::string> routes) const;
  const TrafficModel& traffic_of(const std::string& route,
                                 const std::vector<std::uint32_t>& parameters) const;
  BucketLoad work_of(const BucketLayout& bucket, std::span<const std::string> routes) const;

  const Binding& binding_;
  const CostFigures figures_;
  const std::uint32_t ranks_;
  const AllReduceOptions sum_;
  CostModel model_;

  mutable std::map<std::pair<std::string, std::vector<std::uint32_t>>, TrafficModel> traffic_;

  // Of the steps observed.
  std::vector<BucketLayout> buckets_;
  std::vector<double> ready_;  // smoothed
};

}  // namespace nf
