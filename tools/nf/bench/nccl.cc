#include "nf/bench/nccl.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "cuda/base/launch.h"
#include "cuda/collective/device_collective.h"
#include "cuda/collective/route_memories.h"
#include "cuda/transport/nccl_transport.h"
#include "nf/bench/rank_sync.h"

namespace nf::cli {
namespace {

using cuda::to_status;

Status check_nccl(ncclResult_t result) {
  if (result == ncclSuccess) return {};
  return {ErrorCode::kUnsupported, fmt::format("NCCL: {}", ncclGetErrorString(result))};
}

class DeviceBench final : public NcclBench {
 public:
  explicit DeviceBench(std::unique_ptr<cuda::NcclTransport> transport)
      : transport_(std::move(transport)), buffer_(cuda::pool_allocator()) {}
  ~DeviceBench() override {
    sum_.reset();
    memories_.reset();
    buffer_.reset();  // stream-ordered, so before the stream is destroyed
    if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(stream_));
  }

  Status prepare() {
    return to_status(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
  }

  Status choose(const AllReduceCase& bench_case, const AllReduceBench& bench) override {
    sum_.reset();
    if (!bench_case.topology) return {};
    cuda::DeviceAllReduceOptions options{.codec = bench_case.codec,
                                         .topology = *bench_case.topology,
                                         .host_group_size = bench.host_group_size,
                                         .seed = 1};
    options.tile_bytes = bench.tile_bytes.value_or(options.tile_bytes);
    memories_.emplace(cuda::pool_allocator(), stream_);
    const Expected<cuda::RouteMemory*> memory = memories_->find(bench_case.codec);
    if (!memory) return memory.status();
    auto made = cuda::make_device_collective(*transport_, options, *memory);
    if (!made) return made.status();
    sum_ = std::move(*made);
    return {};
  }

  Status load(ConstValues values) override {
    const std::size_t bytes = values.count * size_of(values.type);
    NF_RETURN_IF_ERROR(buffer_.reserve(bytes, stream_));
    values_ = Values(buffer_.data(), values.count, values.type);
    NF_RETURN_IF_ERROR(to_status(
        cudaMemcpyAsync(values_.data, values.data, bytes, cudaMemcpyHostToDevice, stream_),
        "copy to the device"));
    return to_status(cudaStreamSynchronize(stream_), "copy to the device");
  }

  Status sum(std::uint64_t step, std::size_t rows) override {
    if (sum_ != nullptr) {
      const Gradient gradient{.parameter = parameter_key("bench"), .values = values_, .rows = rows};
      NF_RETURN_IF_ERROR(sum_->enqueue({.step = step, .gradients = {&gradient, 1}}, stream_));
    } else {
      const ncclDataType_t type = values_.type == DataType::kFloat32 ? ncclFloat32 : ncclBfloat16;
      NF_RETURN_IF_ERROR(check_nccl(ncclAllReduce(values_.data, values_.data, values_.count, type,
                                                  ncclSum, transport_->communicator(), stream_)));
    }
    return to_status(cudaStreamSynchronize(stream_), "sum on the device");
  }

  Status store(Values values) override {
    NF_RETURN_IF_ERROR(
        to_status(cudaMemcpyAsync(values.data, values_.data, values.count * size_of(values.type),
                                  cudaMemcpyDeviceToHost, stream_),
                  "copy from the device"));
    return to_status(cudaStreamSynchronize(stream_), "copy from the device");
  }

  std::optional<std::uint64_t> bytes_sent() const override {
    if (sum_ == nullptr) return {};
    return sum_->traffic().total();
  }

 private:
  std::unique_ptr<cuda::NcclTransport> transport_;
  std::optional<cuda::RouteMemories> memories_;  // must outlive sum_
  std::unique_ptr<cuda::DeviceCollective> sum_;
  cuda::DeviceBuffer buffer_;
  Values values_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

const bool kHasNccl = true;

Expected<std::shared_ptr<NcclBench>> NcclBench::create(Transport& rendezvous) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    return Status(ErrorCode::kUnsupported, "this host has no CUDA device");
  }
  const std::uint32_t rank = rendezvous.rank();
  if (rendezvous.ranks() > static_cast<std::uint32_t>(devices)) {
    ::setenv("NCCL_HOSTID", fmt::format("nf-rank-{}", rank).c_str(), 0);
    ::setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  }
  const int device = static_cast<int>(rank % static_cast<std::uint32_t>(devices));
  if (Status status = to_status(cudaSetDevice(device), "device"); !status.ok()) return status;
  // Waiting ranks must not spin: the socket threads need the cores.
  if (Status status = to_status(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), "device");
      !status.ok()) {
    return status;
  }

  ncclUniqueId identity{};
  if (rank == 0) {
    Expected<ncclUniqueId> made = cuda::NcclTransport::make_identity();
    if (!made) return made.status();
    identity = *made;
  }
  RankSync ranks(rendezvous);
  if (Status status = ranks.share(identity); !status.ok()) return status;
  Expected<std::unique_ptr<cuda::NcclTransport>> transport = cuda::NcclTransport::create(
      {.identity = identity, .rank = rank, .ranks = rendezvous.ranks()});
  if (!transport) return transport.status();
  auto bench = std::make_shared<DeviceBench>(std::move(*transport));
  if (Status status = bench->prepare(); !status.ok()) return status;
  return std::shared_ptr<NcclBench>(std::move(bench));
}

}  // namespace nf::cli
