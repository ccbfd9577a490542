// How the core reports failure. Nothing in the core throws for an expected failure, prints or
// aborts: it returns a Status, or an Expected<T> where there is also a result.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace nf {

enum class ErrorCode {
  kOk,
  kInvalidArgument,   // a caller's sizes or values do not fit together
  kBadConfig,         // an unknown codec, option or key; the message names the nearest known one
  kCorruptFrame,      // bytes that no encoder could have written, or that a checksum disowns
  kForeignFrame,      // a sound frame, but of another codec, epoch or format version
  kUnsupported,       // this machine or this build cannot do it
  kDisagreement,      // ranks were asked for different things; the message says what differs
  kPeerLost,          // another rank is gone
  kAborted,           // another rank gave up; the message has its reason
  kDeadlineExceeded,  // somebody did not answer in time
  kOutOfMemory,       // of a device
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

// A T or the reason why there is none; the shape of C++23's std::expected<T, Status>.
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
