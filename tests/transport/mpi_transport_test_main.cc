// One rank of a job that mpirun starts (see CMakeLists.txt). The first argument selects the job:
//
//   contract   all tests below; this program initialises MPI
//   alone      one exchange; the transport initialises MPI; all ranks exit with 0
//   killed     rank 1 is killed by a signal while the others wait for it
//   stuck      rank 1 never responds; the others abort at their deadline and exit
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "neuron_fabric/mpi_transport.h"
#include "transport/transport_contract.h"

namespace nf::test {
namespace {

using testing::Each;
using testing::HasSubstr;

class TransportContract : public testing::TestWithParam<ContractCase> {};

INSTANTIATE_TEST_SUITE_P(Mpi, TransportContract,
                         testing::ValuesIn(contract_cases().begin(), contract_cases().end()),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_P(TransportContract, Holds) {
  auto end = make_mpi_transport();
  ASSERT_TRUE(end) << to_string(end.status());
  GetParam().check(**end);
}

TEST(MpiTransport, HasTheNameOfTheCommandLineOption) {
  auto end = make_mpi_transport();
  ASSERT_TRUE(end);
  EXPECT_EQ((*end)->name(), "mpi");
}

TEST(MpiTransport, RejectsMessagesLongerThanIntMax) {
  auto end = make_mpi_transport();
  ASSERT_TRUE(end);
  std::byte byte{};
  Transfer transfer{.peer = ((*end)->rank() + 1) % (*end)->ranks(),
                    .bytes = {&byte, std::size_t{INT_MAX} + 1}};  // rejected before it is read
  const Status status = (*end)->send(transfer);
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("2147483648"));
}

TEST(MpiTransport, IsIndependentOfOtherTransportsOfTheJob) {
  auto first = make_mpi_transport();
  auto second = make_mpi_transport();
  ASSERT_TRUE(first && second);
  const std::uint32_t to = ((*first)->rank() + 1) % kContractRanks;
  const std::uint32_t from = ((*first)->rank() + 2) % kContractRanks;
  std::vector<std::byte> ones(4, std::byte{1});
  std::vector<std::byte> twos(4, std::byte{2});
  std::vector<std::byte> incoming(4);
  Transfer in_first{.peer = to, .bytes = ones};
  Transfer in_second{.peer = to, .bytes = twos};
  ASSERT_TRUE((*first)->send(in_first).ok());
  ASSERT_TRUE((*second)->send(in_second).ok());
  ASSERT_TRUE(receive_now(**second, from, incoming).ok());
  EXPECT_EQ(incoming, twos);
  ASSERT_TRUE(receive_now(**first, from, incoming).ok());
  EXPECT_EQ(incoming, ones);
  ASSERT_TRUE(finish(**first, in_first).ok());
  ASSERT_TRUE(finish(**second, in_second).ok());
}

TEST(MpiAllReduce, SumsOverAllRanks) {
  auto end = make_mpi_transport();
  ASSERT_TRUE(end);
  ASSERT_TRUE(mpi_barrier().ok());
  const std::uint32_t rank = (*end)->rank();
  std::vector<float> floats(1000, static_cast<float>(rank) + 0.5f);
  ASSERT_TRUE(mpi_all_reduce_floats(floats).ok());
  EXPECT_THAT(floats, Each(4.5f));
  std::vector<std::uint16_t> halves(1000, static_cast<std::uint16_t>(rank + 20000));
  ASSERT_TRUE(mpi_all_reduce_16bit(halves).ok());
  EXPECT_THAT(halves, Each(60003));
}

int fail(const Transport& end, const Status& status) {
  std::fprintf(stderr, "rank %u: %s\n", end.rank(), to_string(status).c_str());
  return 1;
}

// Passes a token from rank to rank, back to rank 0.
Status pass_a_token(Transport& end) {
  std::vector<std::byte> token(1000);
  const std::uint32_t to = (end.rank() + 1) % end.ranks();
  const std::uint32_t from = (end.rank() + end.ranks() - 1) % end.ranks();
  if (end.rank() == 0) NF_RETURN_IF_ERROR(send_now(end, to, token));
  NF_RETURN_IF_ERROR(receive_now(end, from, token));
  return end.rank() == 0 ? Status() : send_now(end, to, token);
}

int run(const std::string& job) {
  auto end = make_mpi_transport();
  if (!end) {
    std::fprintf(stderr, "%s\n", to_string(end.status()).c_str());
    return 1;
  }
  if (const Status status = pass_a_token(**end); !status.ok()) return fail(**end, status);
  if (job == "alone") return 0;
  if ((*end)->rank() == 1) {
    if (job == "killed") std::raise(SIGKILL);
    std::this_thread::sleep_for(std::chrono::minutes(10));
    return 0;
  }
  std::vector<std::byte> bytes(1000);
  Transfer transfer{.peer = 1, .bytes = bytes};
  Status status = (*end)->receive(transfer);
  const auto timeout = job == "killed" ? std::chrono::minutes(10) : std::chrono::seconds(1);
  if (status.ok()) status = (*end)->wait((*end)->now() + timeout);
  (*end)->abort(status);
  return fail(**end, status);
}

}  // namespace
}  // namespace nf::test

int main(int argc, char** argv) {
  const std::string job = argc > 1 ? argv[1] : "contract";
  if (job != "contract") return nf::test::run(job);
  MPI_Init(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  MPI_Finalize();
  return result;
}
