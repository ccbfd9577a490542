// Error reporting. The core does not throw for expected failures, print or abort: functions return
// a Status, or an Expected<T> if they also have a result.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace nf {

enum class ErrorCode {
  kOk,
  kInvalidArgument,   // the caller's sizes or values do not match
  kBadConfig,         // an unknown codec, option or key; the message suggests the nearest one
  kCorruptFrame,      // bytes that no encoder writes, or a wrong checksum
  kForeignFrame,      // a valid frame of another codec, epoch or format version
  kUnsupported,       // not supported by this host or this build
  kDisagreement,      // ranks made different calls; the message names the difference
  kPeerLost,          // a peer exited or the connection to it broke
  kAborted,           // another rank aborted; the message contains its reason
  kDeadlineExceeded,  // a peer did not respond in time
  kOutOfMemory,       // device memory is exhausted
};

std::string_view to_string(ErrorCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == ErrorCode::kOk; }
  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  ErrorCode code_ = ErrorCode::kOk;
  std::string message_;
};

// "invalid_argument: wire is 12 bytes, expected 16".
std::string to_string(const Status& status);

// A T or an error; the interface of C++23's std::expected<T, Status>.
template <typename T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Expected(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const { return value_.has_value(); }
  explicit operator bool() const { return has_value(); }
  const Status& status() const { return status_; }

  // Precondition of all four: has_value().
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace nf

#define NF_RETURN_IF_ERROR(expression)                                            \
  do {                                                                            \
    if (::nf::Status nf_status = (expression); !nf_status.ok()) return nf_status; \
  } while (false)
