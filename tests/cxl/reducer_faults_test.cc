// Every kind of rejected request: the answer, the error registers, and that nothing else changes.
#include <gtest/gtest.h>

#include <functional>

#include "cxl/lines.h"
#include "cxl/reducer.h"

namespace nf::cxl {
namespace {

using test::Generator;
namespace reg = region_register;

class RejectedRequests : public testing::Test {
 protected:
  void enable(Mode mode, std::uint64_t workers = 3) {
    config_ = test::config_of(mode, workers, 5);
    ASSERT_EQ(reducer_.enable(0, config_), Fault::kOk);
  }

  std::uint64_t region(std::uint64_t offset) const {
    return reducer_.read_register(reg::at(0, offset));
  }

  void expect_rejected(const Request& request, Fault fault) {
    const std::uint64_t errors = region(reg::kErrors);
    const std::uint64_t completed = region(reg::kCompleted);
    reducer_.write_register(reg::at(0, reg::kError), 0);
    EXPECT_EQ(reducer_.handle(request), Answer{.fault = fault});
    EXPECT_EQ(region(reg::kError), static_cast<std::uint64_t>(fault));
    EXPECT_EQ(region(reg::kErrorAddress), request.address);
    EXPECT_EQ(region(reg::kErrors), errors + 1);
    EXPECT_EQ(region(reg::kStatus) & 4u, 4u);
    EXPECT_EQ(region(reg::kCompleted), completed);
  }

  void write(std::uint64_t worker, std::uint64_t line, const Line& data = {}) {
    ASSERT_EQ(reducer_.handle(test::write_of(config_, worker, line, data)).fault, Fault::kOk);
  }

  Generator generator_{10};
  Reducer reducer_;
  RegionConfig config_;
};

TEST_F(RejectedRequests, ReadsBeforeAllWorkersHaveWritten) {
  for (const Mode mode : {Mode::kFp32, Mode::kGBinary, Mode::kGTernary}) {
    reducer_ = Reducer();
    ASSERT_NO_FATAL_FAILURE(enable(mode));
    expect_rejected(test::read_of(config_, 3, 1), Fault::kNotComplete);
    write(0, 1);
    write(2, 1);
    expect_rejected(test::read_of(config_, 3, 1), Fault::kNotComplete);
    write(1, 1);
    EXPECT_EQ(reducer_.handle(test::read_of(config_, 3, 1)).fault, Fault::kOk);
    expect_rejected(test::read_of(config_, 3, 0), Fault::kNotComplete);
  }
}

TEST_F(RejectedRequests, ReadsOfIdentityBeforeTheWorkerHasWritten) {
  ASSERT_NO_FATAL_FAILURE(enable(Mode::kIdentity));
  write(0, 1);
  expect_rejected(test::read_of(config_, 1, 1), Fault::kNotComplete);
  EXPECT_EQ(reducer_.handle(test::read_of(config_, 0, 1)).fault, Fault::kOk);
}

TEST_F(RejectedRequests, SecondWritesKeepTheFirst) {
  for (const Mode mode : kModes) {
    reducer_ = Reducer();
    ASSERT_NO_FATAL_FAILURE(enable(mode, 1));
    const Line line = test::random_line(generator_, mode);
    write(0, 2, line);
    const Request result = test::read_of(config_, mode == Mode::kIdentity ? 0 : 1, 2);
    const Line before = reducer_.handle(result).data;
    expect_rejected(test::write_of(config_, 0, 2, test::random_line(generator_, mode)),
                    Fault::kDuplicate);
    EXPECT_EQ(reducer_.handle(result).data, before);
  }
}

TEST_F(RejectedRequests, BytesThatDoNotEncodeDigits) {
  ASSERT_NO_FATAL_FAILURE(enable(Mode::kGTernary, 1));
  std::vector<std::byte> bytes(kLineBytes, std::byte{121});
  bytes[63] = std::byte{243};
  expect_rejected(test::write_of(config_, 0, 0, line_of(bytes)), Fault::kBadDigits);
  bytes[63] = std::byte{242};
  write(0, 0, line_of(bytes));  // the rejected write did not count as an arrival
}

TEST_F(RejectedRequests, AccessesThatTheModeDoesNotSupport) {
  for (const Mode mode : {Mode::kFp32, Mode::kGBinary, Mode::kGTernary}) {
    reducer_ = Reducer();
    ASSERT_NO_FATAL_FAILURE(enable(mode));
    expect_rejected(test::read_of(config_, 0, 0), Fault::kWrongMode);
    expect_rejected(test::write_of(config_, 3, 0, {}), Fault::kWrongMode);
  }
}

TEST_F(RejectedRequests, LinesBeyondTheLengthOfAWindow) {
  ASSERT_NO_FATAL_FAILURE(enable(Mode::kGBinary));
  expect_rejected(test::write_of(config_, 0, 5, {}), Fault::kOutOfRange);
  expect_rejected(test::read_of(config_, 4, 7), Fault::kOutOfRange);
}

TEST_F(RejectedRequests, MisalignedAddresses) {
  ASSERT_NO_FATAL_FAILURE(enable(Mode::kGBinary));
  Request request = test::write_of(config_, 0, 0, {});
  request.address += 8;
  expect_rejected(request, Fault::kMisaligned);
}

TEST_F(RejectedRequests, AddressesOutsideAllRegionsAreReportedByTheDevice) {
  ASSERT_NO_FATAL_FAILURE(enable(Mode::kGBinary));
  const std::uint64_t end = config_.base + (5ull << config_.stride);  // three workers, two planes
  for (const std::uint64_t address : {config_.base - kLineBytes, end, std::uint64_t{0}}) {
    reducer_.write_register(device_register::kError, 0);
    EXPECT_EQ(reducer_.handle({.is_write = false, .address = address}).fault, Fault::kOutOfRange);
    EXPECT_EQ(reducer_.read_register(device_register::kError),
              static_cast<std::uint64_t>(Fault::kOutOfRange));
    EXPECT_EQ(reducer_.read_register(device_register::kErrorAddress), address);
  }
  EXPECT_EQ(region(reg::kErrors), 0u);
  ASSERT_EQ(reducer_.control(0, Control::kDisable), Fault::kOk);
  EXPECT_EQ(reducer_.handle(test::read_of(config_, 3, 0)).fault, Fault::kOutOfRange);
}

TEST_F(RejectedRequests, KeepTheFirstErrorUntilCleared) {
  ASSERT_NO_FATAL_FAILURE(enable(Mode::kGBinary));
  reducer_.handle(test::read_of(config_, 3, 1));
  reducer_.handle(test::write_of(config_, 0, 5, {}));
  EXPECT_EQ(region(reg::kError), static_cast<std::uint64_t>(Fault::kNotComplete));
  EXPECT_EQ(region(reg::kErrors), 2u);
  reducer_.write_register(reg::at(0, reg::kError), 0);
  EXPECT_EQ(region(reg::kError), 0u);
  EXPECT_EQ(region(reg::kStatus) & 4u, 0u);
}

}  // namespace
}  // namespace nf::cxl
