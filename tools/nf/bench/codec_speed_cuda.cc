#include "nf/bench/codec_speed_cuda.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "nf/bench/cuda_ops.h"

namespace nf::cli {
namespace {

constexpr int kWarmUps = 3;

using cuda::to_status;

// Times work on the default stream with CUDA events.
class Stopwatch {
 public:
  Stopwatch() {
    for (cudaEvent_t& event : events_) {
      if (cudaEventCreate(&event) != cudaSuccess) event = nullptr;
    }
  }
  ~Stopwatch() {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  Expected<std::vector<double>> sample(const Work& work, int repeat) {
    std::vector<double> samples;
    for (int i = -kWarmUps; i < repeat; ++i) {
      cudaEventRecord(events_[0], nullptr);
      if (Status status = work(); !status.ok()) return status;
      cudaEventRecord(events_[1], nullptr);
      if (Status status = to_status(cudaEventSynchronize(events_[1]), "run"); !status.ok()) {
        return status;
      }
      float milliseconds = 0;
      if (Status status = to_status(cudaEventElapsedTime(&milliseconds, events_[0], events_[1]),
                                    "elapsed time");
          !status.ok()) {
        return status;
      }
      if (i >= 0) samples.push_back(1e-3 * static_cast<double>(milliseconds));
    }
    return samples;
  }

 private:
  cudaEvent_t events_[2] = {};
};

}  // namespace

const bool kHasCuda = true;

Expected<std::string> cuda_architecture() {
  int device = 0;
  int major = 0;
  int minor = 0;
  for (const cudaError_t error :
       {cudaGetDevice(&device),
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device)}) {
    if (error != cudaSuccess) return to_status(error, "no CUDA device");
  }
  return fmt::format("sm_{}{}", major, minor);
}

bool has_cuda_codec(const std::string& spelling) {
  const Expected<std::unique_ptr<Codec>> codec = make_codec(spelling);
  return codec && cuda::make_device_codec(**codec);
}

Expected<std::vector<OpSpeed>> measure_codec_on_cuda(const std::string& spelling,
                                                     const GradientPair& gradients,
                                                     std::uint64_t count, int repeat,
                                                     Progress& progress) {
  if (count > cuda::DeviceCodec::kMaxValues) {
    return Status(ErrorCode::kInvalidArgument,
                  fmt::format("--count {} exceeds the limit of CUDA codecs, {}", count,
                              cuda::DeviceCodec::kMaxValues));
  }
  progress.show(spelling);
  DeviceOps codec(gradients, count);
  if (Status status = codec.prepare(spelling); !status.ok()) return status;
  Stopwatch stopwatch;
  std::vector<double> copies;
  std::vector<OpSpeed> speeds;
  for (const CodecOp& op : codec.ops()) {
    progress.show(fmt::format("{} {}", spelling, op.name));
    const Expected<std::vector<double>> copied = stopwatch.sample(codec.copy(), repeat);
    if (!copied) return copied.status();
    copies.insert(copies.end(), copied->begin(), copied->end());
    const Expected<std::vector<double>> samples = stopwatch.sample(op.run, repeat);
    if (!samples) return samples.status();
    Expected<OpSpeed> speed = speed_of(spelling, op, *samples);
    if (!speed) return speed.status();
    speeds.push_back(std::move(*speed));
  }
  const double bytes = 2.0 * static_cast<double>(count * size_of(gradients.type()));
  for (OpSpeed& speed : speeds) speed.roof_gbps = bytes / summarise(copies).seconds / 1e9;
  return speeds;
}

}  // namespace nf::cli
