// The gradients of `nf quality`: from a file, or synthetic.
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

// The defaults of synthetic gradients.
inline constexpr std::uint32_t kDefaultRanks = 8;
inline constexpr std::uint64_t kDefaultElements = std::uint64_t{32'768} * 256;
inline constexpr double kMixtureCorrelation = 0.5;
inline constexpr double kGaussianCorrelation = 0;

// Empty fields have the default of the source.
struct GradientRequest {
  std::string text;  // a file, mixture:SEED or gaussian:SEED
  std::optional<std::uint32_t> ranks;
  std::optional<std::uint64_t> elements;
  std::optional<double> correlation;
};

class QualityGradients {
 public:
  // Fails with the reason if the file or the seed is invalid, or if the request exceeds the ranks
  // or elements of the file.
  static Expected<std::unique_ptr<QualityGradients>> open(const GradientRequest& request);
  virtual ~QualityGradients() = default;

  // The source: "mixture:1", or the name of the file without directory and extension.
  const std::string& name() const { return name_; }
  std::uint32_t ranks() const { return ranks_; }
  std::uint64_t elements() const;
  const std::vector<ParameterShape>& parameters() const { return parameters_; }
  // The correlation of the values of two ranks; empty if it is unknown.
  std::optional<double> correlation() const { return correlation_; }

  // The values of a trial, valid until the next call. Each trial of synthetic gradients uses
  // another seed.
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
