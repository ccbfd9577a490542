// The gradients that `nf quality` measures with: from a file, or made up.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/simulate.h"
#include "neuron_fabric/status.h"
#include "nf/plan/shapes.h"

namespace nf::cli {

// What was asked for; what is missing follows from the kind of gradients.
struct GradientRequest {
  std::string text;  // a file, mixture:SEED or gaussian:SEED
  std::optional<std::uint32_t> ranks;
  std::optional<std::uint64_t> elements;
  std::optional<double> correlation;
};

class QualityGradients {
 public:
  // Fails, naming what is wrong, on a file or a description that is none, and where more ranks or
  // elements are asked for than there are.
  static Expected<std::unique_ptr<QualityGradients>> open(const GradientRequest& request);
  virtual ~QualityGradients() = default;

  // As it was asked for; of a file, its name without folder and ending.
  const std::string& name() const { return name_; }
  std::uint32_t ranks() const { return ranks_; }
  std::uint64_t elements() const;
  const std::vector<ParameterShape>& parameters() const { return parameters_; }
  // Of two ranks' values, where it is known.
  std::optional<double> correlation() const { return correlation_; }

  // The values of a trial. Made-up ones differ from trial to trial, by their seed. Valid until the
  // next call.
  virtual Expected<const RankValues*> trial(std::uint32_t index) = 0;

 protected:
  QualityGradients(std::string name, std::uint32_t ranks, std::vector<ParameterShape> parameters,
                   std::optional<double> correlation)
      : name_(std::move(name)),
        ranks_(ranks),
        parameters_(std::move(parameters)),
        correlation_(correlation) {}

 private:
  const std::string name_;
  const std::uint32_t ranks_;
  const std::vector<ParameterShape> parameters_;
  const std::optional<double> correlation_;
};

}  // namespace nf::cli
