#include "nf/quality/rank_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <numeric>
#include <string_view>

#include "base/buffer.h"
#include "nf/quality/threads.h"
#include "nf/support/gradients.h"
#include "nf/support/npy.h"

namespace nf::cli {
namespace {

// If synthetic values need more bytes than this, they are generated on each use.
constexpr std::uint64_t kMaxCachedBytes = std::uint64_t{1} << 30;

Status bad(std::string message) { return {ErrorCode::kBadConfig, std::move(message)}; }

// The rows of a file, one per rank; the parameters are concatenated.
class FileGradients final : public QualityGradients, private RankValues {
 public:
  FileGradients(const std::string& path, NpyArray array, std::uint32_t ranks,
                std::vector<ParameterShape> parameters)
      : QualityGradients(std::filesystem::path(path).stem().string(), ranks, std::move(parameters),
                         {}),
        array_(std::move(array)) {
    for (const ParameterShape& parameter : this->parameters()) {
      starts_.push_back(end_);
      end_ += parameter.count;
    }
  }

  Expected<const RankValues*> trial(std::uint32_t /*index*/) override { return this; }

 private:
  std::span<const float> read(std::uint32_t rank, std::size_t parameter, std::size_t first,
                              std::span<float> scratch) const override {
    return array_.row(rank).subspan(starts_[parameter] + first, scratch.size());
  }

  const NpyArray array_;
  std::vector<std::size_t> starts_;  // per parameter
  std::size_t end_ = 0;              // of the last parameter
};

// Generated values. All elements are one parameter.
class SyntheticGradients final : public QualityGradients, private RankValues {
 public:
  SyntheticGradients(const GradientMixture& mixture, std::uint32_t ranks,
                     const ParameterShape& parameter)
      : QualityGradients(fmt::format("{}:{}", parameter.name, mixture.seed), ranks, {parameter},
                         mixture.correlation),
        mixture_(mixture),
        is_cached_(elements() <= kMaxCachedBytes / sizeof(float) / ranks) {}

  Expected<const RankValues*> trial(std::uint32_t index) override {
    GradientMixture mixture = mixture_;
    mixture.seed += index;
    common_ = std::make_unique<CommonGradients>(mixture, elements());
    if (!is_cached_) return this;
    if (cache_.size() == 0) {
      cache_ = Buffer(elements() * ranks() * sizeof(float));
      values_ = cache_.as<float>();
    }
    const Status status = for_each_part(ranks(), [&](std::size_t rank) -> Status {
      common_->fill(static_cast<std::uint32_t>(rank), 0, row(rank));
      return {};
    });
    if (!status.ok()) return status;
    return this;
  }

 private:
  std::span<float> row(std::size_t rank) const {
    return values_.subspan(rank * elements(), elements());
  }

  std::span<const float> read(std::uint32_t rank, std::size_t /*parameter*/, std::size_t first,
                              std::span<float> scratch) const override {
    if (is_cached_) return row(rank).subspan(first, scratch.size());
    common_->fill(rank, first, scratch);
    return scratch;
  }

  const GradientMixture mixture_;
  const bool is_cached_;
  std::unique_ptr<CommonGradients> common_;
  Buffer cache_;
  std::span<float> values_;  // in cache_, rank after rank
};

// The seed if the text is `kind:SEED`; nullopt if it is another source.
Expected<std::optional<std::uint64_t>> seed_of(std::string_view text, std::string_view kind) {
  if (text != kind && !text.starts_with(std::string(kind) + ':'))
    return std::optional<std::uint64_t>();
  const std::string_view digits = text.substr(std::min(text.size(), kind.size() + 1));
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), seed);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) {
    return bad(fmt::format("--gradients {}: the seed must be a whole number, for example {}:1",
                           text, kind));
  }
  return std::optional(seed);
}

// The parameters in FILE.json next to FILE.npy; without that file, one parameter.
Expected<std::vector<ParameterShape>> parameters_of(const std::string& path,
                                                    std::uint64_t elements) {
  const std::filesystem::path shapes = std::filesystem::path(path).replace_extension(".json");
  std::error_code ignored;
  if (!std::filesystem::exists(shapes, ignored)) {
    return std::vector{ParameterShape{.name = "all", .count = elements}};
  }
  Expected<ModelShapes> model = read_shapes(shapes.string());
  if (!model) return model.status();
  if (model->count() != elements) {
    return bad(fmt::format("{}: the parameters have {} values, but {} has {} per rank",
                           shapes.string(), model->count(), path, elements));
  }
  return std::move(model->parameters);
}

// Truncates the parameters to the first `elements` values.
void cut(std::vector<ParameterShape>& parameters, std::uint64_t elements) {
  for (ParameterShape& parameter : parameters) {
    parameter.count = std::min(parameter.count, elements);
    elements -= parameter.count;
  }
}

Expected<std::unique_ptr<QualityGradients>> open_file(const GradientRequest& request) {
  if (request.correlation) {
    return bad("--correlation is only valid with mixture:SEED and gaussian:SEED");
  }
  std::error_code ignored;
  if (!std::filesystem::exists(request.text, ignored)) {
    return bad(
        fmt::format("--gradients: file '{}' does not exist; pass FILE.npy, mixture:SEED or "
                    "gaussian:SEED",
                    request.text));
  }
  Expected<NpyArray> array = NpyArray::open(request.text);
  if (!array) return array.status();
  if (array->rows() == 0 || array->columns() == 0) {
    return bad(fmt::format("{}: the array is empty: its shape is ({}, {})", request.text,
                           array->rows(), array->columns()));
  }
  const std::uint64_t ranks = request.ranks.value_or(static_cast<std::uint32_t>(
      std::min<std::size_t>(array->rows(), std::numeric_limits<std::uint32_t>::max())));
  const std::uint64_t elements = request.elements.value_or(array->columns());
  if (ranks > array->rows()) {
    return bad(
        fmt::format("--ranks {} exceeds the {} ranks of {}", ranks, array->rows(), request.text));
  }
  if (elements > array->columns()) {
    return bad(fmt::format("--elements {} exceeds the {} elements per rank of {}", elements,
                           array->columns(), request.text));
  }
  Expected<std::vector<ParameterShape>> parameters = parameters_of(request.text, array->columns());
  if (!parameters) return parameters.status();
  cut(*parameters, elements);
  return std::unique_ptr<QualityGradients>(std::make_unique<FileGradients>(
      request.text, std::move(*array), static_cast<std::uint32_t>(ranks), std::move(*parameters)));
}

}  // namespace

std::uint64_t QualityGradients::elements() const {
  return std::accumulate(
      parameters_.begin(), parameters_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const ParameterShape& parameter) { return sum + parameter.count; });
}

Expected<std::unique_ptr<QualityGradients>> QualityGradients::open(const GradientRequest& request) {
  for (const bool is_gaussian : {false, true}) {
    const std::string kind = is_gaussian ? "gaussian" : "mixture";
    const Expected<std::optional<std::uint64_t>> seed = seed_of(request.text, kind);
    if (!seed) return seed.status();
    if (!*seed) continue;
    const GradientMixture mixture{.seed = **seed,
                                  .correlation = request.correlation.value_or(
                                      is_gaussian ? kGaussianCorrelation : kMixtureCorrelation),
                                  .is_gaussian = is_gaussian};
    return std::unique_ptr<QualityGradients>(std::make_unique<SyntheticGradients>(
        mixture, request.ranks.value_or(kDefaultRanks),
        ParameterShape{.name = kind, .count = request.elements.value_or(kDefaultElements)}));
  }
  return open_file(request);
}

}  // namespace nf::cli
