#include "nf/bench/codec_speed.h"

#include <fmt/format.h>

#include <cstring>

namespace nf::cli {
namespace {

// The upper bound: a memcpy of the values.
class Copy {
 public:
  explicit Copy(ConstValues from)
      : from_(from.data), bytes_(from.count * size_of(from.type)), to_(bytes_) {}

  std::vector<double> sample(int repeat) {
    return *sample_seconds(
        [this]() -> Status {
          if (bytes_ > 0) std::memcpy(to_.data(), from_, bytes_);
          return {};
        },
        repeat);
  }
  double gbps(std::span<const double> samples) const {
    return 2.0 * static_cast<double>(bytes_) / summarise(samples).seconds / 1e9;
  }

 private:
  const void* from_;
  std::size_t bytes_;
  Buffer to_;
};

}  // namespace

Expected<OpSpeed> speed_of(const std::string& spelling, const CodecOp& op,
                           std::span<const double> samples) {
  OpSpeed speed{.codec = spelling,
                .op = std::string(op.name),
                .bytes = op.bytes,
                .bits = op.bits,
                .vnmse = {},
                .timing = summarise(samples)};
  if (op.vnmse) {
    const Expected<double> vnmse = op.vnmse();
    if (!vnmse) return vnmse.status();
    speed.vnmse = *vnmse;
  }
  return speed;
}

Expected<std::vector<OpSpeed>> measure_codec(const std::string& spelling,
                                             const GradientPair& gradients, int repeat,
                                             Progress& progress) {
  progress.show(spelling);
  Expected<std::unique_ptr<CodecOps>> ops = CodecOps::make(spelling, gradients);
  if (!ops) return ops.status();
  Copy copy(gradients.values(0));
  std::vector<double> copies = copy.sample(repeat);
  std::vector<OpSpeed> speeds;
  for (const CodecOp& op : (*ops)->ops()) {
    progress.show(fmt::format("{} {}", spelling, op.name));
    const Expected<std::vector<double>> samples = sample_seconds(op.run, repeat);
    if (!samples) return samples.status();
    const std::vector<double> after = copy.sample(repeat);
    copies.insert(copies.end(), after.begin(), after.end());
    Expected<OpSpeed> speed = speed_of(spelling, op, *samples);
    if (!speed) return speed.status();
    speeds.push_back(std::move(*speed));
  }
  for (OpSpeed& speed : speeds) speed.roof_gbps = copy.gbps(copies);
  return speeds;
}

}  // namespace nf::cli
