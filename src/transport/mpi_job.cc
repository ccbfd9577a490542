#include "transport/mpi_job.h"

#include <fmt/format.h>
#include <mpi.h>

#include <array>
#include <atomic>
#include <climits>
#include <cstdlib>

#include "neuron_fabric/mpi_transport.h"

namespace nf {
namespace {

std::atomic<bool> has_failed = false;

bool was_initialised() {
  int flag = 0;
  MPI_Initialized(&flag);
  return flag != 0;
}

bool was_finalised() {
  int flag = 0;
  MPI_Finalized(&flag);
  return flag != 0;
}

// MPI_Finalize waits for all ranks: if one hangs, it never returns.
void end_mpi() {
  if (was_finalised()) return;
  if (has_failed) {
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  } else {
    MPI_Finalize();
  }
}

Status check_running() {
  if (mpi_is_running()) return {};
  return {ErrorCode::kInvalidArgument, "MPI is not initialised: call make_mpi_transport() first"};
}

Status result_of(std::string_view call, int error) {
  if (error == MPI_SUCCESS) return {};
  return {ErrorCode::kUnsupported, fmt::format("{} failed: {}", call, mpi_error_text(error))};
}

template <typename T>
Status all_reduce(std::span<T> values, MPI_Datatype type) {
  NF_RETURN_IF_ERROR(check_running());
  if (values.size() > INT_MAX) {
    return {ErrorCode::kInvalidArgument,
            fmt::format("{} values exceed MPI's limit of {}", values.size(), INT_MAX)};
  }
  return result_of("MPI_Allreduce",
                   MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), type,
                                 MPI_SUM, MPI_COMM_WORLD));
}

}  // namespace

Status start_mpi() {
  if (mpi_is_running()) return {};
  if (was_finalised()) return {ErrorCode::kInvalidArgument, "MPI is already finalised"};
  // A transport is used by one thread at a time, not always the same one.
  int provided = MPI_THREAD_SINGLE;
  NF_RETURN_IF_ERROR(result_of(
      "MPI_Init_thread", MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided)));
  std::atexit(end_mpi);
  return {};
}

bool mpi_is_running() { return was_initialised() && !was_finalised(); }

void mark_mpi_failed() { has_failed = true; }

std::string mpi_error_text(int error) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int size = 0;
  MPI_Error_string(error, text.data(), &size);
  return {text.data(), static_cast<std::size_t>(size)};
}

Status mpi_all_reduce_floats(std::span<float> values) { return all_reduce(values, MPI_FLOAT); }

Status mpi_all_reduce_16bit(std::span<std::uint16_t> values) {
  return all_reduce(values, MPI_UINT16_T);
}

Status mpi_barrier() {
  NF_RETURN_IF_ERROR(check_running());
  return result_of("MPI_Barrier", MPI_Barrier(MPI_COMM_WORLD));
}

}  // namespace nf
