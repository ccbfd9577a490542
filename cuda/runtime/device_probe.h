// The probe of device memory.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "cuda/collective/device_collective.h"
#include "cuda/runtime/device_context.h"
#include "runtime/bucket_path.h"
#include "runtime/host_probe.h"

namespace nf::cuda {

class DeviceProbe final : public Probe {
 public:
  using FindCollective = std::function<Expected<DeviceCollective*>(const std::string& route)>;
  // Borrows the context and the results of `find`.
  DeviceProbe(const DeviceContext& context, DeviceAllocator& allocator, Collective collective,
              FindCollective find);
  // Deletes the route memory of its sums.
  ~DeviceProbe() override;

  Status shift(std::size_t bytes) override;
  Status sum_dense(std::size_t bytes) override;
  Status sum_low_bit(const std::string& route, std::uint64_t step) override;
  ProbeSize size() const override;

 private:
  Status wait_for(cudaStream_t stream);
  // Allocates and fills the values of sum_low_bit().
  Status make_call();

  const DeviceContext& context_;
  const bool scatters_;
  const FindCollective find_;
  DeviceBuffer sent_;
  DeviceBuffer received_;
  DeviceBuffer values_;
  std::optional<ProbeCall> call_;  // of values_
  std::set<DeviceCollective*> used_;
};

}  // namespace nf::cuda
