#include "runtime/recorded_decisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "runtime/json_reader.h"

namespace nf {
namespace {

Status bad(std::size_t index, const std::string& why) {
  return {ErrorCode::kBadConfig, fmt::format("recorded decision {}: {}", index, why)};
}

}  // namespace

Expected<RecordedDecisions> RecordedDecisions::make(std::span<const MeasuredDecision> decisions,
                                                    const Profile& profile) {
  const std::vector<Region>& regions = profile.regions;
  RecordedDecisions recorded;
  recorded.by_step_[0].useful.assign(regions.size(), true);
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    const MeasuredDecision& decision = decisions[i];
    if (i > 0 && decision.from_step <= decisions[i - 1].from_step) {
      return bad(i, fmt::format("step {} comes after step {}", decision.from_step,
                                decisions[i - 1].from_step));
    }
    MeasuredInputs inputs{.useful = std::vector<bool>(regions.size(), false),
                          .is_over_capacity = decision.is_over_capacity};
    for (const std::string& name : decision.useful) {
      const auto found = std::ranges::find(regions, name, &Region::name);
      if (found == regions.end()) {
        return bad(i, fmt::format("the profile has no region {}", in_quotes(name)));
      }
      inputs.useful[static_cast<std::size_t>(found - regions.begin())] = true;
    }
    recorded.by_step_[decision.from_step] = std::move(inputs);
  }
  return recorded;
}

const MeasuredInputs& RecordedDecisions::at(std::uint64_t step) const {
  return std::prev(by_step_.upper_bound(step))->second;
}

}  // namespace nf
