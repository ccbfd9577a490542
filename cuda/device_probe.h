// Measures what travels from device memory.
#pragma once

#include <functional>
#include <string>

#include "cuda/device_all_reduce.h"
#include "cuda/device_surroundings.h"
#include "runtime/bucket_path.h"

namespace nf::cuda {

class DeviceProbe final : public Probe {
 public:
  using FindSum = std::function<Expected<DeviceAllReduce*>(const std::string& route)>;
  // Borrows the surroundings and what `find` finds.
  DeviceProbe(const DeviceSurroundings& surroundings, DeviceAllocator& allocator, FindSum find);
  ~DeviceProbe() override;

  Status pass_on(std::size_t bytes) override;
  Status sum_dense(std::size_t bytes) override;
  Status sum_low_bit(const std::string& route, std::uint64_t step) override;
  std::size_t values() const override;

 private:
  Status wait_for_stream();

  const DeviceSurroundings& surroundings_;
  const FindSum find_;
  DeviceBuffer sent_;
  DeviceBuffer received_;
  DeviceBuffer values_;
};

}  // namespace nf::cuda
